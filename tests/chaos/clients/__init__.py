"""Clients of a run: threads and processes that record what they do."""
