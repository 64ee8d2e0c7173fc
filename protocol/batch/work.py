"""Measures the work of opening batches, so that the caller can limit it.

A batch's size does not show the work: a megabyte may hold two million empty records, or inflate to gigabytes. So code
that opens batches calls `Spend` with units of work as it proceeds; `Spend` may raise, or wait. A unit is a record or a
record header; `units` gives the units of inflating and compressing bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Spend = Callable[[int], None]
"""Called with the units of work about to be done; with 0 where it may wait."""

EACH: Final = 512
"""The most units between two calls, for work counted one by one."""
_BYTES: Final = 512
_GZIP, _GZIP_BYTES = 1, 128  # takes four times as long as the others to compress


def units(size: int, codec: int = 0) -> int:
    """The units of this many bytes; with `codec`, of inflated bytes that will be compressed again."""
    return size // (_GZIP_BYTES if codec == _GZIP else _BYTES)


def unlimited(_count: int) -> None:
    """A `Spend` without a limit, for work that delays nothing else."""
