"""Kafka's protocol as bytes."""

from protocol import kafka_tables

kafka_tables.load()
