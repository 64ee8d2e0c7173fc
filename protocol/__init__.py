"""Kafka's protocol as bytes: frames, headers, messages, and record batches (`batch/`)."""

from protocol import kafka_tables

kafka_tables.load()
