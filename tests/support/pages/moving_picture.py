"""One moving picture of a migration in the console: `python -m tests.support.pages.moving_picture`.

An animated PNG of pictures that a test has taken of a real migration (`tests/console/test_by_clicks.py`). Nothing is
decoded: all of them have one size and one kind of pixels, so the data of each becomes a frame as it is.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[3] / "docs" / "pictures"
MADE: Final = FOLDER / "migration.png"
FRAMES: Final = (
    ("console-lock-1440.png", 3_000),
    ("console-rehearsed-1440.png", 3_000),
    ("console-promote-1440.png", 3_000),
    ("console-promoted-1440.png", 3_000),
    ("console-undo-1440.png", 3_000),
    ("console-undone-1440.png", 4_000),
)
"""A picture, and for how many milliseconds it is shown."""
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"


def moving() -> bytes:
    """The picture. Raises ValueError when frames differ in size or in their kind of pixels."""
    frames = [(list(chunks((FOLDER / name).read_bytes())), shown_ms) for name, shown_ms in FRAMES]
    header = frames[0][0][0][1]
    if any(pieces[0][1] != header for pieces, _ in frames):
        raise ValueError("the pictures differ in size or in their kind of pixels: take all of them in one run")
    width, height = struct.unpack(">II", header[:8])
    parts = [_SIGNATURE, _chunk(b"IHDR", header), _chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    number = 0
    for index, (pieces, shown_ms) in enumerate(frames):
        control = struct.pack(">IIIIIHHBB", number, width, height, 0, 0, shown_ms, 1000, 0, 0)
        parts.append(_chunk(b"fcTL", control))
        number += 1
        for data in (data for kind, data in pieces if kind == b"IDAT"):
            if index == 0:
                parts.append(_chunk(b"IDAT", data))
            else:
                parts.append(_chunk(b"fdAT", struct.pack(">I", number) + data))
                number += 1
    return b"".join((*parts, _chunk(b"IEND", b"")))


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The pieces of a PNG, each with its kind."""
    at = len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main() -> None:
    """Write it."""
    MADE.write_bytes(moving())
    sys.stdout.write(f"{MADE}\n")


if __name__ == "__main__":
    main()
