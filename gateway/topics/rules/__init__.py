"""Decisions on mirror topics: pure."""
