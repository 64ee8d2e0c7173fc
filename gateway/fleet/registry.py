"""The leader's book of who may write to sources: who was admitted, who of them is gone, and from when one may say so.

Records of the state topic hold who was admitted; the rest is of one term of leadership and counted anew by the next
leader. See docs/operate/fleet.md.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import structlog

from gateway.errors import Conflict, NotFound
from gateway.fleet.rules.leases import Presumptions
from gateway.fleet.rules.membership import (
    FleetMember,
    Registered,
    admit,
    departed_unheard,
    is_gone,
    must_acknowledge,
    newest,
    predecessor,
)
from gateway.state.codec import Record, key_of
from gateway.state.gateway_records import DEPARTED, OLDER, FleetRecord, GatewayRecord
from gateway.state.store import StateStore

_DEPARTURES = 100
_log = structlog.get_logger("lockgate.fleet")


class FleetRegistry:
    """One per term.

    Args:
        me: this gateway's name; it is never lost. incarnation: of this process.
        clock: of leases, see `fleet/rules/leases.py`. monotonic: of promotes.
        new_secret: makes the fleet's, if it has none yet.
    """

    def __init__(
        self,
        store: StateStore,
        me: str,
        incarnation: str,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        wall_ms: Callable[[], int],
        new_secret: Callable[[], str],
    ) -> None:
        self._store = store
        self._me = me
        self._incarnation = incarnation
        self._clock = clock
        self._monotonic = monotonic
        self._wall_ms = wall_ms
        self._new_secret = new_secret
        self._presumptions = Presumptions()
        # Who comes and who goes, one after the other: a delete that a slow target has not answered yet would else take
        # out a gateway that was found in the registry meanwhile, and admitted because of that.
        self._changing = asyncio.Lock()
        self._present: frozenset[tuple[str, str]] = frozenset()  # in the present generation: name, incarnation
        self._members: Mapping[str, str] = {}
        self._begun: tuple[frozenset[str], frozenset[tuple[str, str]]] | None = None  # both, of the last that began
        self._departed: deque[tuple[float, str]] = deque(maxlen=_DEPARTURES)
        self.silent: frozenset[str] = frozenset()

    @property
    def members(self) -> Mapping[str, str]:
        """Who is in the present generation of the group: name -> member id."""
        return self._members

    # -- who comes and goes --------------------------------------------------------------------------------------

    async def admit(self, members: Mapping[str, FleetMember]) -> Mapping[str, FleetMember]:
        """A generation of the group is to begin with these (by member id): who is new is registered.

        Of two processes of one name the younger has a place in the fleet. The other is waited for like any that cannot
        be asked, from the first generation without it, unless it is certainly dead. Whoever is missing is so from when
        that generation has begun (`begun`).

        Returns:
            Those that have a place.

        Raises:
            StoreError: not written; nobody may be told an assignment.
        """
        async with self._changing:
            await self._store.resolve_outcome()
            self._present = frozenset((gateway.name, gateway.incarnation) for gateway in members.values())
            registered = {name: record.incarnation for name, record in self._store.gateways.items()}
            departed, dead = self._departed_of(members), self._dead_here(members)
            kept = newest(members, registered, self._older() | dead | departed)
            dropped: dict[str, list[str]] = {}
            for member_id, gateway in members.items():
                if member_id not in kept:
                    dropped.setdefault(gateway.name, []).append(gateway.incarnation)
            # Who has said good-bye may be in the group yet: it writes nothing more, and need not be waited for again.
            await self._admit(
                {
                    member_id: gateway
                    for member_id, gateway in kept.items()
                    if (gateway.name, gateway.incarnation) not in departed
                },
                dropped,
                [incarnation for _, incarnation in sorted(dead)],
            )
            return kept

    def begun(self) -> None:
        """The generation that was admitted last has begun: its SyncGroup was answered, so it is in the group's log.

        Until then it may be forgotten with its coordinator, and those who are missing in it renew their leases.
        """
        self._begun = frozenset(self._members), self._present
        self._look()

    def _older(self) -> set[tuple[str, str]]:
        """Whose names others have taken: written down, or the next leader would take them for the younger ones."""
        records = self._store.gateways.values()
        return {(one.succeeded, one.incarnation) for one in records if one.succeeded} | {
            (one.succeeded or one.name, incarnation) for one in records for incarnation in one.older
        }

    def _dead_here(self, members: Mapping[str, FleetMember]) -> set[tuple[str, str]]:
        """Processes of this one's name that held the lock which this one, alive, has now (`transport/name_lock.py`)."""
        mine = [one.place for one in members.values() if (one.name, one.incarnation) == (self._me, self._incarnation)]
        return {
            (one.name, one.incarnation)
            for one in members.values()
            if one.name == self._me
            and one.incarnation != self._incarnation
            and any(is_gone(one.place, place) for place in mine)
        }

    def _departed_of(self, members: Mapping[str, FleetMember]) -> set[tuple[str, str]]:
        """Who of them writes nothing more, for certain: it has said good-bye, to whichever leader, or another process
        holds the lock of its name. One that ended while the group was changing may be counted in its next generation,
        and nobody would ever hear it say so again."""
        record = self._store.fleet
        departed = () if record is None else record.departed
        return {(one.name, one.incarnation) for one in members.values() if one.incarnation in departed}

    async def _admit(
        self, members: Mapping[str, FleetMember], dropped: Mapping[str, Collection[str]], dead: Collection[str]
    ) -> None:
        registry = {name: _registered(record) for name, record in self._store.gateways.items()}
        admission = admit(members.values(), registry)
        by_name = {gateway.name: gateway for gateway in members.values()}
        named = {entry.name: self._record(by_name[entry.name]) for entry in admission.register}
        known = self._store.gateways
        named |= {name: known[name] for name in dropped if name in by_name and name not in named}
        named |= {name: one for name, one in _retold(known, by_name).items() if name not in named}
        aged = (_aged(record, known.get(name), dropped.get(name, ())) for name, record in named.items())
        records: list[Record] = [record for record in aged if record != known.get(record.name)]
        records += [_succeeded(self._store.gateways[old.name]) for old in admission.succeeded]
        records += self._fleet_record([*(old.incarnation for old in admission.replaced), *dead])
        if records:
            await self._store.put(*records)
        for old in admission.replaced:
            self._has_departed(old.name, "a new process holds the lock of its name")
        for entry in admission.register:
            _log.info("gateway admitted", gateway=entry.name, role=by_name[entry.name].role.value)
        self._members = {gateway.name: member_id for member_id, gateway in members.items()}
        self._look()

    def _fleet_record(self, dead: Collection[str]) -> list[FleetRecord]:
        """With those who are found to be dead, if it is another one then. What tells it, the record of the process that
        took their name, goes when that one stops, and the group may count them yet."""
        known = self._store.fleet
        fleet = known if known is not None and known.secret else FleetRecord(self._new_secret())
        fleet = _departed(fleet, dead)
        return [fleet] if fleet != known else []

    async def forget(self, name: str, why: str, incarnation: str = "") -> None:
        """Take a gateway out of the registry: it has stopped, for certain. With `incarnation`: it says so itself.

        Raises:
            NotFound: there is none of this name, or another incarnation has it.
            StoreError: not written.
        """
        async with self._changing:
            await self._forget(name, why, incarnation)

    async def forget_absent(self, name: str, why: str) -> None:
        """The same on somebody's word. Raises as `forget`, and Conflict when the gateway is heard: it may write."""
        async with self._changing:
            self.require_absent(name)
            await self._forget(name, why)

    async def forget_presumed(self) -> None:
        """Drop those whose leases are over; to be called now and then."""
        for name in sorted(self._presumed()):
            async with self._changing:
                if name in self._presumed():  # it may have come back while others were dropped
                    await self._forget(name, "its lease is over")

    async def _forget(self, name: str, why: str, incarnation: str = "") -> None:
        record = self._store.gateways.get(name)
        if incarnation and (record is None or record.incarnation != incarnation):
            name = predecessor(name, incarnation)  # another process has its name by now
            record = self._store.gateways.get(name)
        if record is None:
            raise NotFound(f"the fleet has no gateway '{name}'")
        fleet = self._store.fleet
        if incarnation and fleet is not None:
            changes = [(key_of(record), None), (key_of(fleet), _departed(fleet, [incarnation]))]
            await self._store.write(changes, self._store.unchanged([record, fleet]))
        else:
            await self._store.delete(record)
        self._members = {other: member_id for other, member_id in self._members.items() if other != name}
        self._has_departed(name, why)
        self._look()

    def require_absent(self, name: str) -> None:
        """Raises Conflict when the gateway is heard: it may write."""
        if name == self._me or (name in self._members and name not in self.silent):
            raise Conflict(f"gateway '{name}' is there: stop it first; then it is forgotten by itself")

    def _has_departed(self, name: str, why: str) -> None:
        self._departed.append((self._monotonic(), name))
        _log.info("gateway is waited for no more", gateway=name, reason=why)

    def _look(self) -> None:
        """Who is missing in the generation that is to begin *and* in the last that has begun is presumed some day."""
        leases = {name: record.lease_ms / 1000 for name, record in self._store.gateways.items()}
        if self._begun is None:
            self._presumptions.generation(leases, frozenset(leases), self._clock())
            return
        members, present = frozenset(self._members) | self._begun[0], self._present | self._begun[1]
        # One whose name another has taken may be in the group yet, and renew its lease.
        succeeded = {
            name
            for name, record in self._store.gateways.items()
            if record.succeeded and (record.succeeded, record.incarnation) in present
        }
        self._presumptions.generation(leases, members | succeeded, self._clock())

    def _record(self, gateway: FleetMember) -> GatewayRecord:
        return GatewayRecord(
            name=gateway.name,
            incarnation=gateway.incarnation,
            role=gateway.role.value,
            peer=gateway.peer,
            lease_ms=round(gateway.lease_s * 1000),
            since_ms=self._wall_ms(),
            place=gateway.place,
            keys=gateway.keys,
            bootstrap=gateway.bootstrap,
            reads=gateway.reads,
        )

    # -- who must acknowledge ------------------------------------------------------------------------------------

    def required(self) -> frozenset[str]:
        """Who has to acknowledge a write pause: everybody who was admitted, but those whose leases are certainly
        over."""
        return must_acknowledge(frozenset(self._store.gateways) | frozenset(self._members), self._presumed())

    def lost(self) -> str:
        """See `Coverage`: of the required ones those that cannot be asked, and until when they count."""
        return "; ".join(self._until(name) for name in sorted(self.required()) if self.is_lost(name))

    def departed(self, since: float, besides: Collection[str]) -> int:
        """How many gateways have departed since then (monotonic) who are not among `besides`."""
        return len(departed_unheard(self._departed, since, besides))

    def last_departure(self) -> float:
        """When the last one departed (monotonic); what it had sent may land for a while."""
        return self._departed[-1][0] if self._departed else float("-inf")

    def lease_left_s(self, name: str) -> float | None:
        """How long a lost gateway is waited for yet; None while that is not known, or it is not lost."""
        at = self._presumptions.at(name)
        return None if at is None else max(0.0, at - self._clock())

    def _presumed(self) -> frozenset[str]:
        return self._presumptions.presumed(self._clock()) & frozenset(self._store.gateways)

    def is_lost(self, name: str) -> bool:
        """True for a gateway that cannot be asked now."""
        return name != self._me and (name not in self._members or name in self.silent)

    def _until(self, name: str) -> str:
        left = self.lease_left_s(name)
        record = self._store.gateways.get(name)
        lease_s = 0.0 if record is None else record.lease_ms / 1000
        over = f"is over in {left:.0f} s" if left is not None else f"of {lease_s:.0f} s runs on"
        return (
            f"gateway '{name}' does not answer and may still write: its lease {over}; if it has certainly stopped: "
            f"lockgate gateway forget {name}"
        )


def _registered(record: GatewayRecord) -> Registered:
    lease_s = record.lease_ms / 1000
    return Registered(name=record.name, incarnation=record.incarnation, lease_s=lease_s, place=record.place)


def _retold(known: Mapping[str, GatewayRecord], members: Mapping[str, FleetMember]) -> dict[str, GatewayRecord]:
    """The records of those who read more than their records say: a leader of an older version has written them."""
    return {
        name: replace(known[name], reads=member.reads)
        for name, member in members.items()
        if name in known and known[name].incarnation == member.incarnation and known[name].reads != member.reads
    }


def _aged(record: GatewayRecord, before: GatewayRecord | None, dropped: Collection[str]) -> GatewayRecord:
    """With the incarnations that had its name before it. `dropped`: those of them that the group counts yet."""
    older = list(dropped)
    if before is not None:
        older += [before.incarnation, *before.older]
    return replace(record, older=tuple(one for one in dict.fromkeys(older) if one != record.incarnation)[:OLDER])


def _departed(fleet: FleetRecord, incarnations: Collection[str]) -> FleetRecord:
    """With these among those who write nothing more."""
    new = [one for one in incarnations if one not in fleet.departed]
    return replace(fleet, departed=(*new, *fleet.departed)[:DEPARTED])


def _succeeded(record: GatewayRecord) -> GatewayRecord:
    """Of a process whose name another one has taken, and which may write until its lease is over."""
    return replace(record, name=predecessor(record.name, record.incarnation), succeeded=record.name)
