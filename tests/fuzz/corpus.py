"""Well-formed conversations, as clients of Kafka have them: where fuzzing begins.

A script is a list of requests in the order in which a client sends them, with names and numbers that fit together. The
versions are drawn from all that a gateway offers, so that each API is met in each of its encodings.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from protocol.apis import ApiKey, api_name
from protocol.codec import encode_request
from protocol.header import frame_request
from protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.fuzz.values import Filler, offered

OFFERED: Final = offered()
_VERSIONS: Final = {key: [v for k, v in OFFERED if k == key] for key, _ in OFFERED}
NO_CLASS: Final = (38, 39, 40, 41, 64)
"""APIs that are offered and have no message class: delegation tokens, UnregisterBroker. They pass as bytes."""


class Request(NamedTuple):
    """A frame, and what it is."""

    data: bytes
    note: str


class Writer:
    """Makes the frames of one connection."""

    def __init__(self, rng: random.Random, filler: Filler) -> None:
        self.rng = rng
        self._filler = filler
        self._correlation = 0
        self._client_id = rng.choice(("me", "me", "", None, "\N{SNOWMAN}", "c" * 300))

    def make(self, key: int, version: int | None = None, /, **given: Any) -> Request:
        """One request; what is not given is filled in."""
        self._correlation += 1
        if key in NO_CLASS:
            body = self.rng.randbytes(self.rng.choice((0, 8, 40)))
            return Request(frame_request(key, 1, self._correlation, self._client_id, body), f"{api_name(key)} v1")
        chosen = self.rng.choice(_VERSIONS[key]) if version is None else version
        data = self._filler.frame(key, chosen, self._correlation, self._client_id, **given)
        return Request(data, f"{api_name(key)} v{chosen}")

    def sasl(self, message: Any, version: int) -> Request:
        """A message of a login."""
        self._correlation += 1
        data = encode_request(message, version, self._correlation, self._client_id)
        return Request(data, f"{api_name(message.API_KEY)} v{version}")


# -- logins ------------------------------------------------------------------------------------------------------------


def login(writer: Writer, mechanism: str, user: str) -> list[Request]:
    """A whole login that the target accepts, if it knows the user."""
    first = writer.sasl(SaslHandshakeRequest(mechanism=mechanism), 1)
    version = writer.rng.choice((0, 1, 2))
    said = [writer.sasl(SaslAuthenticateRequest(auth_bytes=message), version) for message in _words(mechanism, user)]
    return [first, *said]


def _words(mechanism: str, user: str) -> Sequence[bytes]:
    name = user.encode()
    if mechanism == "SCRAM-SHA-256":
        return (b"n,,n=" + name + b",r=abc", b"c=biws,r=abcnonce,p=" + name)
    if mechanism == "OAUTHBEARER":
        return (b"n,,\x01auth=Bearer " + name + b"\x01\x01",)
    return (b"\0" + name + b"\0" + name,)


# -- what clients do ---------------------------------------------------------------------------------------------------


def producer(writer: Writer) -> list[Request]:
    """Metadata, an id, and writes to one topic or another."""
    topic = writer.rng.choice(("mirrored", "promoted", "plain", "later", "unknown"))
    writes = [writer.make(ApiKey.PRODUCE, name=topic, index=0, transactional_id=None) for _ in range(3)]
    return [writer.make(ApiKey.METADATA), writer.make(ApiKey.INIT_PRODUCER_ID, transactional_id=None), *writes]


def transactional(writer: Writer) -> list[Request]:
    """One transaction after another, with a group's offsets."""
    name, topic, group = writer.rng.choice(("tx-1", "tx-2")), writer.rng.choice(("mirrored", "promoted")), "gated"
    who = {"transactional_id": name, "producer_id": 1000, "producer_epoch": 0, "v3_and_below_transactional_id": name}
    who |= {"v3_and_below_producer_id": 1000, "v3_and_below_producer_epoch": 0}
    found = [
        writer.make(ApiKey.FIND_COORDINATOR, key=name, key_type=1, coordinator_keys=[name]),
        writer.make(ApiKey.INIT_PRODUCER_ID, transactional_id=name, producer_id=-1, producer_epoch=-1),
    ]
    for _ in range(2):
        found += [
            writer.make(ApiKey.ADD_PARTITIONS_TO_TXN, **who, name=topic, partitions=[0]),
            writer.make(ApiKey.PRODUCE, transactional_id=name, name=topic, index=0),
            writer.make(ApiKey.ADD_OFFSETS_TO_TXN, **who, group_id=group),
            writer.make(ApiKey.TXN_OFFSET_COMMIT, **who, group_id=group),
            writer.make(ApiKey.END_TXN, **who),
        ]
    return found


def consumer(writer: Writer) -> list[Request]:
    """A member of a group: joins, reads, commits, leaves."""
    group, topic = writer.rng.choice(("gated", "local", "fresh")), writer.rng.choice(("mirrored", "promoted", "plain"))
    it = {"group_id": group, "group_instance_id": None}
    return [
        writer.make(ApiKey.METADATA),
        writer.make(ApiKey.FIND_COORDINATOR, key=group, key_type=0, coordinator_keys=[group]),
        writer.make(ApiKey.JOIN_GROUP, writer.rng.choice((0, 3, 5)), **it, member_id=""),
        writer.make(ApiKey.SYNC_GROUP, **it),
        writer.make(ApiKey.OFFSET_FETCH, group_id=group),
        writer.make(ApiKey.LIST_OFFSETS, name=topic),
        writer.make(ApiKey.FETCH, topic=topic, session_id=0, session_epoch=-1),
        writer.make(ApiKey.HEARTBEAT, **it),
        writer.make(ApiKey.OFFSET_COMMIT, **it),
        writer.make(ApiKey.FETCH, topic=topic),
        writer.make(ApiKey.LEAVE_GROUP, **it),
    ]


def new_consumer(writer: Writer) -> list[Request]:
    """A member by the protocol of KIP-848."""
    group = writer.rng.choice(("gated", "local", "fresh"))
    beats = [
        writer.make(ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id=group, member_id="m-1", member_epoch=epoch)
        for epoch in (0, 1, 1, -1)
    ]
    return [beats[0], writer.make(ApiKey.OFFSET_FETCH, group_id=group), *beats[1:]]


def admin(writer: Writer) -> list[Request]:
    """Topics are made, changed, deleted; groups are looked at."""
    keys = (
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.DELETE_RECORDS,
        ApiKey.DELETE_TOPICS,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.DESCRIBE_CLUSTER,
    )
    return [writer.make(key) for key in keys]


def anything(writer: Writer) -> list[Request]:
    """Some of all APIs, in no order."""
    keys = [*_VERSIONS, *NO_CLASS]
    return [writer.make(writer.rng.choice(keys)) for _ in range(writer.rng.choice((1, 3, 8)))]


def pipelined(writer: Writer) -> list[Request]:
    """One request again and again, as fast as it goes."""
    key = writer.rng.choice(list(_VERSIONS))
    return [writer.make(key) for _ in range(writer.rng.choice((5, 20)))]


SCRIPTS: Final[Sequence[Callable[[Writer], list[Request]]]] = (
    producer,
    transactional,
    consumer,
    new_consumer,
    admin,
    anything,
    anything,
    pipelined,
)
