"""Kafka clusters in memory, kept to the rules of real brokers (3.9.1, 4.3.1) that a gateway leans on."""

from __future__ import annotations

from tests.simulation.kafka import (
    admin_configs,
    admin_topics,
    fetch,
    group_admin,
    group_handlers,
    metadata,
    offset_handlers,
    offsets,
    produce,
    transaction_handlers,
)

HANDLER_MODULES = (
    admin_configs,
    admin_topics,
    fetch,
    group_admin,
    group_handlers,
    metadata,
    offset_handlers,
    offsets,
    produce,
    transaction_handlers,
)
"""Modules whose import registers handlers."""
