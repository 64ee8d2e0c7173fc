"""Decisions of this room: pure."""
