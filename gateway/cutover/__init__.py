"""Moves a topic's writes from one cluster to the other: write pause, promote, failback, failover."""
