"""Buffers for large frames, used again once nobody looks at them any more.

A fresh buffer of 8 MB costs the kernel two thousand page faults and as many cleared pages, for each fetch of a mirror.
"""

from __future__ import annotations

from typing import Final

_LARGE: Final = 1024 * 1024  # smaller ones are cheap
_KEPT_BYTES: Final = 48 * 1024 * 1024  # of one event loop, all connections together


class LargeBuffers:
    """Hands out writable views. Who has a view, or a part of one, keeps its buffer from being used again."""

    __slots__ = ("_bytes", "_kept")

    def __init__(self) -> None:
        self._kept: list[bytearray] = []
        self._bytes = 0

    def take(self, size: int) -> memoryview:
        """A buffer of exactly `size` bytes; what is in it is anything."""
        if size < _LARGE:
            return memoryview(bytearray(size))
        for buffer in self._kept:
            if len(buffer) >= size and _is_free(buffer):
                return memoryview(buffer)[:size]
        buffer = bytearray(-(-size // _LARGE) * _LARGE)
        if self._bytes + len(buffer) <= _KEPT_BYTES:
            self._kept.append(buffer)
            self._bytes += len(buffer)
        return memoryview(buffer)[:size]


def _is_free(buffer: bytearray) -> bool:
    """No view of it is left: Python lets nobody change the size of a bytearray that is looked at."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
