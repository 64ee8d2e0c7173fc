"""The codecs of record batches: decompressing within a limit, compressing as the batch was.

Numbers are those of the attributes field: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
"""

from __future__ import annotations

import mmap
import zlib
from struct import Struct
from typing import Final

import cramjam

from protocol.batch.work import Spend, unlimited
from protocol.errors import MalformedFrame
from protocol.wire import Buffer

MAX_INFLATED: Final = 256 << 20
"""Largest decompressed size of a record set, in bytes. (A megabyte of zstd can hold gigabytes.)"""

_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_GZIP_WINDOW: Final = 31  # zlib's wbits for a gzip header and trailer
_XFL: Final = 8  # RFC 1952: says at which end of its range the compressor was
_PIECE: Final = 128 << 10
_GZIP_PIECE: Final = 1 << 20
_FIRST_GUESS: Final = 8  # times the compressed size
_SMALLEST_BUFFER: Final = 64 << 10
_PAGES_FROM: Final = 4 << 20  # bytes; larger buffers use fresh pages, which are slower to read byte by byte
_TOO_SMALL: Final = "write whole buffer"  # how cramjam says that the output did not fit

_XERIAL: Final = b"\x82SNAPPY\x00"  # how Java clients frame snappy: this, two versions, then blocks with their sizes
_XERIAL_HEADER: Final = _XERIAL + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK: Final = 32 << 10
_BLOCK_SIZE: Final = Struct(">i")

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
# Version 1, independent blocks (brokers refuse dependent ones), blocks of up to 64 KiB, and the checksum of these two.
_LZ4_HEADER: Final = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK: Final = 64 << 10
_LZ4_STORED: Final = 1 << 31  # set in the size of a block that is not compressed
_LZ4_SIZE: Final = Struct("<I")
_LZ4_HAS_SIZE: Final = 0x08


Inflated = bytes | bytearray | memoryview


class TooLarge(MalformedFrame):
    """Records with more decompressed bytes than allowed."""


def decompress(codec: int, body: memoryview, limit: int = MAX_INFLATED, spend: Spend = unlimited) -> Inflated:
    """A record set, decompressed; a result that is not `bytes` may be modified.

    Args:
        spend: called with 0 units whenever other threads may want to run: the caller counts the records' units itself.
            Its exceptions are passed on.

    Raises:
        TooLarge: more than `limit` bytes.
        MalformedFrame: an unknown codec, or data not in this codec.
    """
    try:
        match codec:
            case 0:
                return bytes(body)
            case 1:
                return _gunzip(body, limit, spend)
            case 2:
                return _unsnappy(body, limit, spend)
            case 3:
                return _inflate(cramjam.lz4.decompress_into, body, limit, spend)
            case 4:
                return _inflate(cramjam.zstd.decompress_into, body, limit, spend)
    except (cramjam.DecompressionError, zlib.error, OSError, EOFError) as exc:
        raise MalformedFrame(f"records that are not of codec {codec}: {exc}") from None
    raise MalformedFrame(f"records of unknown codec {codec}")


def mutable(data: Inflated, spend: Spend = unlimited) -> bytearray | memoryview:
    """The data in a form that may be modified; `bytes` are copied.

    The copy is made piece by piece, with calls of `spend` in between: copying 64 MiB takes some 80 ms, in which
    otherwise hardly any other thread would run.
    """
    if not isinstance(data, bytes):
        return data
    out = _buffer(len(data))
    for at in range(0, len(data), _PIECE):
        out[at : at + _PIECE] = data[at : at + _PIECE]
        spend(0)
    return out


def _buffer(size: int) -> bytearray | memoryview:
    """A writable buffer. A large one takes hardly any time to allocate and free: the kernel adds its pages as they are
    written, by a codec that lets other threads run."""
    return bytearray(size) if size < _PAGES_FROM else memoryview(mmap.mmap(-1, size))


def compress(codec: int, records: Buffer, like: memoryview) -> bytes:
    """Compress records with a codec, in the framing of `like`, which was compressed with the same codec.

    The level is the codec's default, unless `like` shows it (gzip: lowest or highest).

    Raises:
        MalformedFrame: an unknown codec.
    """
    match codec:
        case 0:
            return bytes(records)
        case 1:
            return _gzip(records, like)
        case 2:
            return _snappy(records, framed=_begins(like, _XERIAL))
        case 3:
            return _lz4(records)
        case 4:
            return bytes(cramjam.zstd.compress(records))
    raise MalformedFrame(f"records of unknown codec {codec}")


def mended_lz4(body: memoryview) -> memoryview:
    """An lz4 frame of format v0 with its header checksum corrected: its writers computed it wrongly (KAFKA-3160)."""
    if not _begins(body, _LZ4_MAGIC):
        return body
    end = 14 if body[4] & _LZ4_HAS_SIZE else 6
    if len(body) <= end:
        return body
    mended = bytearray(body)
    mended[end] = (_xxh32(bytes(body[4:end])) >> 8) & 0xFF
    return memoryview(mended)


def _begins(body: memoryview, mark: bytes) -> bool:
    return bytes(body[: len(mark)]) == mark


def _too_large(body: memoryview, limit: int) -> TooLarge:
    return TooLarge(f"{len(body)} bytes of records that have more than {limit} when decompressed")


def _gunzip(body: memoryview, limit: int, spend: Spend) -> Inflated:
    parts: list[bytes] = []
    left, rest = limit, bytes(body)
    while rest:  # a gzip stream may have several members
        stream = zlib.decompressobj(_GZIP_WINDOW)
        while not stream.eof:
            part = stream.decompress(rest, min(left + 1, _GZIP_PIECE))
            rest = stream.unconsumed_tail
            left -= len(part)
            if left < 0:
                raise _too_large(body, limit)
            if not part and not rest and not stream.eof:
                raise EOFError("a gzip stream that is cut off")
            parts.append(part)
            spend(0)
        rest = stream.unused_data
    if not parts:
        raise EOFError("an empty gzip stream")
    return _joined(parts, limit - left, spend)


def _joined(parts: list[bytes], size: int, spend: Spend) -> Inflated:
    """The joined parts. Empties the list on the way: parts and copy together would take twice the memory."""
    if size < _PAGES_FROM:
        return b"".join(parts)
    out, at = _buffer(size), 0
    parts.reverse()
    while parts:
        part = parts.pop()
        out[at : at + len(part)] = part
        at += len(part)
        spend(0)
    return out


def _inflate(into: object, body: memoryview, limit: int, spend: Spend) -> bytearray | memoryview:
    """Decompress into buffers of growing size: the decompressed size is not known beforehand, nor to be trusted."""
    size = min(max(_SMALLEST_BUFFER, _FIRST_GUESS * len(body)), limit)
    while True:
        buffer = _buffer(size)
        try:
            written = into(body, buffer)  # type: ignore[operator]
        except cramjam.DecompressionError as exc:
            if _TOO_SMALL not in str(exc):
                raise
            if size == limit:
                raise _too_large(body, limit) from None
            del buffer  # or both would exist at the same time
            size = min(4 * size, limit)
            spend(0)
            continue
        if isinstance(buffer, memoryview):
            return buffer[:written]
        del buffer[written:]
        return buffer


def _unsnappy(body: memoryview, limit: int, spend: Spend) -> bytearray | memoryview:
    if not _begins(body, _XERIAL):
        size = cramjam.snappy.decompress_raw_len(body)
        if size > limit:
            raise _too_large(body, limit)
        buffer = _buffer(size)
        cramjam.snappy.decompress_raw_into(body, buffer)
        return buffer
    blocks: list[memoryview] = []
    at, left = len(_XERIAL_HEADER), limit
    while at < len(body):
        if len(body) - at < _BLOCK_SIZE.size:
            raise MalformedFrame("records end inside a snappy block")
        (size,) = _BLOCK_SIZE.unpack_from(body, at)
        at += _BLOCK_SIZE.size
        if not 0 <= size <= len(body) - at:
            raise MalformedFrame("a snappy block that is longer than the records")
        blocks.append(body[at : at + size])
        left -= cramjam.snappy.decompress_raw_len(blocks[-1])
        if left < 0:
            raise _too_large(body, limit)
        at += size
    out, at = _buffer(limit - left), 0
    with memoryview(out) as view:
        for block in blocks:
            size = cramjam.snappy.decompress_raw_len(block)
            if size:
                cramjam.snappy.decompress_raw_into(block, view[at : at + size])
            at += size
            spend(0)
    return out


def _gzip(records: Buffer, like: memoryview) -> bytes:
    hint = like[_XFL] if len(like) > _XFL else 0
    level = {2: 9, 4: 1}.get(hint, -1)
    stream = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW)
    return stream.compress(records) + stream.flush()


def _snappy(records: Buffer, *, framed: bool) -> bytes:
    if not framed:
        return bytes(cramjam.snappy.compress_raw(records))
    parts = [_XERIAL_HEADER]
    with memoryview(records) as view:
        for at in range(0, len(view), _XERIAL_BLOCK):
            block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
            parts += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _lz4(records: Buffer) -> bytes:
    """A frame of independent blocks. (cramjam's own frames have dependent ones.)"""
    parts = [_LZ4_HEADER]
    with memoryview(records) as view:
        for at in range(0, len(view), _LZ4_BLOCK):
            plain = view[at : at + _LZ4_BLOCK]
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
            if len(block) < len(plain):
                parts += (_LZ4_SIZE.pack(len(block)), block)
            else:
                parts += (_LZ4_SIZE.pack(len(plain) | _LZ4_STORED), bytes(plain))
    parts.append(_LZ4_SIZE.pack(0))
    return b"".join(parts)


_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK: Final = 0xFFFFFFFF


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes (xxHash specification, section "XXH32 algorithm")."""
    _, second, third, fourth, fifth = _PRIMES
    value = (fifth + len(data)) & _MASK
    words = len(data) // 4 * 4
    for at in range(0, words, 4):
        value = (value + int.from_bytes(data[at : at + 4], "little") * third) & _MASK
        value = (_rotated(value, 17) * fourth) & _MASK
    for byte in data[words:]:
        value = (value + byte * fifth) & _MASK
        value = (_rotated(value, 11) * _PRIMES[0]) & _MASK
    value = ((value ^ value >> 15) * second) & _MASK
    value = ((value ^ value >> 13) * third) & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
