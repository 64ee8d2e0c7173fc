"""Which partitions a gateway mirrors, from the assignment, the records and who is heard. Pure.

Mirrors that just run are spread over the nodes. A topic in any transition (being padded, promoted, in a failback) is
mirrored by the leader, so that whoever drives the transition has its mirror at hand. When a gateway falls silent the
others share what it had, the leader's part too, until the next assignment.

They take over long before its group notices. A stock broker's shortest session timeout is 6 s. Gateways therefore tell
one another that they live, several times a second, and when an owner is silent for `SILENCE_S` another node mirrors its
partitions until the next assignment. Suspicion may be wrong at no cost: two appenders of one partition do no harm (the
sequence of a batch is its place in the log), so nobody is asked. Only a write pause needs certainty; see
`fleet/rules/leases.py`.

Who takes over is worked out by every node alike, from the assignment and from whom it hears: highest random weight
(rendezvous hashing) spreads a silent node's partitions over all others. Two nodes that hear different peers may both
take one, or (for as long as they differ) neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b

from gateway.mirror.rules.period import MirrorPartition
from gateway.state.records import MirrorRecord, MirrorState

HEARTBEAT_S = 0.1
SILENCE_S = 0.5


class PeerWatch:
    """When each peer was last heard, in seconds of the listener's monotonic clock.

    A peer counts from when it was first expected. After a pause of the listener itself (its own heartbeats are overdue)
    everybody gets the time anew: silence that nobody listened to proves nothing.
    """

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self._silence_s = silence_s
        self._heard: dict[str, float] = {}
        self._looked: float | None = None

    def expect(self, peers: Iterable[str], now: float) -> None:
        """Listen to these from now on, and to no others."""
        self._heard = {peer: self._heard.get(peer, now) for peer in peers}

    def heard(self, peer: str, now: float) -> None:
        """A heartbeat came."""
        if peer in self._heard:
            self._heard[peer] = now

    def left(self, peer: str) -> None:
        """The peer said that it leaves: it is silent from now on."""
        if peer in self._heard:
            self._heard[peer] = float("-inf")

    def silent(self, now: float) -> frozenset[str]:
        """The peers that are suspected. To be asked more often than every half of the silence."""
        paused = self._looked is not None and now - self._looked > self._silence_s / 2
        self._looked = now
        if paused:
            self._heard = {peer: max(at, now) if at > float("-inf") else at for peer, at in self._heard.items()}
        return frozenset(peer for peer, at in self._heard.items() if now - at >= self._silence_s)


def heirs(
    assignment: Mapping[str, Collection[MirrorPartition]], silent: Collection[str]
) -> dict[str, frozenset[MirrorPartition]]:
    """Who mirrors what of the silent ones' partitions."""
    alive = sorted(name for name in assignment if name not in silent)
    found: dict[str, set[MirrorPartition]] = {}
    for partition in (each for name in assignment if name in silent for each in assignment[name]):
        if alive:
            found.setdefault(heir(alive, partition), set()).add(partition)
    return {name: frozenset(partitions) for name, partitions in found.items()}


def heir(alive: Collection[str], partition: MirrorPartition) -> str:
    """Who of these mirrors one partition of a silent gateway; there is one at least."""
    return max(alive, key=lambda name: _weight(name, partition))


def _weight(name: str, partition: MirrorPartition) -> bytes:
    place = f"{partition.link}\0{partition.topic}\0{partition.partition}\0{name}".encode()
    return blake2b(place, digest_size=8).digest()


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
