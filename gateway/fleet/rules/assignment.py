"""The fleet's group on the wire: what a gateway says in JoinGroup, and what it is told in SyncGroup.

Protocol type `lockgate`, protocol name `fleet-v1`. Both forms begin with a version (int16); a reader takes what it
knows of a newer minor form: fields are only ever added at the end. Strings are int16 length and UTF-8, arrays int32
count and elements, all integers big-endian, as in Kafka's own `ConsumerProtocol`.

The coordinator keeps what all members say and are told in one record, and a broker takes 1 MB (`message.max.bytes`); a
group whose record is larger never comes together again. So the leader makes sure before SyncGroup (`group_bytes`) that
it has at most `GROUP_BYTES`:

* an assignment is packed: every topic is named once, and deflated. It is the same for all, and the record has it once
  per member. So where it would be too much each is told its *outline* (`encode_outline`), of some 150 bytes: who leads,
  where that one is, and a digest; the rest is asked of the leader over the channel between gateways (`fleet/fleet.py`);
* a member says what it owns where there is room for it, of `OWNED_BYTES` for all. Else it is what it was given last.

1,600 members and 100,000 partitions then take some 0.7 MB.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.fleet.rules.membership import FleetMember, FleetRole
from gateway.mirror.rules.period import MirrorPartition

PROTOCOL_TYPE = "lockgate"
PROTOCOL_NAME = "fleet-v1"
_VERSION = 1
PACKED: Final = 2
"""The newest form of an assignment that this version reads: deflated, with the owners as one table."""

_MAX_ITEMS = 1_000_000
_MAX_INFLATED: Final = 64 << 20
_PLAIN: Final = 1_000
"""Partitions that a member lists as they are, for leaders of every version. Of one that has more an older leader takes
it that it has none, and gives them out anew."""


GROUP_BYTES: Final = 950_000
"""What the group's record may have: a broker takes 1,048,588 by default, with what a batch has around it."""

OWNED_BYTES: Final = 150_000
"""What all members together may say in it of what they own."""

_MEMBER_BYTES: Final = 120
"""What the coordinator writes of a member beside its id, its metadata and its assignment: client, host, timeouts."""

_OUTLINE: Final = 1_000
"""The version of an outline."""


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
    one that fell silent. `digest`: not '' for an outline, which has its leader, the term and the state's offset
    alone; it is of what the leader says in whole.
    """

    leader: str
    peers: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, frozenset[MirrorPartition]] = field(default_factory=dict)
    paused: Mapping[str, int] = field(default_factory=dict)
    state_offset: int = 0
    term: int = -1
    closed: frozenset[str] = frozenset()
    members: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""


def group_bytes(members: int, ids: int, metadata: int, assignment: int) -> int:
    """What the coordinator's record of the group has at most.

    Args:
        members: how many there are. ids, metadata: bytes of all their ids and subscriptions.
        assignment: bytes of what each of them is told.
    """
    return metadata + ids + members * (_MEMBER_BYTES + assignment)


def digest_of(told: bytes) -> str:
    """Tells assignments apart."""
    return hashlib.sha256(told).hexdigest()[:32]


def encode_outline(assignment: FleetAssignment, told: bytes) -> bytes:
    """What a member needs to ask the leader for `told`, which is the assignment in whole."""
    address = assignment.peers.get(assignment.leader, "")
    return b"".join(
        (
            struct.pack(">hqq", _OUTLINE, assignment.state_offset, assignment.term),
            _string(assignment.leader),
            _string(address),
            _string(digest_of(told)),
        )
    )


def encode_subscription(gateway: FleetMember, room: int = OWNED_BYTES) -> bytes:
    """A member's metadata in JoinGroup. `room`: bytes that it may take to say what it owns; else it says nothing."""
    if gateway.owned and len(_owned(gateway.owned)) > room:
        gateway = replace(gateway, owned=frozenset(), tells=False)
    is_plain = len(gateway.owned) <= _PLAIN
    return b"".join(
        (
            struct.pack(">h", _VERSION),
            _string(gateway.name),
            _string(gateway.incarnation),
            _string(gateway.role),
            _string(gateway.peer),
            struct.pack(">i", round(gateway.lease_s * 1000)),
            _partitions(gateway.owned if is_plain else ()),
            _string(gateway.place),
            _string(gateway.keys),
            struct.pack(">h", gateway.reads),
            _bytes(b"" if is_plain else _owned(gateway.owned)),
            struct.pack(">?", gateway.tells),
            _string(gateway.bootstrap),
        )
    )


def _owned(partitions: Collection[MirrorPartition]) -> bytes:
    listed = _partitions(partitions)
    return listed if len(partitions) <= _PLAIN else zlib.compress(_HEAD + listed)


def decode_subscription(data: bytes) -> FleetMember:
    """The member that a metadata blob describes.

    Raises:
        MalformedAssignment: it is none.
    """
    reader = _Reader(data)
    name, incarnation, role, peer = reader.string(), reader.string(), reader.string(), reader.string()
    (lease_ms,) = reader.unpack(">i")
    if role not in list(FleetRole):
        raise MalformedAssignment(f"gateway {name!r} has the unknown role {role!r}")
    if lease_ms <= 0:
        raise MalformedAssignment(f"gateway {name!r} has a lease of {lease_ms} ms")
    owned = reader.partitions()
    place = reader.string() if reader.has_more else ""  # of an older version: nothing is known of the old process
    keys = reader.string() if reader.has_more else ""
    reads = reader.unpack(">h")[0] if reader.has_more else _VERSION
    packed = reader.bytes() if reader.has_more else b""
    tells = bool(reader.unpack(">?")[0]) if reader.has_more else True
    bootstrap = reader.string() if reader.has_more else ""
    return FleetMember(
        name=name,
        incarnation=incarnation,
        role=FleetRole(role),
        peer=peer,
        lease_s=lease_ms / 1000,
        owned=frozenset(_inflated(packed).partitions() if packed else owned),
        place=place,
        keys=keys,
        reads=reads,
        tells=tells,
        bootstrap=bootstrap,
    )


def encode_assignment(assignment: FleetAssignment, form: int = _VERSION) -> bytes:
    """The same bytes for every member. `form`: the newest one that all of them read."""
    parts = [_HEAD, struct.pack(">q", assignment.state_offset), _string(assignment.leader)]
    parts.append(struct.pack(">i", len(assignment.peers)))
    parts += [_string(name) + _string(address) for name, address in sorted(assignment.peers.items())]
    if form >= PACKED:
        parts += _owner_table(assignment.owners)
    else:
        parts.append(struct.pack(">i", len(assignment.owners)))
        parts += [_string(name) + _partitions(owned) for name, owned in sorted(assignment.owners.items())]
    parts.append(struct.pack(">i", len(assignment.paused)))
    parts += [_string(topic) + struct.pack(">i", epoch) for topic, epoch in sorted(assignment.paused.items())]
    parts.append(struct.pack(">qi", assignment.term, len(assignment.closed)))
    parts += [_string(group) for group in sorted(assignment.closed)]
    parts.append(struct.pack(">i", len(assignment.members)))
    parts += [_string(name) + _string(member) for name, member in sorted(assignment.members.items())]
    data = b"".join(parts)
    return struct.pack(">h", PACKED) + zlib.compress(data) if form >= PACKED else data


def decode_assignment(data: bytes) -> FleetAssignment:
    """What SyncGroup gave.

    Raises:
        MalformedAssignment: it is none, such as the empty bytes that a member gets which the leader did not know.
    """
    reader = _Reader(data)
    if reader.version == _OUTLINE:
        state_offset, term = reader.unpack(">qq")
        leader, address, digest = reader.string(), reader.string(), reader.string()
        if not digest:
            raise MalformedAssignment("an outline without a digest")
        return FleetAssignment(
            leader=leader, peers={leader: address}, state_offset=state_offset, term=term, digest=digest
        )
    is_packed = reader.version == PACKED
    if is_packed:
        reader = _inflated(data[_SHORT.size :])
    (state_offset,) = reader.unpack(">q")
    leader = reader.string()
    peers = {reader.string(): reader.string() for _ in range(reader.count())}
    if is_packed:
        owners = reader.owner_table()
    else:
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


_SHORT: Final = struct.Struct(">h")
_HEAD: Final = _SHORT.pack(_VERSION)


def _inflated(data: bytes) -> _Reader:
    """Raises MalformedAssignment when it is not, or is longer than any fleet's."""
    inflating = zlib.decompressobj()
    try:
        plain = inflating.decompress(data, _MAX_INFLATED)
    except zlib.error as exc:
        raise MalformedAssignment(f"what is packed: {exc}") from None
    if not inflating.eof:
        raise MalformedAssignment(f"what is packed ends early, or has more than {_MAX_INFLATED} bytes")
    return _Reader(plain)


def _owner_table(owners: Mapping[str, Iterable[MirrorPartition]]) -> list[bytes]:
    """Array of names; array of (link, topic, array of partition, as many times int16: which name)."""
    names = sorted(owners)
    topics: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for number, name in enumerate(names):
        for link, topic, index in owners[name]:
            topics.setdefault((link, topic), []).append((index, number))
    parts = [struct.pack(">i", len(names)), *map(_string, names), struct.pack(">i", len(topics))]
    for (link, topic), found in sorted(topics.items()):
        indexes, numbers = zip(*sorted(found), strict=True)
        count = len(found)
        parts += [_string(link), _string(topic), struct.pack(f">i{count}i{count}h", count, *indexes, *numbers)]
    return parts


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


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
        (self.version,) = self.unpack(">h")
        if self.version < 1:
            raise MalformedAssignment(f"version {self.version}")

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

    def bytes(self) -> bytes:
        size = self.count()
        self._need(size)
        found = self._data[self._at : self._at + size]
        self._at += size
        return found

    def owner_table(self) -> dict[str, frozenset[MirrorPartition]]:
        names = [self.string() for _ in range(self.count())]
        found: list[set[MirrorPartition]] = [set() for _ in names]
        for _ in range(self.count()):
            link, topic = self.string(), self.string()
            count = self.count()
            indexes, numbers = self.unpack(f">{count}i"), self.unpack(f">{count}h")
            for index, number in zip(indexes, numbers, strict=True):
                if not 0 <= number < len(names):
                    raise MalformedAssignment(f"the owner {number} of {len(names)}")
                found[number].add(MirrorPartition(link, topic, index))
        return {name: frozenset(owned) for name, owned in zip(names, found, strict=True)}

    def _need(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._data):
            raise MalformedAssignment(f"{len(self._data)} bytes; more were expected at byte {self._at}")
