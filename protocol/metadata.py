"""Metadata v0-13 by position: which topics a request names, and which of them an answer does not know."""

from __future__ import annotations

from protocol.apis import ApiKey, is_flexible
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode, IncompleteFrame, MalformedFrame
from protocol.wire import INT16, INT32, Buffer, array_reader, parser, skip_tags, string_reader

MAX_TOPICS = 200_000
"""Topics that one request may name; each takes memory and time here."""

_AUTO_CREATE_FROM = 4
_IDS_FROM = 10
_UUID_BYTES = 16


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
        if version >= _IDS_FROM:
            at += _UUID_BYTES
        if version >= 1:
            at += 1  # is_internal
        partitions, at = read_size(body, at)
        for _ in range(partitions):
            at = _skip_partition(body, at, version, flexible)
        if version >= 8:
            at += 4  # authorized operations
        if flexible:
            at = skip_tags(body, at)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name is not None:
            unknown.append(name)
    return unknown


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
