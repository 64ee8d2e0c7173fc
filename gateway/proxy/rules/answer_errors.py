"""The errors in an answer on its way to a client, by topic: of Produce, Fetch, ListOffsets and OffsetCommit. Pure.

Of a large Fetch answer only the beginning is at hand, and looked at as far as it goes: what fails has no records.
Of Metadata only errors are told: a client that may not DESCRIBE a topic asks for nothing else; one that may asks for
something else then, and is counted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from gateway.migration.rules.client_errors import counts
from protocol.apis import ApiKey
from protocol.codec import decode_response
from protocol.errors import MalformedFrame
from protocol.fetch import peek_errors
from protocol.header import response_body_offset
from protocol.produce import scan_response
from protocol.wire import Buffer

Topic: TypeAlias = str | bytes
"""A topic's name, or its id, as the answer has it."""

LOOKED_AT: Final = frozenset(
    map(int, (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT))
)
MOST_BYTES: Final = 16_384
"""Of an answer that is not a Fetch: a longer one, with hundreds of partitions, is not looked at."""
_PARTITIONS: Final = 64
_SIZE: Final = 4


def errors_by_topic(api_key: int, version: int, response: Buffer) -> Mapping[Topic, int]:
    """Topic -> the first error of its partitions that counts, or 0. Empty: nothing can be told.

    Args:
        response: with its 4-byte size; may be cut off.
    """
    view = memoryview(response)
    size = int.from_bytes(view[:_SIZE])
    frame = view[_SIZE : _SIZE + size]
    try:
        body = frame[response_body_offset(api_key, version, frame) :]
        if api_key == ApiKey.FETCH:
            return _first_errors(peek_errors(body, version, _PARTITIONS))
        if len(frame) < size or size > MOST_BYTES:
            return {}
        return _first_errors(_results(api_key, version, body))
    except MalformedFrame:
        return {}  # whoever it is for will say so


def _results(api_key: int, version: int, body: memoryview) -> Iterable[tuple[Topic, int]]:
    if api_key == ApiKey.PRODUCE:
        return [(result.topic, result.error_code) for result in scan_response(body, version)]
    answer = decode_response(api_key, version, body)
    if api_key == ApiKey.METADATA:
        return [(topic.name or "", topic.error_code) for topic in answer.topics if counts(topic.error_code)]
    return [(topic.name, one.error_code) for topic in answer.topics for one in topic.partitions]


def _first_errors(results: Iterable[tuple[Topic, int]]) -> dict[Topic, int]:
    found: dict[Topic, int] = {}
    for topic, code in results:
        if not found.get(topic):
            found[topic] = code if code and counts(code) else 0
    return found
