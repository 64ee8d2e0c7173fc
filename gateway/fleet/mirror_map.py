"""Who mirrors what, as far as this gateway knows: from the last assignment, and from who is heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.fleet.releases import EVERYBODY
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.ownership import mirrored_by, owners_now
from gateway.mirror.rules.mirror_partition import MirrorPartition
from gateway.state.records import MirrorRecord

Found = dict[str, frozenset[MirrorPartition]]


class MirrorMap:
    """`name`: this gateway's.

    Attributes:
        assignment: the last one; None when the group has forgotten this gateway.
        claimed: (link, topic) that the leader, which this is, mirrors itself, whatever it has given out.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._holders: dict[MirrorPartition, str] | None = None  # None: nothing is known yet
        self.assignment: FleetAssignment | None = None
        self.overridden: set[tuple[str, str]] = set()

    @property
    def leader(self) -> str:
        """Of the present assignment; '' without one."""
        return "" if self.assignment is None else self.assignment.leader

    def nodes(self, gone: frozenset[str]) -> frozenset[str]:
        """The other nodes that can be asked, without those that are gone."""
        owners = () if self.assignment is None else self.assignment.owners
        return frozenset(owners) - gone - {self._name}

    def find(self, records: Sequence[MirrorRecord], absent: frozenset[str]) -> Found:
        """Who is to mirror what now, without those that are absent."""
        if self.assignment is None:
            return {}
        given = self.assignment.owners
        if self.overridden:  # not given out: the leader's
            given = {
                name: frozenset(each for each in held if (each.link, each.topic) not in self.overridden)
                for name, held in given.items()
            }
        return mirrored_by(owners_now(self.assignment.leader, given, records), absent)

    def whom_to_ask(self, wanted: frozenset[MirrorPartition], others: frozenset[str]) -> Mapping[MirrorPartition, str]:
        """Who of the others has them now. Who is new asks everybody; what nobody has ever had is taken at once."""
        if not others:
            return {}
        if self._holders is None:
            return dict.fromkeys(wanted, EVERYBODY)
        return {each: name for each in wanted if (name := self._holders.get(each, "")) in others}

    def keep(self, found: Found) -> None:
        """That is how it is from now on."""
        self._holders = None
        if self.assignment is not None:
            self._holders = {each: name for name, held in found.items() for each in held}

    def holder(self, partition: MirrorPartition) -> str:
        """The gateway that mirrors a partition; '' while nobody does."""
        return (self._holders or {}).get(partition, "")

    def of(self, link: str, topic: str) -> frozenset[MirrorPartition]:
        """The partitions of a mirror, of those that somebody mirrors."""
        return frozenset(each for each in self._holders or () if (each.link, each.topic) == (link, topic))

    def by_name(self) -> Found:
        """What each gateway mirrors."""
        found: dict[str, set[MirrorPartition]] = {}
        for partition, name in (self._holders or {}).items():
            found.setdefault(name, set()).add(partition)
        return {name: frozenset(partitions) for name, partitions in found.items()}
