"""Failover: moves a topic's writes to the target without waiting for the source."""
