"""Kafka clusters in memory, kept to the rules of real brokers (3.9.1, 4.3.1) that a gateway leans on."""

from __future__ import annotations

from tests.simulation.kafka import fetch, metadata, offsets, produce

HANDLER_MODULES = (fetch, metadata, offsets, produce)
"""Modules whose import registers handlers."""
