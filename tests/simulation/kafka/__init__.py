"""Kafka clusters in memory, kept to the rules of real brokers (3.9.1, 4.3.1) that a gateway leans on."""

from tests.simulation.kafka import (  # noqa: F401  (they register their handlers)
    admin_configs,
    admin_topics,
    group_admin,
    group_handlers,
    offset_handlers,
    transaction_handlers,
)
