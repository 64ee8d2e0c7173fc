"""The fleet: which gateways there are, which of them leads, and who mirrors which partition.

Members come from the fleet's group on the target. The **registry** (records of the state topic, written by the leader
before it admits a gateway) says who may hold a write lease; so a new leader knows whom to ask even when the group has
already forgotten a member. Pure: `control` asks the coordinator and writes the records.

Each process of a gateway (`workers`) is a member. The first has the gateway's own name, so that nothing changes for a
gateway of one process. The others have its name and their number: `gw-1`, `gw-1#2`, `gw-1#3`. Each is a member like any
other, with a lease of its own, and a write pause waits for all of them. Operators see the gateway.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heapreplace, nlargest
from typing import Final, NamedTuple

from gateway.mirror.rules.period import MirrorPartition

MARK: Final = "#"
"""No gateway's name may hold it."""

_WORKER: Final = re.compile(rf"(.+){MARK}[0-9]+")


def worker_name(gateway: str, index: int) -> str:
    """Of one of its processes, counted from 0."""
    return gateway if index == 0 else f"{gateway}{MARK}{index + 1}"


def gateway_of(member: str) -> str:
    """The gateway that a member of the fleet belongs to."""
    found = _WORKER.fullmatch(member)
    return member if found is None else found[1]


class FleetRole(StrEnum):
    """What a gateway does beside serving clients."""

    NODE = "node"  # owns mirror partitions, may lead
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMember:
    """A member as it describes itself when it joins.

    `name` is what stays over restarts (its advertised listener); `incarnation` tells two processes of one name apart.
    `peer`: host:port for the other gateways. `owned`: what it mirrors now. `place`: where it holds the lock of its name
    (`transport/name_lock.py`), '' for nowhere. `keys`: see `GatewayRecord`. `reads`: see `GatewayRecord`, and
    `rules/assignment.py`. `tells`: `owned` is what it mirrors; else that was too much to be said
    in the group, and is what it was given last. `bootstrap`: where its clients connect.
    """

    name: str
    incarnation: str
    role: FleetRole
    peer: str
    lease_s: float
    owned: frozenset[MirrorPartition] = frozenset()
    place: str = ""
    keys: str = ""
    reads: int = 1
    tells: bool = True
    bootstrap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A gateway that was admitted: it may write under a lease until it is known or presumed to have stopped."""

    name: str
    incarnation: str
    lease_s: float
    place: str = ""


def steps_back(leader: FleetMember, members: Collection[FleetMember]) -> bool:
    """True when the member that the coordinator made the leader should leave and join again.

    The coordinator takes any member. A sidecar must not lead while there is a node: the leader writes the state.
    """
    return leader.role is FleetRole.SIDECAR and any(member.role is FleetRole.NODE for member in members)


def newest(
    members: Mapping[str, FleetMember], registered: Mapping[str, str], replaced: Collection[tuple[str, str]] = ()
) -> dict[str, FleetMember]:
    """By member id, without those whose name a younger process has: the group may not have noticed their death yet.

    No clock tells which is younger, since they may have run on different machines: one that was replaced before is not,
    and one that is not registered, and never was, has come after the one that is. Of several that nobody has heard of
    the one is kept whose clock says that it began last: if that is wrong, a process ends that was admitted to nothing,
    and whoever runs it starts it again.

    Args:
        registered: name -> incarnation.
        replaced: (name, incarnation) of those that others have taken the place of.
    """

    def age(gateway: FleetMember) -> tuple[int, str]:
        if (gateway.name, gateway.incarnation) in replaced:
            return 0, gateway.incarnation
        return 1 if registered.get(gateway.name) == gateway.incarnation else 2, gateway.incarnation

    latest: dict[str, tuple[int, str]] = {}
    for gateway in members.values():
        latest[gateway.name] = max(latest.get(gateway.name, (0, "")), age(gateway))
    return {key: gateway for key, gateway in members.items() if latest[gateway.name] == age(gateway)}


def predecessor(name: str, incarnation: str) -> str:
    """The name by which a process goes on being waited for whose own name another one has taken."""
    return f"{name}@{incarnation}"


class AdmissionWrites(NamedTuple):
    """What to write before the members may be told their assignment.

    `replaced`: dead, for certain; what they had sent may land yet. `succeeded`: their names have been taken, and they
    may live and write: they are waited for as every gateway is that cannot be asked.
    """

    register: tuple[Registered, ...]
    replaced: tuple[Registered, ...]
    succeeded: tuple[Registered, ...]


def admit(members: Iterable[FleetMember], registry: Mapping[str, Registered]) -> AdmissionWrites:
    """Who must be registered anew.

    A name is no identity: another process may have been given it elsewhere while the old one goes on, cut off from the
    target alone. Only the lock of the name, held by both at one place, says that the old one is dead. What it had sent
    may land until the grace for unknown outcomes is over.
    """
    new: list[Registered] = []
    replaced: list[Registered] = []
    succeeded: list[Registered] = []
    for member in members:
        old = registry.get(member.name)
        entry = Registered(name=member.name, incarnation=member.incarnation, lease_s=member.lease_s, place=member.place)
        if old != entry:
            new.append(entry)
        if old is not None and old.incarnation != member.incarnation:
            (replaced if is_gone(old.place, member.place) else succeeded).append(old)
    return AdmissionWrites(tuple(new), tuple(replaced), tuple(succeeded))


def is_gone(place: str, held: str) -> bool:
    """Whoever held the lock of a name at one of the places of `place` is, when another process has it at `held` now.

    Places are told with `;` between (`transport/name_lock.py`).
    """
    return bool({each for each in place.split(";") if each} & set(held.split(";")))


def must_acknowledge(admitted: Collection[str], presumed: frozenset[str]) -> frozenset[str]:
    """Those who have to acknowledge a write pause: who was admitted, but for those whose leases are certainly over."""
    return frozenset(admitted) - presumed


def departed_unheard(
    departures: Iterable[tuple[float, str]], since: float, acknowledged: Collection[str]
) -> Sequence[str]:
    """Gateways that have gone since then without an answer to the write pause: their last writes may land yet.

    One that acknowledged and then died owes nothing: it had nothing in flight. `departures`: when, and who.
    """
    return [name for at, name in departures if at >= since and name not in acknowledged]


# -- who mirrors what ------------------------------------------------------------------------------------------


MOST_MOVES: Final = 250
_PART_OF_MOVES: Final = 8
_MOST_OF_ALL: Final = 200
_LEAST_OF_ALL: Final = 1_000


def most_moves(partitions: int) -> int:
    """What one round of a rebalance moves at most, of so many: `MOST_MOVES`, or one in 200 where that is more.

    So the rounds that it takes do not grow with the partitions, each of which a round looks at.
    """
    return max(MOST_MOVES, partitions // _MOST_OF_ALL)


def assign(
    nodes: Mapping[str, Collection[MirrorPartition]],
    partitions: Iterable[MirrorPartition],
    *,
    moves: int | None = None,
    given: Container[MirrorPartition] | None = None,
) -> dict[str, frozenset[MirrorPartition]]:
    """Each node's partitions from now on, given those it has: sticky and, after enough rounds, even.

    What nobody owns is given out at once. Of what is owned at most `moves` partitions change their owner, so that a
    rebalance never interrupts more than that at a time; by default an eighth of what the fullest node has more than the
    emptiest, at least one in a thousand and at most `most_moves`. `balanced` tells whether another round is due. Should
    two own the same partition (a takeover), the one with fewer keeps it. Deterministic.

    Args:
        given: what was given to somebody before; None: all of it. The rest runs where it was created, and is given out
            first: as many as `most_moves`, or the fleet would be evened out long after the last create.
    """
    if not nodes:
        return {}
    wanted = set(partitions)
    owned: dict[str, set[MirrorPartition]] = {name: set() for name in sorted(nodes)}
    overrides = sorted((len(nodes[name]), name) for name in nodes)
    free = set(wanted)
    for _, name in overrides:
        owned[name] = free.intersection(nodes[name])
        free -= owned[name]
    emptiest = [(len(held), name) for name, held in owned.items()]
    heapify(emptiest)
    for partition in sorted(free):
        count, name = emptiest[0]
        owned[name].add(partition)
        heapreplace(emptiest, (count + 1, name))
    counts = [len(held) for held in owned.values()]
    spread = (max(counts) - min(counts)) // _PART_OF_MOVES
    usual = max(1, len(wanted) // _LEAST_OF_ALL, min(spread, most_moves(len(wanted))))
    new = {} if given is None else {name: sorted(_not_in(given, held)) for name, held in owned.items()}
    moved = _move(owned, new, most_moves(len(wanted)) if moves is None else moves)
    _move(owned, None, (usual if moves is None else moves) - moved)
    return {name: frozenset(held) for name, held in owned.items()}


def _move(owned: dict[str, set[MirrorPartition]], of: dict[str, list[MirrorPartition]] | None, moves: int) -> int:
    """Move at most so many from the fullest node that has some to the emptiest. Returns how many.

    Args:
        of: what may be moved, by node, in order; None: all that it has.
    """
    last: dict[str, list[MirrorPartition]] = {} if of is None else of
    for moved in range(moves):
        giving = owned if of is None else [name for name, held in of.items() if held]
        if not giving:
            return moved
        most, least = max(giving, key=lambda name: (len(owned[name]), name)), _least(owned)
        if len(owned[most]) - len(owned[least]) < 2:
            return moved
        if of is None and not last.get(most):
            last[most] = nlargest(moves - moved, owned[most])[::-1]
        partition = last[most].pop()
        owned[most].remove(partition)
        owned[least].add(partition)
        if of is None:
            last.pop(least, None)
    return max(0, moves)


def _not_in(given: Container[MirrorPartition], held: Iterable[MirrorPartition]) -> Iterator[MirrorPartition]:
    return (each for each in held if each not in given)


def _least(owned: Mapping[str, Collection[MirrorPartition]]) -> str:
    return min(owned, key=lambda name: (len(owned[name]), name))


def balanced(owned: Mapping[str, Collection[MirrorPartition]]) -> bool:
    """True when no node has two more than another."""
    counts = [len(held) for held in owned.values()]
    return not counts or max(counts) - min(counts) < 2
