"""Who a transactional producer is on each cluster. Values only, and their form in the topic that keeps them.

A transaction lives on one cluster: there its coordinator knows the transactional id under a producer id and epoch of
its own. A client of the gateway holds one identity, the target's own. For every other *place* it writes to, the
gateway keeps another, which it got from that place's coordinator by InitProducerId with the transactional id; data and
requests are restamped on their way.

Places. The target in failback epoch 0 is the client's own identity. A source is a place by its cluster id. A topic
whose writes have failed back (see `state/producer_ids.py`) meets brokers that remember the last sequence it had there;
so after each failback of any topic there is a place of its own, with a transactional id made from the client's: its
coordinator gives it a producer id that no log has seen, which may begin in the middle of a sequence. The client's own
transactional id stays initialised at that source beside it, and is asked for before each commit: an instance that
writes there directly has it, and either of the two must fence the other.

Why the map is kept in a topic, not worked out: epochs of two coordinators count independently, and each is also bumped
by others (a second instance on the source, a timed-out transaction). Their difference, asked again later, would make a
producer that was fenced a live one again. So it is written down when it is known for certain, by whichever gateway
serves InitProducerId, before the client learns its identity; keyed by transactional id, the newest record is in force.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

TARGET: Final = ""
"""The target's name as a cluster; a source is known by its cluster id, since several links may lead to it."""

_VERSION = 1


class TransactionSide(NamedTuple):
    """Where a transaction lives. `cluster`: TARGET, or a source's cluster id."""

    cluster: str
    failback_epoch: int = 0

    @property
    def plain(self) -> TransactionSide:
        """The same cluster under the client's own transactional id, which an instance has that writes directly."""
        return self._replace(failback_epoch=0)

    def __str__(self) -> str:
        name = f"source {self.cluster}" if self.cluster else "the target"
        return f"{name}, failback epoch {self.failback_epoch}" if self.failback_epoch else name


OWN: Final = TransactionSide(TARGET)
"""Where clients have their own identity: nothing is restamped."""


class ProducerIdentity(NamedTuple):
    """What a coordinator knows a transactional producer by."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """One transactional id: the client's identity and those at other places. `timeout_ms`: of its transactions."""

    transactional_id: str
    client: ProducerIdentity
    timeout_ms: int = 60_000
    sides: Mapping[TransactionSide, ProducerIdentity] = field(default_factory=dict)

    def at(self, side: TransactionSide) -> ProducerIdentity | None:
        """The identity at a place, None when there is none yet."""
        return self.client if side == OWN else self.sides.get(side)

    def newest(self, cluster: str) -> int:
        """The highest failback epoch known of a cluster, 0 without any. A lower one would go back in its sequences."""
        return max((side.failback_epoch for side in self.sides if side.cluster == cluster), default=0)


def id_at(transactional_id: str, side: TransactionSide) -> str:
    """The transactional id under which a place's coordinator knows the producer."""
    if not side.failback_epoch:
        return transactional_id
    return f"{transactional_id}.lockgate-{side.failback_epoch}"


def encode(record: ProducerRecord) -> bytes:
    """The record's value, compact JSON; its key is the transactional id."""
    sides = [[*side, *identity] for side, identity in record.sides.items()]
    body = {"v": _VERSION, "client": list(record.client), "timeout_ms": record.timeout_ms, "sides": sides}
    return json.dumps(body, separators=(",", ":")).encode()


def decode(transactional_id: str, value: bytes) -> ProducerRecord:
    """The record of a key and its value. Unknown fields are ignored.

    Raises:
        ValueError: not such a record, or one of a newer version; the message names the transactional id.
    """
    try:
        body = json.loads(value)
        if body["v"] > _VERSION:
            raise ValueError(f"version {body['v']} was written by a newer lockgate (this one reads {_VERSION})")
        sides = {
            TransactionSide(str(cluster), int(failback_epoch)): ProducerIdentity(int(producer_id), int(epoch))
            for cluster, failback_epoch, producer_id, epoch in body["sides"]
        }
        client = ProducerIdentity(*(int(number) for number in body["client"]))
        return ProducerRecord(transactional_id, client, int(body["timeout_ms"]), sides)
    except (ValueError, KeyError, TypeError) as exc:
        raise ValueError(f"record of transactional id {transactional_id!r}: {exc}") from exc


def merged(old: ProducerRecord | None, new: ProducerRecord) -> ProducerRecord:
    """What is in force after a record that follows another one of its transactional id.

    The target decides which instance is the newest: of one producer id the client of the higher epoch is in force, in
    whichever order gateways have written. An identity elsewhere that was obtained for the other one meanwhile is its
    successor's too, or the newest instance would find itself fenced by an older one. But a place that the newest has no
    identity at is none of its own: there the older instance is not paused yet.
    """
    if old is None or old.client.producer_id != new.client.producer_id:
        return new
    newest, other = (new, old) if new.client.epoch >= old.client.epoch else (old, new)
    sides = dict(newest.sides)
    for side, identity in other.sides.items():
        if side in sides and sides[side].producer_id == identity.producer_id:
            sides[side] = max(sides[side], identity)
        elif newest.client == other.client:
            sides.setdefault(side, identity)
    return ProducerRecord(newest.transactional_id, newest.client, newest.timeout_ms, sides)
