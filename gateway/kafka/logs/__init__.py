"""Logs read as such: a range of one, one that is followed, one that is compacted."""
