"""Kafka clusters in memory, kept to the rules of real brokers (3.9.1, 4.3.1) that a gateway leans on."""
