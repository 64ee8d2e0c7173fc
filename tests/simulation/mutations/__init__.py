"""Faults seeded into the shipped code, which the simulation must find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def patched(name: str) -> Iterator[None]:
    """The fault of that name is in the code while the block runs; '' for none."""
    if name:
        raise KeyError(name)
    yield
