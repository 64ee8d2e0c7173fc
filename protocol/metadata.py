"""Metadata v0-13 by position: which topics a request names, and which of them an answer does not know."""

from __future__ import annotations

import re

from protocol.apis import ApiKey, is_flexible
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode, IncompleteFrame, MalformedFrame
from protocol.wire import INT16, INT32, Buffer, array_reader, array_size, parser, skip_tags, string_reader

MAX_TOPICS = 200_000
"""Topics that one request may name; each takes memory and time here."""

_AUTO_CREATE_FROM = 4
_IDS_FROM = 10
_UUID_BYTES = 16
_NAME = re.compile(rb"[a-zA-Z0-9._-]+")
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_CODES = frozenset(
    INT16.pack(code)
    for code in (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
)
"""What a broker says of a topic that it shows."""


@parser
def metadata_request_topics(body: Buffer, version: int) -> tuple[list[str] | None, bool]:
    """What a Metadata request asks for: topic names (None = all), and whether it allows them to be created.

    Topics asked for by id (v10+) are not among the names.

    Raises:
        MalformedFrame: not such a request.
    """
    names, at = _request_topics(body, version)
    if version < _AUTO_CREATE_FROM:
        return names, True
    return names, body[at] != 0


@parser
def auto_create_offset(body: Buffer, version: int) -> int | None:
    """Where allow_auto_topic_creation is in a Metadata request; None in v0-3, which have no such field.

    Raises:
        MalformedFrame: not such a request.
    """
    _, at = _request_topics(body, version)
    if version < _AUTO_CREATE_FROM:
        return None
    if at >= len(body):
        raise IncompleteFrame("a Metadata request without allow_auto_topic_creation")
    return at


def _request_topics(body: Buffer, version: int) -> tuple[list[str] | None, int]:
    flexible = is_flexible(ApiKey.METADATA, version)
    read = string_reader(flexible)
    count, at = array_reader(flexible)(body, 0)
    if count < 0 or (version == 0 and not count):
        return None, at
    if count > MAX_TOPICS:
        raise MalformedFrame(f"a Metadata request for more than {MAX_TOPICS} topics")
    names = []
    for _ in range(count):
        if version >= _IDS_FROM:
            at += _UUID_BYTES
        name, at = read(body, at)
        if flexible:
            at = skip_tags(body, at)
        if name is not None:
            names.append(name)
        elif version < _IDS_FROM:
            raise MalformedFrame("a topic name is null")
    return names, at


@parser
def without_auto_create(body: Buffer, version: int) -> tuple[bytes, int]:
    """The same question without auto-creation, and the version to ask it in.

    v0-3 always create topics; they are asked in v4, and `answer_in_version` turns the answer back.

    Raises:
        MalformedFrame: not such a request.
    """
    at = auto_create_offset(body, version)
    if at is None:
        topics = bytes(body)
        if version == 0 and topics[:4] == b"\0\0\0\0":
            topics = INT32.pack(-1)  # v0 asks for all topics with an empty list, later ones with null
        return topics + b"\0", _AUTO_CREATE_FROM
    patched = bytearray(body)
    patched[at] = 0
    return bytes(patched), version


def answer_in_version(body: Buffer, asked: int, wanted: int) -> Buffer:
    """A Metadata response of version `asked` as one of version `wanted`; `body` itself when they are the same.

    Raises:
        MalformedFrame: not such a response.
    """
    if asked == wanted:
        return body
    return encode_body(decode_response(ApiKey.METADATA, asked, body), wanted)


@parser
def unknown_topics(body: Buffer, version: int) -> list[str]:
    """Names in a Metadata response whose error is UNKNOWN_TOPIC_OR_PARTITION.

    Raises:
        MalformedFrame: not such a response.
    """
    flexible = is_flexible(ApiKey.METADATA, version)
    read, read_size = string_reader(flexible), array_reader(flexible)
    at = _skip_to_topics(body, version)
    count, at = read_size(body, at)
    unknown = []
    for _ in range(count):
        (code,) = INT16.unpack_from(body, at)
        name, at = read(body, at + 2)
        at = _skip_rest_of_topic(body, at, version, flexible)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name is not None:
            unknown.append(name)
    return unknown


@parser
def without_topics(body: Buffer, version: int, prefix: bytes) -> Buffer:
    """A Metadata response without the topics whose names begin so; `body` itself if it has none.

    Its bytes are searched, since to walk over ten thousand topics takes longer than a turn of an event loop may.

    Raises:
        MalformedFrame: not such a response.
    """
    data = bytes(body)
    if prefix not in data:
        return body
    flexible = is_flexible(ApiKey.METADATA, version)
    size_at = _skip_to_topics(data, version)
    count, first = array_reader(flexible)(data, size_at)
    found = _found(data, first, version, prefix)
    if found is None:
        found = _walked_to(data, first, version, prefix, count)
    pieces, kept = list[bytes](), first
    for start, end in found:
        pieces.append(data[kept:start])
        kept = end
    return b"".join((data[:size_at], array_size(count - len(found), flexible), *pieces, data[kept:]))


def _found(data: bytes, first: int, version: int, prefix: bytes) -> list[tuple[int, int]] | None:
    """Entries of topics whose names begin so. None: it cannot be told without walking over all.

    In front of a name are an error code of two bytes and its length. The first of a code is no letter of names; so what
    is found is within another name where a letter is. Only the length of another name, behind its own code of 0 and
    before its first letter, may pass for a code; for those of `_CODES` no such name is long enough.
    """
    flexible = is_flexible(ApiKey.METADATA, version)
    found = []
    at = data.find(prefix, first)
    while at >= 0:
        before, length = (1, data[at - 1] - 1) if flexible else (2, data[at - 1] if not data[at - 2] else 0)
        if flexible and not length:
            before, length = 2, data[at - 2] - 1
        start, name = at - before - 2, data[at : at + length]
        after = at + 1
        if data[start] not in _LETTERS:
            if data[start : start + 2] not in _CODES or len(name) < length or not _NAME.fullmatch(name):
                return None
            after = _skip_rest_of_topic(data, at + length, version, flexible)
            found.append((start, after))
        at = data.find(prefix, after)
    return found


def _walked_to(data: bytes, first: int, version: int, prefix: bytes, count: int) -> list[tuple[int, int]]:
    flexible = is_flexible(ApiKey.METADATA, version)
    read, begins, found, at = string_reader(flexible), prefix.decode(), [], first
    for _ in range(count):
        start = at
        name, at = read(data, at + 2)
        at = _skip_rest_of_topic(data, at, version, flexible)
        if name is not None and name.startswith(begins):
            found.append((start, at))
    return found


def _skip_rest_of_topic(body: Buffer, at: int, version: int, flexible: bool) -> int:
    """What is behind its name."""
    if version >= _IDS_FROM:
        at += _UUID_BYTES
    if version >= 1:
        at += 1  # is_internal
    partitions, at = array_reader(flexible)(body, at)
    for _ in range(partitions):
        at = _skip_partition(body, at, version, flexible)
    if version >= 8:
        at += 4  # authorized operations
    return skip_tags(body, at) if flexible else at


def _skip_to_topics(body: Buffer, version: int) -> int:
    flexible = is_flexible(ApiKey.METADATA, version)
    read = string_reader(flexible)
    count, at = array_reader(flexible)(body, 4 if version >= 3 else 0)
    for _ in range(count):
        _, at = read(body, at + 4)
        at += 4
        if version >= 1:
            _, at = read(body, at)
        if flexible:
            at = skip_tags(body, at)
    if version >= 2:
        _, at = read(body, at)  # cluster id
    return at + 4 if version >= 1 else at  # controller id


def _skip_partition(body: Buffer, at: int, version: int, flexible: bool) -> int:
    at += 14 if version >= 7 else 10  # error, index, leader, leader epoch
    read_size = array_reader(flexible)
    for _ in range(3 if version >= 5 else 2):  # replicas, in-sync replicas, offline replicas
        count, at = read_size(body, at)
        at += 4 * max(count, 0)
    return skip_tags(body, at) if flexible else at
