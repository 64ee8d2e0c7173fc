"""The coordinator of groups, as brokers have it."""
