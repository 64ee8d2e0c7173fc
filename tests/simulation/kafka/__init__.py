"""Kafka clusters in memory, kept to the rules of real brokers (3.9.1, 4.3.1) that a gateway leans on."""

from __future__ import annotations

from tests.simulation.kafka import acls, admin_configs, admin_topics, metadata, offsets, produce, transaction_handlers
from tests.simulation.kafka.groups import group_admin, group_handlers, offset_handlers
from tests.simulation.kafka.logs import fetch

HANDLER_MODULES = (
    acls,
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
