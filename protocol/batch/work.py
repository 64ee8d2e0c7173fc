"""How much work it is to open batches, and who says how much of it may be done in one go.

What a batch takes to be opened its size does not say: a megabyte may hold two million empty records, or inflate to
gigabytes. So whoever opens batches asks before it goes on: `Spend` is told units of work while they are done, and may
raise, or wait. A unit is a record or a header of one; `units` says what inflating and compressing bytes count for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Spend = Callable[[int], None]
"""Called with units of work that are about to be done; with 0, where it may wait."""

EACH: Final = 512
"""Units between two calls, at most, of what is counted one by one."""
_BYTES: Final = 512
_GZIP, _GZIP_BYTES = 1, 128  # which takes four times as long as the others to compress


def units(size: int, codec: int = 0) -> int:
    """What so many bytes count for; of inflated ones that are to be compressed again, with the codec."""
    return size // (_GZIP_BYTES if codec == _GZIP else _BYTES)


def unlimited(_count: int) -> None:
    """A `Spend` for those whom nobody waits for."""
