"""Failback: reverse, truncate-and-restore, and the promote that brings a topic home."""
