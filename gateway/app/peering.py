"""The gateway among the others of its fleet: the channel, the group, leadership, and what follows from each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from gateway.app.naming import name_of, peer_hosts
from gateway.config import Settings
from gateway.control.errors import NotFound
from gateway.control.fence_answers import FenceAnswers
from gateway.control.fleet import Fleet
from gateway.control.fleet_events import FleetEvents
from gateway.control.fleet_gates import FleetGates
from gateway.control.fleet_mirrors import FleetMirrors
from gateway.control.fleet_parts import FleetHooks, Identity, Term
from gateway.control.fleet_quorum import READ
from gateway.control.lease_guard import LeaseGuard
from gateway.control.remote_fences import is_in_force
from gateway.control.replica import Replica
from gateway.control.routing_publisher import RoutingPublisher
from gateway.control.sources import Sources
from gateway.control.store import StateStore, StoreError
from gateway.domain.assignment import FleetAssignment
from gateway.domain.gates import GroupGates
from gateway.domain.membership import Role
from gateway.domain.ports import Fences
from gateway.domain.progress import MirrorProgress
from gateway.domain.records import LinkRecord
from gateway.mirror.engine import Engine
from gateway.net.cluster import Cluster
from gateway.net.config import ClusterConfig
from gateway.net.errors import NetError
from gateway.net.host import MACHINE, Host
from gateway.net.peers import Peers

GOODBYE = "goodbye"

_SILENT_S = 1.0  # on top of the silence that beats are given
_GOODBYE_S = 5.0
_AGAIN_S = 0.2
_log = structlog.get_logger("lockgate.fleet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the gateway has, whether it leads or follows."""

    store: StateStore
    target: Cluster
    sources: Sources
    gates: GroupGates
    progress: MirrorProgress
    publisher: RoutingPublisher


class Peering:
    """Args.

    group: a client of the target of its own, for the fleet's group.
    lead, follow: begin and end a term; see `FleetHooks`.
    failed: the gateway must stop, with one line.
    """

    def __init__(
        self,
        settings: Settings,
        shared: Shared,
        group: Cluster,
        failed: Callable[[str], None],
        host: Host = MACHINE,
    ) -> None:
        self._host = host
        self._settings = settings
        self._shared = shared
        self._group = group
        self._failed = failed
        self.name = name_of(settings)
        self._lock = host.name_lock(self.name)
        self.incarnation = f"{host.wall_ms():015d}-{host.new_id()[:8]}"
        self.peers = Peers(self.name, self.incarnation, lambda: shared.store.secret, self._beat, host)
        self.events = FleetEvents(self.peers, lambda: self.fleet.leader)
        self.engine = Engine(
            shared.target,
            shared.progress,
            self.events,
            connect=self._source,
            clock=host.monotonic,
            wall_ms=host.wall_ms,
            lease_valid=self.lease_valid,
        )
        self.mirrors = FleetMirrors(
            name=self.name,
            peers=self.peers,
            engine=self.engine,
            progress=shared.progress,
            records=shared.store.mirrors.values,
            clock=host.monotonic,
        )
        self.replica = Replica(shared.store, shared.sources, self.engine)
        self.gates = FleetGates(
            self.name,
            shared.gates,
            shared.store,
            self.peers,
            leader=lambda: self.fleet.leader,
            is_leading=lambda: self.fleet.term is not None,
            term=lambda: shared.store.term,
            clock=host.monotonic,
        )
        self.peers.handlers[READ] = self._read
        self.peers.handlers[GOODBYE] = self._goodbye
        self.fleet: Fleet
        self._is_open = self._follows = False
        self.fences: FenceAnswers
        self._tasks: set[asyncio.Task[None]] = set()

    def _source(self, link: LinkRecord) -> Cluster:
        return Cluster(ClusterConfig.from_client_properties(link.client), host=self._host)

    # -- start and stop ------------------------------------------------------------------------------------------

    async def open(self, local: Fences, lead: Callable[[Term], Any], follow: Callable[[], Any]) -> None:
        """Find a place in the fleet; the group goes on in the background. Raises OSError, NetError, StoreError."""
        shared, fleet = self._shared, self._settings.fleet
        bind, told = peer_hosts(self._settings)
        port = await self.peers.listen(bind, fleet.peer_port)
        me = Identity(
            name=self.name,
            incarnation=self.incarnation,
            role=Role(self._settings.role),
            peer=f"{told}:{port}",
            lease_s=fleet.lease_s,
            place=self._lock.take,
        )
        self.fences = FenceAnswers(shared.publisher, local, self.mirrors.quiet, self.mirrors.records_changed)
        self.peers.handlers.update(self.fences.handlers)
        self.mirrors.fenced, self.mirrors.held = self.fences.in_force, self.fences.held
        self.mirrors.on_silent = self._silent
        hooks = FleetHooks(
            admitted=self._admitted,
            forgotten=lambda: self.mirrors.assigned(None),
            fenced=self._fences_in_force,
            owned=self.mirrors.here,
            lead=lead,
            follow=follow,
            lapsed=self._lapsed,
            failed=self._failed,
        )
        self.fleet = Fleet(me, shared.store, self._group, self.peers, hooks, self._host)
        self._guard = LeaseGuard(
            self.fleet.lease, self._host.boot, shared.sources.clusters.values, self.engine.drop_appends
        )
        self._records_changed()
        shared.store.subscribe(self._records_changed)
        await self.replica.start()
        self.gates.follow()
        self.events.start()
        self.gates.start()
        self.mirrors.start()
        self._soon(self._guard.run(), "lease guard")
        self._is_open = True
        await self.fleet.start()

    async def close(self) -> None:
        """Hand everything over and leave. Clients are gone by now."""
        if not self._is_open:  # it could not even start
            await self.peers.close()
            return
        await self.mirrors.leave()
        await self._say_goodbye()
        await self.fleet.close()
        await self.gates.close()
        await self.events.close()
        await self.replica.close()
        await self.mirrors.close()
        self._shared.store.unsubscribe(self._records_changed)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.peers.close()
        self._lock.release()

    async def _say_goodbye(self) -> None:
        """Nothing is written from here on: the next fence need not ask this gateway."""
        deadline = self._host.monotonic() + _GOODBYE_S
        while self._host.monotonic() < deadline:
            if await self._said_goodbye():
                return
            await asyncio.sleep(_AGAIN_S)  # the leader stops too: another one follows, perhaps this one

    async def _said_goodbye(self) -> bool:
        fleet, term = self.fleet, self.fleet.term
        try:
            if term is not None:
                await term.registry.forget(self.name, "it stops in order", self.incarnation)
            elif fleet.leader:
                await self.peers.ask(fleet.leader, GOODBYE, {"incarnation": self.incarnation}, 2.0)
            return term is not None or bool(fleet.leader)
        except NotFound:
            return True
        except (NetError, StoreError) as exc:
            _log.info("the fleet does not know yet that this gateway stops", reason=str(exc))
            return False

    # -- what happens --------------------------------------------------------------------------------------------

    def lease_valid(self) -> bool:
        """See `Fleet.lease_valid`."""
        return self.fleet.lease_valid()

    def _beat(self, gateway: str, said: Mapping[str, Any]) -> None:
        self.mirrors.heard(gateway, said)

    def _records_changed(self) -> None:
        self.fences.records(self._shared.store.mirrors.values())
        self.mirrors.records_changed()
        self.fleet.records_changed()

    def _fences_in_force(self) -> Mapping[str, int]:
        """Of the leader: what it holds in this term, with the epochs by which the others know it."""
        own = self._shared.publisher.own_fences
        records = {record.mirror_topic: record for record in self._shared.store.mirrors.values()}
        return {topic: epoch for topic, epoch in own.items() if topic in records and is_in_force(records[topic], epoch)}

    def term_begins(self) -> None:
        """This gateway leads, and has read all that was written before."""
        self._follows = False
        self._shared.publisher.decided()

    def term_over(self) -> None:
        """It leads no more. What it has fenced stays so until it is known what has come of it."""
        self._shared.publisher.term_over()
        if self._follows:
            self._shared.publisher.decided()

    def _admitted(self, assignment: FleetAssignment) -> None:
        leads = assignment.leader == self.name
        # what this gateway leads itself it need not be told, and nobody would tell it the end
        self.fences.assigned(assignment.term, {} if leads else assignment.fenced)
        self._follows = not leads
        if not leads:  # the state is read up to here: what a term of this gateway has fenced is decided
            self._shared.publisher.decided()
            self._shared.gates.assigned(assignment.term, assignment.state_offset, assignment.closed)
        self.gates.assigned(assignment.peers)
        self.mirrors.assigned(assignment)
        _log.info("assigned", leader=assignment.leader, gateways=sorted(assignment.peers))

    def _lapsed(self) -> None:
        reason = "this gateway was out of the fleet for longer than its lease"
        for cluster in self._shared.sources.clusters.values():
            cluster.drop(("produce", "transactions"), reason)
        self.engine.drop_appends(reason)

    def _silent(self, _: frozenset[str]) -> None:
        term, silent = self.fleet.term, self.mirrors.silent()
        if term is not None:
            term.registry.silent = silent
        for name in silent:
            self._soon(self._drop_if_silent(name), f"drop {name}")

    async def _drop_if_silent(self, name: str) -> None:
        """The leader has the group drop a silent gateway; when it is the leader itself, the first other node does."""
        await asyncio.sleep(_SILENT_S)
        assignment, silent = self.fleet.assignment, self.mirrors.silent()
        if name not in silent or assignment is None:
            return
        alive = sorted(node for node in assignment.owners if node not in silent)
        deputy = alive[0] if alive and assignment.leader in silent else assignment.leader
        if deputy == self.name:
            await self.fleet.drop(name)

    async def _read(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        await self._shared.store.read_up_to(int(body["offset"]))
        return {}

    async def _goodbye(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        term = self.fleet.term
        if term is None:
            raise NetError(f"gateway '{self.name}' does not lead")
        try:
            await term.registry.forget(str(body["from"]), "it stops in order", str(body["incarnation"]))
        except (StoreError, NotFound) as exc:
            raise NetError(str(exc)) from exc
        return {}

    def _soon(self, work: Any, name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
