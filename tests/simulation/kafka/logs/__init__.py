"""Logs of partitions: appended, fetched, replicated, cleaned, trimmed."""
