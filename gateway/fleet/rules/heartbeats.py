"""What gateways of a fleet tell one another ten times a second, as JSON and back. Pure.

A heartbeat says how far the sender's mirrors have come: what has moved since the heartbeat before, and once a second
what was measured; `rotation.py` has what is told again. Positions and measurements count only for the very mirror that
they were taken of: `tag_of` (`state/mirror_states.py`) differs when a topic was created anew or has changed its
direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.rules.mirror_partition import MirrorPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerHeartbeat:
    """One heartbeat. The sender's name is known from the connection.

    `regular`: one of those that come every 100 ms; only they say `leaving` and `held`. `leaving`: it is about to stop.
    `at`: topic -> (tag, partition -> position as source offset). `statuses`: (link, topic) -> (tag, what was measured).
    `forwarded`: records that it wrote to partitions that others mirror: (last base offset, how many). `held`: mirror
    topic -> what its write pause waits for here. `paused_for_job`: of the leader: (link, topic) that nobody is to
    mirror now. `watch`: partitions whose positions it wants at once, for a few seconds.
    """

    regular: bool = False
    leaving: bool = False
    at: Mapping[str, tuple[str, Mapping[int, int]]] = field(default_factory=dict)
    statuses: Mapping[tuple[str, str], tuple[str, Collection[PartitionStatus]]] = field(default_factory=dict)
    forwarded: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    paused_for_job: Collection[tuple[str, str]] | None = None
    watch: Collection[TopicPartition] = ()


def encode_heartbeat(heartbeat: PeerHeartbeat) -> dict[str, Any]:
    """As JSON; what is empty is left out."""
    found: dict[str, Any] = {
        "regular": heartbeat.regular,
        "leaving": heartbeat.leaving,
        "at": {topic: [tag, list(map(list, ends.items()))] for topic, (tag, ends) in heartbeat.at.items()},
        "statuses": [
            [*key, tag, [astuple(one) for one in statuses]] for key, (tag, statuses) in heartbeat.statuses.items()
        ],
        "forwarded": [[*place, *written] for place, written in heartbeat.forwarded.items()],
        "held": dict(heartbeat.held),
        "watch": [list(place) for place in heartbeat.watch],
    }
    found = {name: value for name, value in found.items() if value}
    if heartbeat.paused_for_job is not None:
        found["paused_for_job"] = [list(each) for each in heartbeat.paused_for_job]
    return found


def decode_heartbeat(body: Mapping[str, Any]) -> PeerHeartbeat:
    """What was said. Fields of a newer version are left out.

    Raises:
        KeyError, TypeError, ValueError: it is no heartbeat.
    """
    statuses = {
        (str(link), str(topic)): (str(tag), [_status(one) for one in all_of_it])
        for link, topic, tag, all_of_it in body.get("statuses", ())
    }
    paused_for_job = body.get("paused_for_job")
    return PeerHeartbeat(
        regular=bool(body.get("regular")),
        leaving=bool(body.get("leaving")),
        at={topic: (tag, {int(p): int(at) for p, at in ends}) for topic, (tag, ends) in body.get("at", {}).items()},
        statuses=statuses,
        forwarded={(str(topic), int(p)): (int(at), int(n)) for topic, p, at, n in body.get("forwarded", ())},
        held={str(topic): str(why) for topic, why in body.get("held", {}).items()},
        paused_for_job=None
        if paused_for_job is None
        else tuple((str(link), str(topic)) for link, topic in paused_for_job),
        watch=tuple((str(topic), int(p)) for topic, p in body.get("watch", ())),
    )


def _status(values: Iterable[Any]) -> PartitionStatus:
    """JSON has no tuples."""
    told: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in zip(_STATUS, values, strict=False)
    }
    return PartitionStatus(**told)


_STATUS = tuple(PartitionStatus.__dataclass_fields__)


def encode_partitions(partitions: Iterable[MirrorPartition]) -> list[list[Any]]:
    """As JSON."""
    return [list(each) for each in sorted(partitions)]


def decode_partitions(found: Iterable[Any]) -> frozenset[MirrorPartition]:
    """Raises ValueError when it is no list of (link, topic, partition)."""
    return frozenset(MirrorPartition(str(link), str(topic), int(index)) for link, topic, index in found)
