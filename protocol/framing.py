"""Size-prefixed framing. A *frame* everywhere in this project is the bytes after the 4-byte size."""

from __future__ import annotations

from struct import Struct

from protocol.errors import MalformedFrame
from protocol.wire import Buffer

SIZE_BYTES = 4
SIZE = Struct(">i")
"""The size field before a frame."""


def framed(head: Buffer, body: Buffer = b"") -> bytes:
    """A frame, in one piece or two, with its size before it."""
    return b"".join((SIZE.pack(len(head) + len(body)), head, body))


class FrameReader:
    """Cuts a byte stream into frames.

    Memory is bounded by the bytes that have arrived, never by the size that a peer claims, and by `max_bytes`
    per frame. Frames that arrived in one chunk are views of that chunk, not copies.
    """

    __slots__ = ("_chunks", "_have", "_need", "max_bytes")

    def __init__(self, max_bytes: int = 100 * 1024 * 1024) -> None:
        """`max_bytes`: the largest frame to accept (Kafka's socket.request.max.bytes is 100 MiB)."""
        self.max_bytes = max_bytes
        self._chunks: list[bytes] = []  # the beginning of an unfinished frame, with its size
        self._have = 0
        self._need = SIZE_BYTES  # bytes needed for the next step: the size, or size + frame

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete frame are held."""
        return self._have

    def feed(self, data: Buffer) -> list[bytes | memoryview]:
        """Take the next bytes of the stream; return the frames that are now complete, in order.

        `bytes` are not copied when they hold whole frames; other buffers are copied once.

        Raises:
            MalformedFrame: a size below 0 or above `max_bytes`. Whole frames before it are returned first, and
                the error is raised by the following call; the stream cannot be read any further.
        """
        if not isinstance(data, bytes):
            data = bytes(data)
        if self._chunks:
            self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
        return self._cut(data)

    def _cut(self, data: bytes) -> list[bytes | memoryview]:
        frames: list[bytes | memoryview] = []
        view = memoryview(data)
        at, end = 0, len(data)
        self._need = SIZE_BYTES
        while end - at >= SIZE_BYTES:
            size: int = SIZE.unpack_from(data, at)[0]
            if not 0 <= size <= self.max_bytes:
                if not frames:
                    raise MalformedFrame(f"a frame of {size} bytes, at most {self.max_bytes} are allowed")
                self._need = 0  # the next call comes back here
                break
            if end - at - SIZE_BYTES < size:
                self._need = SIZE_BYTES + size
                break
            at += SIZE_BYTES
            frames.append(view[at : at + size])
            at += size
        self._have = end - at
        if self._have:
            self._chunks.append(data[at:] if at else data)
        return frames
