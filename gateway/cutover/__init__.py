"""Moving where a topic is written: write pause, promote, failback, failover."""
