"""What gateways of a fleet tell one another ten times a second, as JSON and back. Pure.

A beat says how far the sender's mirrors have come: what has moved since the beat before, and once a second all of it
with measurements, so that a beat that was dropped is made up for. A position counts only for the very mirror it was
measured of: `tag_of` differs when a topic was created anew or has changed its direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from gateway.domain.membership import MirrorPartition
from gateway.domain.ports import PartitionStatus
from gateway.domain.records import MirrorRecord

Place = tuple[str, int]  # (mirror topic, partition)


def tag_of(record: MirrorRecord) -> str:
    """Tells the mirrors that a topic has had apart."""
    return f"{record.mirror_id}.{record.generation}.{'back' if record.is_reverse else 'to'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One beat. The sender's name is known from the connection.

    `regular`: one of those that come every 100 ms; only they say `leaving` and `held`. `leaving`: it is about to stop.
    `at`: topic -> (tag, partition -> position as source offset). `statuses`: of what it mirrors, by (link, topic).
    `forwarded`: records that it wrote to partitions that others mirror: (last base offset, how many). `held`: mirror
    topic -> what its fence waits for here. `aside`: of the leader: (link, topic) that nobody is to mirror now. `watch`:
    partitions whose positions it wants at once, for a few seconds.
    """

    regular: bool = False
    leaving: bool = False
    at: Mapping[str, tuple[str, Mapping[int, int]]] = field(default_factory=dict)
    statuses: Mapping[tuple[str, str], Collection[PartitionStatus]] = field(default_factory=dict)
    forwarded: Mapping[Place, tuple[int, int]] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    aside: Collection[tuple[str, str]] | None = None
    watch: Collection[Place] = ()


def encode_beat(beat: Beat) -> dict[str, Any]:
    """As JSON; what is empty is left out."""
    found: dict[str, Any] = {
        "regular": beat.regular,
        "leaving": beat.leaving,
        "at": {topic: [tag, list(map(list, ends.items()))] for topic, (tag, ends) in beat.at.items()},
        "statuses": [[*key, [astuple(one) for one in statuses]] for key, statuses in beat.statuses.items()],
        "forwarded": [[*place, *written] for place, written in beat.forwarded.items()],
        "held": dict(beat.held),
        "watch": [list(place) for place in beat.watch],
    }
    found = {name: value for name, value in found.items() if value}
    if beat.aside is not None:
        found["aside"] = [list(each) for each in beat.aside]
    return found


def decode_beat(body: Mapping[str, Any]) -> Beat:
    """What was said. Fields of a newer version are left out.

    Raises:
        KeyError, TypeError, ValueError: it is no beat.
    """
    statuses = {
        (str(link), str(topic)): [PartitionStatus(**dict(zip(_STATUS, one, strict=False))) for one in all_of_it]
        for link, topic, all_of_it in body.get("statuses", ())
    }
    aside = body.get("aside")
    return Beat(
        regular=bool(body.get("regular")),
        leaving=bool(body.get("leaving")),
        at={topic: (tag, {int(p): int(at) for p, at in ends}) for topic, (tag, ends) in body.get("at", {}).items()},
        statuses=statuses,
        forwarded={(str(topic), int(p)): (int(at), int(n)) for topic, p, at, n in body.get("forwarded", ())},
        held={str(topic): str(why) for topic, why in body.get("held", {}).items()},
        aside=None if aside is None else tuple((str(link), str(topic)) for link, topic in aside),
        watch=tuple((str(topic), int(p)) for topic, p in body.get("watch", ())),
    )


_STATUS = tuple(PartitionStatus.__dataclass_fields__)


def encode_partitions(partitions: Iterable[MirrorPartition]) -> list[list[Any]]:
    """As JSON."""
    return [list(each) for each in sorted(partitions)]


def decode_partitions(found: Iterable[Any]) -> frozenset[MirrorPartition]:
    """Raises ValueError when it is no list of (link, topic, partition)."""
    return frozenset(MirrorPartition(str(link), str(topic), int(index)) for link, topic, index in found)
