"""Who a transactional producer is on each cluster. Values only, and their form in the topic that keeps them.

A transaction lives on one cluster: there its coordinator knows the transactional id under a producer id and epoch of
its own. A client of the gateway holds one identity, the target's own. For every other *place* it writes to, the
gateway keeps another, which it got from that place's coordinator by InitProducerId with the transactional id; data and
requests are restamped on their way.

Places. The target in generation 0 is the client's own identity. A source is a place by its cluster id. A topic whose
writes have gone home (see `domain/producer_ids.py`) meets brokers that remember the last sequence it had there; so
after each way home of any topic there is a *generation*, a place of its own, with a transactional id made from the
client's: its coordinator gives it a producer id that no log has seen, which may begin in the middle of a sequence.

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


class Place(NamedTuple):
    """Where a transaction lives. `cluster`: TARGET, or a source's cluster id."""

    cluster: str
    generation: int = 0

    def __str__(self) -> str:
        name = f"source {self.cluster}" if self.cluster else "the target"
        return f"{name}, generation {self.generation}" if self.generation else name


OWN: Final = Place(TARGET)
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
    places: Mapping[Place, ProducerIdentity] = field(default_factory=dict)

    def at(self, place: Place) -> ProducerIdentity | None:
        """The identity at a place, None when there is none yet."""
        return self.client if place == OWN else self.places.get(place)

    def newest(self, cluster: str) -> int:
        """The highest generation known of a cluster, 0 without any. A lower one would go back in its sequences."""
        return max((place.generation for place in self.places if place.cluster == cluster), default=0)


def id_at(transactional_id: str, place: Place) -> str:
    """The transactional id under which a place's coordinator knows the producer."""
    if not place.generation:
        return transactional_id
    return f"{transactional_id}.lockgate-{place.generation}"


def encode(record: ProducerRecord) -> bytes:
    """The record's value, compact JSON; its key is the transactional id."""
    places = [[*place, *identity] for place, identity in record.places.items()]
    body = {"v": _VERSION, "client": list(record.client), "timeout_ms": record.timeout_ms, "places": places}
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
        places = {
            Place(str(cluster), int(generation)): ProducerIdentity(int(producer_id), int(epoch))
            for cluster, generation, producer_id, epoch in body["places"]
        }
        client = ProducerIdentity(*(int(number) for number in body["client"]))
        return ProducerRecord(transactional_id, client, int(body["timeout_ms"]), places)
    except (ValueError, KeyError, TypeError) as exc:
        raise ValueError(f"record of transactional id {transactional_id!r}: {exc}") from exc


def merged(old: ProducerRecord | None, new: ProducerRecord) -> ProducerRecord:
    """What is in force after a record that follows another one of its transactional id.

    The target decides which instance is the newest: of one producer id the client of the higher epoch is in force, in
    whichever order gateways have written. An identity elsewhere that was obtained for the other one meanwhile is its
    successor's too, or the newest instance would find itself fenced by an older one. But a place that the newest has no
    identity at is none of its own: there the older instance is not fenced yet.
    """
    if old is None or old.client.producer_id != new.client.producer_id:
        return new
    newest, other = (new, old) if new.client.epoch >= old.client.epoch else (old, new)
    places = dict(newest.places)
    for place, identity in other.places.items():
        if place in places and places[place].producer_id == identity.producer_id:
            places[place] = max(places[place], identity)
        elif newest.client == other.client:
            places.setdefault(place, identity)
    return ProducerRecord(newest.transactional_id, newest.client, newest.timeout_ms, places)
