"""Who mirrors what, as far as this gateway knows: from the last assignment, and from who is heard.

What follows is worked out anew for the mirrors whose records have changed, or that are overridden, or are so no more;
for those of which another assignment gives partitions to others; and for those that have to do with whoever is absent,
or leads, now or before. So a record costs as much at 100 mirrors as at 10,000, a round of a rebalance what it moves.

An override gives a topic to the leader for a while, whoever mirrored it before: with positions and producers at hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from gateway.fleet.releases import EVERYBODY
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.ownership import heir, is_spread, mirrored_by, owners_now, partitions_of
from gateway.mirror.interface import OwnedMirrors, PartitionStatus
from gateway.mirror.rules.period import MirrorPartition
from gateway.state.records import MirrorRecord

Key = tuple[str, str]
"""(link, mirror topic)"""

Holders = Mapping[MirrorPartition, str]
_Basis = tuple[FleetAssignment | None, frozenset[str], frozenset[Key]]


@dataclass(frozen=True, slots=True)
class Division:
    """Who is to mirror what. `topics`: of all mirrors, or of those that have changed (`partial`); a mirror that is gone
    has no holders."""

    topics: Mapping[Key, Holders]
    basis: _Basis
    partial: bool = False


class MirrorMap:
    """`name`: this gateway's.

    Attributes:
        overridden: (link, topic) that the leader, which this is, mirrors itself, whatever it has given out.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._topics: dict[Key, Holders] | None = None  # None: nothing is known yet
        self._basis: _Basis | None = None
        self._assignment: FleetAssignment | None = None
        self._given: dict[MirrorPartition, str] = {}
        self.overridden: set[Key] = set()

    @property
    def assignment(self) -> FleetAssignment | None:
        """The last one; None when the group has forgotten this gateway."""
        return self._assignment

    @assignment.setter
    def assignment(self, assignment: FleetAssignment | None) -> None:
        self._assignment = assignment
        owners = {} if assignment is None else assignment.owners
        self._given = {each: name for name, held in owners.items() for each in held}

    @property
    def leader(self) -> str:
        """Of the present assignment; '' without one."""
        return "" if self._assignment is None else self._assignment.leader

    def nodes(self, gone: frozenset[str]) -> frozenset[str]:
        """The other nodes that can be asked, without those that are gone."""
        owners = () if self._assignment is None else self._assignment.owners
        return frozenset(owners) - gone - {self._name}

    def find(self, records: Mapping[Key, MirrorRecord], changed: Iterable[Key], absent: frozenset[str]) -> Division:
        """Who is to mirror what now, without those that are absent.

        Args:
            records: of all mirrors.
            changed: those that are others, or gone, since what was kept.
        """
        basis = self._assignment, absent, frozenset(self.overridden)
        if self._assignment is None:
            return Division({}, basis)
        kept = self._basis
        if self._topics is None or kept is None or kept[0] is None:
            return self._whole(self._assignment, records, absent, basis)
        news = {*changed, *(kept[2] ^ basis[2]), *_given_to_others(kept[0], self._assignment)}
        is_same = kept[0] is self._assignment or (not absent and _is_led_alike(kept[0], self._assignment))
        if kept[1] != absent or not is_same:
            news |= self._touched_by({*absent, *kept[1], kept[0].leader, self._assignment.leader}, records)
        alive = sorted(self._assignment.owners.keys() - absent)
        return Division(
            {key: self._holders_of(self._assignment, records.get(key), absent, alive) for key in news},
            basis,
            partial=True,
        )

    def _touched_by(self, names: Collection[str], records: Mapping[Key, MirrorRecord]) -> set[Key]:
        """The mirrors that one of these has a part of, or of which somebody has what it was not given; or of which
        nobody has a part."""
        topics, those, found = self._topics or {}, frozenset(names), set[Key]()
        for key, holders in topics.items():
            given = self._given_of(records.get(key))
            if not those.isdisjoint(holders.values()) or any(given.get(each) != name for each, name in holders.items()):
                found.add(key)
        return found | {key for key, record in records.items() if len(topics.get(key, ())) < len(record.starts)}

    def _whole(
        self,
        assignment: FleetAssignment,
        records: Mapping[Key, MirrorRecord],
        absent: frozenset[str],
        basis: _Basis,
    ) -> Division:
        given = assignment.owners
        if self.overridden:  # not given out: the leader's
            given = {
                name: frozenset(each for each in held if (each.link, each.topic) not in self.overridden)
                for name, held in given.items()
            }
        found = mirrored_by(owners_now(assignment.leader, given, records.values()), absent)
        topics: dict[Key, dict[MirrorPartition, str]] = {}
        for name, held in found.items():
            for each in held:
                topics.setdefault((each.link, each.topic), {})[each] = name
        return Division(topics, basis)

    def _holders_of(
        self, assignment: FleetAssignment, record: MirrorRecord | None, absent: frozenset[str], alive: Sequence[str]
    ) -> Holders:
        """As `mirrored_by` says, of one mirror."""
        if record is None:
            return {}
        given, partitions = self._given_of(record), partitions_of(record)
        leader = assignment.leader if assignment.leader in assignment.owners else ""
        found = {each: given.get(each, leader) for each in partitions}
        if absent:
            lost = [each for each, name in found.items() if name in absent]
            found |= {each: heir(alive, each) if alive else "" for each in lost}
        return {each: name for each, name in found.items() if name}

    def _given_of(self, record: MirrorRecord | None) -> Holders:
        """What the assignment gives out of a mirror: of one that is not spread that counts for nothing."""
        if record is None or not is_spread(record) or (record.link, record.mirror_topic) in self.overridden:
            return {}
        return self._given

    def moved(self, found: Division) -> set[MirrorPartition]:
        """The partitions that another gateway is to mirror than what was kept says, or one at last, or none now."""
        topics = self._topics or {}
        return {
            each for key, holders in found.topics.items() for each, _ in holders.items() ^ topics.get(key, {}).items()
        }

    def whom_to_ask(self, wanted: Collection[MirrorPartition], others: frozenset[str]) -> Holders:
        """Who of the others has them now. Who is new asks everybody; what nobody has ever had is taken at once."""
        if not others:
            return {}
        if self._topics is None:
            return dict.fromkeys(wanted, EVERYBODY)
        return {each: name for each in wanted if (name := self.holder(each)) in others}

    def keep(self, found: Division) -> None:
        """That is how it is from now on."""
        self._basis = found.basis
        if found.partial and self._topics is not None:
            self._topics.update(found.topics)
            for key in [key for key, holders in found.topics.items() if not holders]:
                del self._topics[key]
        else:
            self._topics = None if self._assignment is None else dict(found.topics)

    def holder(self, partition: MirrorPartition) -> str:
        """The gateway that mirrors a partition; '' while nobody does."""
        return (self._topics or {}).get((partition.link, partition.topic), {}).get(partition, "")

    def is_mine(self, partition: MirrorPartition) -> bool:
        """This gateway mirrors it."""
        return self.holder(partition) == self._name

    def of(self, link: str, topic: str) -> frozenset[MirrorPartition]:
        """The partitions of a mirror, of those that somebody mirrors."""
        return frozenset((self._topics or {}).get((link, topic), ()))

    def by_name(self) -> dict[str, frozenset[MirrorPartition]]:
        """What each gateway mirrors."""
        found: dict[str, set[MirrorPartition]] = {}
        for holders in (self._topics or {}).values():
            for partition, name in holders.items():
                found.setdefault(name, set()).add(partition)
        return {name: frozenset(partitions) for name, partitions in found.items()}


def _is_led_alike(one: FleetAssignment, other: FleetAssignment) -> bool:
    """What nobody was given is at the same gateway in both, or at none."""
    leader = other.leader
    return one.leader == leader and (leader in one.owners) is (leader in other.owners)


def _given_to_others(before: FleetAssignment, now: FleetAssignment) -> set[Key]:
    """The mirrors of whose partitions some are given to another gateway, to none any more, or to one at last."""
    if before is now:
        return set()
    none = frozenset[MirrorPartition]()
    pairs = ((before.owners.get(name, none), now.owners.get(name, none)) for name in {*before.owners, *now.owners})
    return {(each.link, each.topic) for one, other in pairs for each in one ^ other}


OVERRIDE_S: Final = 3.0
_CATCH_UP_S: Final = 0.5
_LOOK_S: Final = 0.01


class OwnershipOverrides:
    """Args.

    here: what is mirrored in this process.
    status: of all partitions of a mirror, wherever they are mirrored.
    decide: to be called when `known.overridden` has changed.
    """

    def __init__(
        self,
        known: MirrorMap,
        engine: OwnedMirrors,
        here: Callable[[], frozenset[MirrorPartition]],
        status: Callable[[MirrorRecord], Sequence[PartitionStatus]],
        decide: Callable[[], None],
    ) -> None:
        self._known = known
        self._engine = engine
        self._here = here
        self._status = status
        self._decide = decide

    @asynccontextmanager
    async def take(self, link: str, topic: str) -> AsyncIterator[None]:
        """For the time of the block mirror the topic here. Who does not hand it over in OVERRIDE_S is not waited
        for."""
        mirror = self._engine.started_as(link, topic)
        known = () if mirror is None else self._status(mirror)
        ends = {one.partition: one.source_end for one in known if one.source_end is not None}
        moves = not self._known.of(link, topic) <= self._here()
        self._known.overridden.add((link, topic))
        try:
            self._decide()
            if moves:
                await _until(lambda: self._has_begun(link, topic), OVERRIDE_S)
                await _until(lambda: self._has_come_to(link, topic, ends), _CATCH_UP_S)
            yield
        finally:
            self._known.overridden.discard((link, topic))
            self._decide()

    def _has_begun(self, link: str, topic: str) -> bool:
        """All partitions of the topic are mirrored here, and it is known how far; or the topic is not mirrored."""
        statuses = self._statuses(link, topic)
        return self._known.of(link, topic) <= self._here() and all(one.phase != "starting" for one in statuses)

    def _statuses(self, link: str, topic: str) -> Sequence[PartitionStatus]:
        mirror = self._engine.started_as(link, topic)
        return () if mirror is None else self._engine.status(mirror)

    def _has_come_to(self, link: str, topic: str, ends: Mapping[int, int]) -> bool:
        """What was interrupted by the move is made up for. Of a source that is gone it never is.

        Of a partition of which nobody has told the source's end, the end that is seen from here counts.
        """
        statuses = {one.partition: one for one in self._statuses(link, topic)}
        wanted = [statuses.get(each.partition) for each in self._known.of(link, topic)]
        return all(one is not None and _has_come_to(one, ends.get(one.partition)) for one in wanted)


def _has_come_to(here: PartitionStatus, end: int | None) -> bool:
    goal = here.source_end if end is None else end
    return goal is not None and here.mirrored_to is not None and here.mirrored_to >= goal


async def _until(condition: Callable[[], bool], limit_s: float) -> None:
    for _ in range(round(limit_s / _LOOK_S)):
        if condition():
            return
        await asyncio.sleep(_LOOK_S)
