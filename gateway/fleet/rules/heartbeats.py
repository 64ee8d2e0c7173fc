"""What gateways of a fleet tell one another ten times a second, as JSON and back. Pure.

A heartbeat says how far the sender's mirrors have come: what has moved since the heartbeat before, and once a second
what was measured. Positions and measurements count only for the very mirror that
they were taken of: `tag_of` (`state/mirror_states.py`) differs when a topic was created anew or has changed its
direction.

To tell what has moved is not enough: one may be dropped, a gateway may come later, and a position does
not count where the mirror's record is not known yet. So all is told again, in turn: some of it each second, and all of
it at once, in pieces, when somebody is there who has not heard it. What is told costs by the second, then, and not by
how many partitions there are; and less with each turn in which nothing has happened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Final

from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.rules.period import MirrorPartition


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


PIECE: Final = 500
"""Partitions in one heartbeat. There is a piece a second at first: 4,000 partitions are told again within 8 s."""

SLOWEST: Final = 8
"""At rest there is a piece in so many seconds: the pause between two doubles with each turn."""


class Rotation:
    """Of the partitions that are mirrored here."""

    def __init__(self) -> None:
        self._here: frozenset[MirrorPartition] = frozenset()
        self._order: list[MirrorPartition] = []  # with some that are here no more, until the next turn
        self._next = 0
        self._owed = 0
        self._owes_all = False
        self._pause = 1  # of regular times, one is taken
        self._passed = 0

    def everything(self) -> None:
        """Somebody is there who has heard nothing of them."""
        self._owes_all = True

    def piece(
        self, here: frozenset[MirrorPartition], *, regular: bool, at_rest: bool = True
    ) -> Sequence[MirrorPartition]:
        """For the next heartbeat.

        Args:
            here: what is mirrored here now.
            regular: it is the time for a piece, whether or not somebody has still to hear of them.
            at_rest: nothing becomes of any of them.
        """
        if here is not self._here or self._owes_all or not at_rest:
            self._pause = 1
        if here is not self._here:
            self._order += sorted(here - self._here)
            self._here = here
        if self._owes_all:
            self._owed, self._owes_all = len(self._order), False
        if self._owed <= 0 and not (regular and self._is_time()):
            return ()
        if self._next >= len(self._order):
            self._pause = min(2 * self._pause, SLOWEST)
            self._next = 0
            self._order = list(dict.fromkeys(each for each in self._order if each in here))
        found = self._order[self._next : self._next + PIECE]
        self._next += len(found)
        self._owed -= len(found)
        return [each for each in found if each in here]

    def _is_time(self) -> bool:
        self._passed += 1
        if self._passed < self._pause:
            return False
        self._passed = 0
        return True
