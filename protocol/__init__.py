"""Kafka's protocol as bytes. Not to be imported by others: `lockgate` is."""

from typing import Final

from protocol import kafka_tables

DISTRIBUTION: Final = "lockgate"
"""Whose package this is (`lockgate.require_own_packages`)."""

kafka_tables.load()
