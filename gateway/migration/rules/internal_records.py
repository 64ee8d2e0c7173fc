"""Keys and values of Kafka's own topics, as far as discovery reads them: `__transaction_state`, `__consumer_offsets`.

They are no part of the protocol. But brokers of all versions must read what older ones wrote, so they change only by
what is appended (TransactionLogKey, TransactionLogValue, OffsetCommitKey in Kafka's source). A version that is not
known here is left out and counted, never guessed.

`__transaction_state` has a record for each step of a transactional id. Compaction leaves its last one, which mostly
says that the transaction is complete and names no partition any more; what compaction has not come to yet names them.
A record of `__consumer_offsets` that was written in a transaction carries the producer id of that transaction in its
batch's header: so it says which transactional id commits the offsets of which group.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from protocol.errors import MalformedFrame
from protocol.wire import (
    INT16,
    INT32,
    INT64,
    Buffer,
    parser,
    read_array_size,
    read_compact_array_size,
    read_compact_string,
    read_string,
)

TRANSACTION_STATE: Final = "__transaction_state"
CONSUMER_OFFSETS: Final = "__consumer_offsets"

_TRANSACTION_KEY: Final = 0
_TRANSACTION_VALUES: Final = (0, 1)
_OFFSET_KEYS: Final = (0, 1)
_HEAD: Final = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, status


class TransactionEntry(NamedTuple):
    """One record of `__transaction_state`. `partitions`: topic -> those of the transaction at that step."""

    transactional_id: str
    producer_id: int
    partitions: dict[str, tuple[int, ...]]


class OffsetKey(NamedTuple):
    """Whose offset it is: a key of `__consumer_offsets`."""

    group: str
    topic: str
    partition: int


@parser
def transaction_entry(key: Buffer, value: Buffer) -> TransactionEntry | None:
    """A record of `__transaction_state`; None for a version that is not known here.

    Raises:
        MalformedFrame: not such bytes.
    """
    if INT16.unpack_from(key, 0)[0] != _TRANSACTION_KEY:
        return None
    transactional_id, _ = read_string(key, 2)
    version, producer_id, _, _, _ = _HEAD.unpack_from(value, 0)
    if version not in _TRANSACTION_VALUES:
        return None
    if transactional_id is None:
        raise MalformedFrame("a transactional id is null")
    return TransactionEntry(transactional_id, producer_id, _partitions(value, _HEAD.size, flexible=version > 0))


def _partitions(value: Buffer, at: int, *, flexible: bool) -> dict[str, tuple[int, ...]]:
    """Topics with their partitions; the array is null in a transaction without any."""
    array, text = (read_compact_array_size, read_compact_string) if flexible else (read_array_size, read_string)
    count, at = array(value, at)
    found: dict[str, tuple[int, ...]] = {}
    for _ in range(max(count, 0)):
        topic, at = text(value, at)
        size, at = array(value, at)
        size = max(size, 0)
        found[topic or ""] = tuple(INT32.unpack_from(value, at + 4 * index)[0] for index in range(size))
        at += 4 * size + (1 if flexible else 0)  # the count of tagged fields, of which there are none
    return found


@parser
def offset_key(key: Buffer) -> OffsetKey | None:
    """A key of `__consumer_offsets` that is an offset; None for one of a group's own records.

    Raises:
        MalformedFrame: not such bytes.
    """
    if INT16.unpack_from(key, 0)[0] not in _OFFSET_KEYS:
        return None
    group, at = read_string(key, 2)
    topic, at = read_string(key, at)
    return OffsetKey(group or "", topic or "", INT32.unpack_from(key, at)[0])


class ConnectAssignment(NamedTuple):
    """What a worker of a Connect cluster runs: names of connectors."""

    connectors: tuple[str, ...]


@parser
def connect_assignment(data: Buffer) -> ConnectAssignment:
    """The assignment of a Connect worker, of any of its protocols (ConnectProtocol, IncrementalCooperativeProtocol).

    They begin alike: version, error, the leader's id and URL, the offset of the configs, then connectors with their
    tasks. Later ones append to that.

    Raises:
        MalformedFrame: not such bytes.
    """
    if not data:
        return ConnectAssignment(())
    at = INT16.size * 2
    _, at = read_string(data, at)
    _, at = read_string(data, at)
    at += INT64.size
    count, at = read_array_size(data, at)
    found = []
    for _ in range(max(count, 0)):
        connector, at = read_string(data, at)
        tasks, at = read_array_size(data, at)
        at += 4 * max(tasks, 0)
        found.append(connector or "")
    return ConnectAssignment(tuple(sorted(set(found))))
