"""Well-formed requests of every API and version that a gateway offers, made from kafka-python's own schemas.

Fields are filled by their names: topics, groups and transactional ids are such as are there in the stage (mirrored,
promoted, the gateway's own, unknown ...), numbers are such as clients send. So most requests mean something to the
gateway, and its handlers are reached, not its parsers alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from protocol.apis import ADVERTISED, ApiKey, is_supported
from protocol.codec import encode_body
from protocol.header import frame_request
from protocol.messages import REQUESTS
from tests.support.fakes.model_cluster import batch_of

TOPICS: Final = ("mirrored", "promoted", "plain", "later", "unknown", "__lockgate_state", "__consumer_offsets", "")
GROUPS: Final = ("gated", "local", "fresh", "__lockgate.fleet", "")
TRANSACTIONAL_IDS: Final = ("tx-1", "tx-2", "__lockgate-state", "")
MEMBERS: Final = ("", "m-1", "gated-member")
_OPERATIONS: Final = 8
_INTS: Final[Mapping[str, tuple[int, int]]] = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
_POOLS: Final[Mapping[str, Sequence[Any]]] = {
    "acks": (-1, 1, 0, -1, 2),
    "generation_id": (-1, 1, 2),
    "generation_id_or_member_epoch": (-1, 1, 0),
    "isolation_level": (0, 1),
    "key_type": (0, 1, 0, 2),
    "member_epoch": (0, -1, 1, -2),
    "min_bytes": (0, 1, 1 << 30),
    "max_bytes": (1 << 20, 1, 0),
    "max_wait_ms": (0, 50, 500),
    "operation": (0, 1, 2, 3),
    "partition_max_bytes": (1 << 20, 1),
    "producer_epoch": (0, 1, -1),
    "producer_id": (1000, 1001, 1002, -1),
    "rebalance_timeout_ms": (1_000, 60_000, -1),
    "replica_id": (-1, -1, 0, 1),
    "resource_type": (2, 4, 3, 2),
    "session_epoch": (-1, 0, 1),
    "session_id": (0, 0, 1),
    "session_timeout_ms": (6_000, 10_000, 1),
    "timeout_ms": (1_000, 30_000, 0, -1),
    "timestamp": (-1, -2, -3, 1_700_000_000_000),
    "transaction_timeout_ms": (60_000, 1_000),
    "partition_index": (0, 1, 0, 7, -1),
    "partition": (0, 1, 0, 7, -1),
    "index": (0, 1, 0, 7, -1),
    "partition_indexes": (0, 1, 7),
    "partitions": (0, 1, 7),
    "num_partitions": (1, 3, -1, 10_000),
    "replication_factor": (1, -1, 3),
    "offset": (0, 1, 5, -1, 1 << 40),
    "fetch_offset": (0, 1, 5, -1),
    "committed_offset": (0, 1, 5, -1),
    "current_leader_epoch": (-1, 0),
    "leader_epoch": (-1, 0),
    "coordinator_type": (0, 1),
    "count": (1, 4),
}
_TEXTS: Final[Mapping[str, Sequence[str]]] = {
    "assignor": ("range",),
    "client_software_name": ("apache-kafka-java", "librdkafka", "x y"),
    "client_software_version": ("4.3.1", "2.14.0"),
    "group_instance_id": ("static-1",),
    "host": ("*",),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", ""),
    "protocol_name": ("range",),
    "protocol_type": ("consumer", "connect", ""),
    "server_assignor": ("uniform", "range"),
    "subscribed_topic_regex": (".*",),
}


@dataclass
class Filler:
    """Fills messages with what `rng` chooses. `topic_ids`: of the stage's topics.

    `sizes`: how long arrays are; each is drawn from it. `most`: one array of a message has so many elements: the first,
    or with `depth` one that is so deep within others of one element.
    """

    rng: random.Random
    topic_ids: Sequence[UUID] = ()
    sizes: Sequence[int] = (1, 1, 1, 2, 0, 3)
    given: Mapping[str, Any] = field(default_factory=dict)
    most: int = 0
    depth: int = 0

    def message(self, kind: Any, version: int, /, **given: Any) -> Any:
        """A message of this class that can be encoded as this version. `given`: fields by name, at any depth."""
        filler = Filler(self.rng, self.topic_ids, self.sizes, {**self.given, **given}, self.most, self.depth)
        return filler._struct(kind._struct, kind, version)

    def frame(self, key: int, version: int, correlation_id: int, client_id: str | None, /, **given: Any) -> bytes:
        """A request with its size and header."""
        body = encode_body(self.message(REQUESTS[key], version, **given), version)
        return frame_request(key, version, correlation_id, client_id, body)

    def _struct(self, struct: Any, data_class: Any, version: int) -> Any:
        values = {
            each.name: self._field(each, version) for each in struct.fields.values() if each.for_version_q(version)
        }
        return data_class(**values)

    def _field(self, each: Any, version: int) -> Any:
        if each.name in self.given:
            return self.given[each.name]
        if each.nullable_for_version_q(version) and self.rng.random() < 0.15:
            return None
        if each.is_array():
            element, count = each.array_of, self._count()
            if element.is_struct():
                return [self._struct(element, element.data_class, version) for _ in range(count)]
            return [self._simple(element.type_str, each.name) for _ in range(count)]
        if each.is_struct():
            return self._struct(each, each.data_class, version)
        return self._simple(each.type_str, each.name)

    def _count(self) -> int:
        if self.most and self.depth:
            self.depth -= 1
            return 1
        many, self.most = self.most, 0
        return many or self.rng.choice(self.sizes)

    def _simple(self, kind: str, name: str) -> Any:
        rng = self.rng
        if kind in _INTS:
            low, high = _INTS[kind]
            value = rng.choice(_POOLS.get(name) or (0, 1, -1, 2, rng.randint(low, high)))
            return min(max(value, low), high)
        if kind == "uuid":
            return rng.choice((*self.topic_ids, UUID(int=7), None))
        return _MAKERS[kind](self, name)

    def _text(self, name: str) -> str:
        return str(self.rng.choice(_texts(name)))

    def _bytes(self, name: str) -> bytes:
        if name == "auth_bytes":
            return b"\0alice\0alice"
        return self.rng.randbytes(self.rng.choice((0, 4, 30)))

    def _records(self, _name: str) -> bytes:
        rng = self.rng
        values = [rng.randbytes(rng.choice((0, 3, 40))) for _ in range(rng.choice((1, 1, 2, 5)))]
        if rng.random() < 0.6:
            return batch_of(*values)
        return batch_of(*values, producer_id=1000, epoch=0, sequence=0, transactional=rng.random() < 0.4)


_MAKERS: Final[Mapping[str, Callable[[Filler, str], Any]]] = {
    "bool": lambda filler, _: filler.rng.random() < 0.5,
    "float64": lambda filler, _: filler.rng.random(),
    "string": Filler._text,
    "bytes": Filler._bytes,
    "records": Filler._records,
    "bitfield": lambda filler, _: {filler.rng.randrange(_OPERATIONS)},
}


def _texts(name: str) -> Sequence[str]:
    if "transactional_id" in name:
        return TRANSACTIONAL_IDS
    if ("group" in name and "instance" not in name) or name in ("key", "coordinator_keys"):
        return GROUPS
    if "topic" in name or name in ("name", "resource_name"):
        return TOPICS
    if "member" in name:
        return MEMBERS
    return _TEXTS.get(name, ("x", "", "retention.ms", "\N{SNOWMAN}", "a" * 300))


def offered() -> list[tuple[int, int]]:
    """(API key, version) of all that a gateway serves and that messages exist for."""
    return [
        (int(key), version)
        for key, (low, high) in ADVERTISED.items()
        for version in range(low, high + 1)
        if is_supported(key, version) and key in REQUESTS and version <= REQUESTS[key].max_version
    ]


OF_A_LOGIN: Final = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
