"""Failover: writes go to the target at once, whatever the source does."""
