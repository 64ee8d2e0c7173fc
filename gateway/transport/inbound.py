"""Where a connection's bytes land, and how they become frames. No I/O.

Bytes are read straight into a chunk; a frame that lies inside it is handed out as a read-only view of the
chunk, without a copy. A frame that does not fit gets a buffer of its own, of its exact size, and the rest of
it is read straight into that. A chunk is never written again below its fill mark, so a view stays valid as long as it
exists (and keeps its chunk alive).

Buffers of large frames are reused once no view of them is left (`LargeBuffers`): a fresh buffer of 8 MB costs the
kernel two thousand page faults and as many cleared pages, for each fetch of a mirror.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from protocol.errors import MalformedFrame

_LARGE: Final = 1024 * 1024  # smaller ones are cheap
_KEPT_BYTES: Final = 48 * 1024 * 1024  # of one event loop, all connections together


class LargeBuffers:
    """Hands out writable views. A view, or a part of one, keeps its buffer from being reused."""

    __slots__ = ("_bytes", "_kept")

    def __init__(self) -> None:
        self._kept: list[bytearray] = []
        self._bytes = 0

    def take(self, size: int) -> memoryview:
        """A buffer of exactly `size` bytes, with arbitrary content."""
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
    """No view of the buffer is left: Python does not resize a bytearray with views."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True


_SIZE = Struct(">i").unpack_from
_CHUNK_BYTES = 64 * 1024
_MIN_READ_BYTES = 8 * 1024  # a read into less than this is a system call half wasted
_buffers = LargeBuffers()
_OWN_BUFFER_BYTES = 16 * 1024  # frames up to this size are moved to a fresh chunk instead


class InboundFrames:
    """Turns reads into size-prefixed frames (without their size).

    Args:
        max_frame_bytes: a larger frame is refused with MalformedFrame.
        chunk_bytes: size of the buffer that small frames share.
    """

    __slots__ = ("_chunk", "_chunk_bytes", "_end", "_large", "_large_end", "_max", "_readable", "_start", "_writable")

    def __init__(self, max_frame_bytes: int, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._max = max_frame_bytes
        self._chunk_bytes = chunk_bytes
        self._large: memoryview | None = None
        self._large_end = 0
        self._start = self._end = 0
        self._roll(b"")

    def writable(self) -> memoryview:
        """The memory for the next read. Never empty."""
        if self._large is not None:
            return self._large[self._large_end :]
        if self._chunk_bytes - self._end < min(_MIN_READ_BYTES, self._chunk_bytes // 2):
            self._roll(self._readable[self._start : self._end])
        return self._writable[self._end :]

    def advance(self, count: int) -> Sequence[memoryview]:
        """Note that `count` bytes were read into `writable()`; return the frames that are now whole.

        Raises:
            MalformedFrame: a size that no Kafka response has: negative, too small, or above the limit.
        """
        if self._large is not None:
            return self._advance_large(self._large, count)
        chunk, readable = self._chunk, self._readable
        start, end = self._start, self._end + count
        frames: list[memoryview] = []
        while end - start >= 4:
            size = _SIZE(chunk, start)[0]
            if not 4 <= size <= self._max:
                raise MalformedFrame(_why_bad(size, self._max))
            stop = start + 4 + size
            if stop > end:
                break
            frames.append(readable[start + 4 : stop])
            start = stop
        self._start, self._end = start, end
        if end - start >= 4 and start + 4 + _SIZE(chunk, start)[0] > self._chunk_bytes:
            self._make_room(_SIZE(chunk, start)[0])
        return frames

    def _advance_large(self, large: memoryview, count: int) -> Sequence[memoryview]:
        self._large_end += count
        if self._large_end < len(large):
            return ()
        self._large = None
        return (large.toreadonly(),)

    def _make_room(self, size: int) -> None:
        """The frame begun at `_start` runs past the chunk."""
        begun = self._readable[self._start : self._end]
        if size <= min(_OWN_BUFFER_BYTES, self._chunk_bytes // 2):
            self._roll(begun)
            return
        self._large = _buffers.take(size)
        self._large_end = len(begun) - 4
        self._large[: self._large_end] = begun[4:]
        self._start = self._end

    def _roll(self, begun: bytes | memoryview) -> None:
        """Begin a new chunk with the bytes of an unfinished frame."""
        self._chunk = bytearray(self._chunk_bytes)
        self._writable = memoryview(self._chunk)
        self._readable = self._writable.toreadonly()
        self._start, self._end = 0, len(begun)
        self._writable[: self._end] = begun


def _why_bad(size: int, limit: int) -> str:
    lead = size.to_bytes(4, "big", signed=True)
    if lead[:2] in (b"\x15\x03", b"\x16\x03"):
        return "the broker answered with TLS: is security.protocol right?"
    if lead == b"HTTP":
        return "the broker answered with HTTP: is this a Kafka port?"
    return f"the broker sent a frame of {size} bytes; the limit is {limit}"
