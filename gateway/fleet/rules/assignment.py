"""The fleet's group on the wire: what a gateway says in JoinGroup, and what it is told in SyncGroup.

Protocol type `lockgate`, protocol name `fleet-v1`. Both forms begin with a version (int16); a reader takes what it
knows of a newer minor form: fields are only ever added at the end. Strings are int16 length and UTF-8, arrays int32
count and elements, all integers big-endian, as in Kafka's own `ConsumerProtocol`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.fleet.rules.membership import Gateway, Role
from gateway.mirror.rules.mirror_partition import MirrorPartition

PROTOCOL_TYPE = "lockgate"
PROTOCOL_NAME = "fleet-v1"
_VERSION = 1
_MAX_ITEMS = 1_000_000


class MalformedAssignment(ValueError):
    """Bytes that are no subscription or assignment of the fleet's group. Says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAssignment:
    """What the group's leader tells a gateway.

    `leader`: the node that writes the state. `peers`: name -> host:port of every member. `owners`: everybody's mirror
    partitions, so that each node can tell who takes over from whom. `paused`: mirror topic -> epoch of the pauses in
    force, and `state_offset`: the state topic must have been read up to there, both before a client is served, so that
    whoever comes new misses no pause. `term`: of the leader, see `state/topic.py`; `closed`: groups whose gates
    it has closed, whatever their records say. `members`: name -> member id, so that any node can have the group drop
    one that fell silent.
    """

    leader: str
    peers: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, frozenset[MirrorPartition]] = field(default_factory=dict)
    paused: Mapping[str, int] = field(default_factory=dict)
    state_offset: int = 0
    term: int = -1
    closed: frozenset[str] = frozenset()
    members: Mapping[str, str] = field(default_factory=dict)


def encode_subscription(gateway: Gateway) -> bytes:
    """A member's metadata in JoinGroup."""
    return b"".join(
        (
            struct.pack(">h", _VERSION),
            _string(gateway.name),
            _string(gateway.incarnation),
            _string(gateway.role),
            _string(gateway.peer),
            struct.pack(">i", round(gateway.lease_s * 1000)),
            _partitions(gateway.owned),
            _string(gateway.place),
            _string(gateway.keys),
        )
    )


def decode_subscription(data: bytes) -> Gateway:
    """The member that a metadata blob describes.

    Raises:
        MalformedAssignment: it is none.
    """
    reader = _Reader(data)
    name, incarnation, role, peer = reader.string(), reader.string(), reader.string(), reader.string()
    (lease_ms,) = reader.unpack(">i")
    if role not in list(Role):
        raise MalformedAssignment(f"gateway {name!r} has the unknown role {role!r}")
    if lease_ms <= 0:
        raise MalformedAssignment(f"gateway {name!r} has a lease of {lease_ms} ms")
    return Gateway(
        name=name,
        incarnation=incarnation,
        role=Role(role),
        peer=peer,
        lease_s=lease_ms / 1000,
        owned=frozenset(reader.partitions()),
        place=reader.string() if reader.has_more else "",  # of an older version: nothing is known of the old process
        keys=reader.string() if reader.has_more else "",
    )


def encode_assignment(assignment: FleetAssignment) -> bytes:
    """The same bytes for every member."""
    parts = [struct.pack(">hq", _VERSION, assignment.state_offset), _string(assignment.leader)]
    parts.append(struct.pack(">i", len(assignment.peers)))
    parts += [_string(name) + _string(address) for name, address in sorted(assignment.peers.items())]
    parts.append(struct.pack(">i", len(assignment.owners)))
    parts += [_string(name) + _partitions(owned) for name, owned in sorted(assignment.owners.items())]
    parts.append(struct.pack(">i", len(assignment.paused)))
    parts += [_string(topic) + struct.pack(">i", epoch) for topic, epoch in sorted(assignment.paused.items())]
    parts.append(struct.pack(">qi", assignment.term, len(assignment.closed)))
    parts += [_string(group) for group in sorted(assignment.closed)]
    parts.append(struct.pack(">i", len(assignment.members)))
    parts += [_string(name) + _string(member) for name, member in sorted(assignment.members.items())]
    return b"".join(parts)


def decode_assignment(data: bytes) -> FleetAssignment:
    """What SyncGroup gave.

    Raises:
        MalformedAssignment: it is none, such as the empty bytes that a member gets which the leader did not know.
    """
    reader = _Reader(data)
    (state_offset,) = reader.unpack(">q")
    leader = reader.string()
    peers = {reader.string(): reader.string() for _ in range(reader.count())}
    owners = {reader.string(): frozenset(reader.partitions()) for _ in range(reader.count())}
    paused = {reader.string(): reader.unpack(">i")[0] for _ in range(reader.count())}
    (term,) = reader.unpack(">q")
    closed = frozenset(reader.string() for _ in range(reader.count()))
    members = {reader.string(): reader.string() for _ in range(reader.count())}
    return FleetAssignment(
        leader=leader,
        peers=peers,
        owners=owners,
        paused=paused,
        state_offset=state_offset,
        term=term,
        closed=closed,
        members=members,
    )


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _partitions(partitions: Iterable[MirrorPartition]) -> bytes:
    """Grouped by link and topic: array of (link, topic, array of int32)."""
    topics: dict[tuple[str, str], list[int]] = {}
    for link, topic, partition in sorted(partitions):
        topics.setdefault((link, topic), []).append(partition)
    parts = [struct.pack(">i", len(topics))]
    for (link, topic), indexes in topics.items():
        parts += [_string(link), _string(topic), struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)]
    return b"".join(parts)


class _Reader:
    """Reads one blob; the version first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        (version,) = self.unpack(">h")
        if version < 1:
            raise MalformedAssignment(f"version {version}")

    @property
    def has_more(self) -> bool:
        """There are bytes left."""
        return self._at < len(self._data)

    def unpack(self, form: str) -> tuple[int, ...]:
        size = struct.calcsize(form)
        self._need(size)
        values = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return values

    def string(self) -> str:
        (size,) = self.unpack(">h")
        self._need(size)
        text = self._data[self._at : self._at + size]
        self._at += size
        try:
            return text.decode()
        except UnicodeDecodeError as exc:
            raise MalformedAssignment(f"a string that is not UTF-8 at byte {self._at - size}") from exc

    def count(self) -> int:
        (count,) = self.unpack(">i")
        if not 0 <= count <= _MAX_ITEMS:
            raise MalformedAssignment(f"an array of {count} elements at byte {self._at - 4}")
        return count

    def partitions(self) -> list[MirrorPartition]:
        found = []
        for _ in range(self.count()):
            link, topic = self.string(), self.string()
            count = self.count()
            found += [MirrorPartition(link, topic, index) for index in self.unpack(f">{count}i")]
        return found

    def _need(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._data):
            raise MalformedAssignment(f"{len(self._data)} bytes; more were expected at byte {self._at}")
