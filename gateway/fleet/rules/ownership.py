"""Which partitions a gateway mirrors, from the assignment, the records and who is heard. Pure.

Mirrors that just run are spread over the nodes. A topic in any transition (being padded, promoted, in a failback) is
mirrored by the leader, so that whoever drives the transition has its mirror at hand. When a gateway falls silent the
others share what it had, the leader's part too, until the next assignment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gateway.fleet.rules.takeover import heirs
from gateway.mirror.rules.mirror_partition import MirrorPartition
from gateway.state.records import MirrorRecord, MirrorState

_AT_WORK = (MirrorState.ACTIVE, MirrorState.SOURCE_UNAVAILABLE, MirrorState.LINK_FAILED)


def partitions_of(record: MirrorRecord) -> frozenset[MirrorPartition]:
    """All partitions of a mirror topic."""
    return frozenset(MirrorPartition(record.link, record.mirror_topic, index) for index in range(len(record.starts)))


def is_spread(record: MirrorRecord) -> bool:
    """True for a mirror that nobody drives now: any node may have its partitions."""
    return record.created and record.readable and not record.is_reverse and record.state in _AT_WORK


def spread(records: Iterable[MirrorRecord]) -> frozenset[MirrorPartition]:
    """What the leader gives out to nodes (`membership.assign`)."""
    return frozenset(each for record in records if is_spread(record) for each in partitions_of(record))


def owners_now(
    leader: str, owners: Mapping[str, Collection[MirrorPartition]], records: Iterable[MirrorRecord]
) -> dict[str, frozenset[MirrorPartition]]:
    """Who mirrors what, when all are there: the assignment, and at the leader what is not given out (yet).

    Whether a mirror runs at all is another matter: the partitions of mirrors in every state are the leader's.

    Args:
        owners: of the assignment; only the nodes that stand in it mirror anything.
    """
    known = list(records)
    given = spread(known)
    found = {name: given.intersection(held) for name, held in owners.items()}
    rest = frozenset(each for record in known for each in partitions_of(record))
    rest = rest.difference(*found.values())
    if leader in found:
        found[leader] |= rest
    return found


def mirrored_by(
    owners: Mapping[str, Collection[MirrorPartition]], silent: Collection[str]
) -> dict[str, frozenset[MirrorPartition]]:
    """Who mirrors what while these gateways are silent: the others share what they had.

    Args:
        owners: as `owners_now` says.
    """
    found = {name: frozenset(held) for name, held in owners.items() if name not in silent}
    for name, lost in heirs(owners, silent).items():
        found[name] |= lost
    return found
