"""The gateway among the others of its fleet: the channel, the group, leadership, and what follows from each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from gateway.config.settings import Settings
from gateway.cutover.write_pause.follower import PauseAnswers
from gateway.cutover.write_pause.interface import InFlight
from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.errors import NotFound
from gateway.fleet.events import FleetEvents
from gateway.fleet.fleet import Fleet
from gateway.fleet.mirrors import FleetMirrors
from gateway.fleet.parts import FleetHooks, GatewayIdentity, LeaseGuard, Term
from gateway.fleet.peers.certificates import Certificates, FleetCertificates, GivenCertificates
from gateway.fleet.peers.channel import Peers
from gateway.fleet.quorum import READ
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.membership import FleetRole
from gateway.groups.gate.fleet import FleetGates
from gateway.groups.gate.rules.gates import GroupGates
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import NetError
from gateway.mirror.engine.engine import Engine
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.replica import Replica
from gateway.operations.sources import Sources
from gateway.runtime.naming import name_of, peer_hosts
from gateway.state.records import LinkRecord
from gateway.state.schemas.id_map import IdMaps
from gateway.state.store import StateStore, StoreError
from gateway.transport.host import MACHINE, Host

GOODBYE = "goodbye"

_SILENT_S = 1.0  # on top of the silence that heartbeats are given
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
        self.peers = Peers(self.name, self.incarnation, self._secret, self._heartbeat, host, self._certificates())
        self.events = FleetEvents(self.peers, lambda: self.fleet.leader, lambda: shared.store.mirrors)
        self.engine = Engine(
            shared.target,
            shared.progress,
            self.events,
            connect=self._source,
            config_of=shared.sources.secrets.config_of,
            clock=host.monotonic,
            wall_ms=host.wall_ms,
            lease_valid=self.lease_valid,
            ids=IdMaps(shared.store).of,
        )
        self.mirrors = FleetMirrors(
            name=self.name,
            peers=self.peers,
            engine=self.engine,
            progress=shared.progress,
            records=shared.store,
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
        self._is_open = False
        self.pauses: PauseAnswers
        self._tasks: set[asyncio.Task[None]] = set()

    def _certificates(self) -> Certificates | None:
        tls = self._settings.fleet.tls
        if tls is not None:
            return GivenCertificates(tls.certificate, tls.key, tls.key_password.get_secret_value(), tls.ca, tls.crl)
        return FleetCertificates(self.name, self._secret) if self._host.encrypts_peers else None

    def _secret(self) -> str:
        return self._shared.sources.secrets.fleet(self._shared.store.secret)

    def _source(self, link: LinkRecord) -> Cluster:
        return Cluster(self._shared.sources.secrets.config_of(link), host=self._host)

    # -- start and stop ------------------------------------------------------------------------------------------

    async def open(
        self,
        in_flight: InFlight,
        drop_writes: Callable[[], None],
        lead: Callable[[Term], Any],
        follow: Callable[[], Any],
    ) -> None:
        """Find a place in the fleet; the group goes on in the background. Raises OSError, NetError, StoreError.

        `drop_writes`: see `LeaseGuard`.
        """
        shared, fleet = self._shared, self._settings.fleet
        bind, told = peer_hosts(self._settings)
        port = await self.peers.listen(bind, fleet.peer_port)
        me = GatewayIdentity(
            name=self.name,
            incarnation=self.incarnation,
            role=FleetRole(self._settings.role),
            peer=f"{told}:{port}",
            lease_s=fleet.lease_s,
            place=self._lock.take,
            bootstrap=":".join(map(str, self._settings.listener.advertised_bootstrap)),
            keys=",".join(shared.sources.secrets.key_ids),
        )
        self.pauses = PauseAnswers(
            self.name, shared.publisher, in_flight, self.mirrors.quiet, self.mirrors.records_changed
        )
        self.peers.handlers.update(self.pauses.handlers)
        self.mirrors.paused, self.mirrors.held = self.pauses.in_force, self.pauses.held
        self.mirrors.on_silent = self._silent
        hooks = FleetHooks(
            admitted=self._admitted,
            forgotten=lambda: self.mirrors.assigned(None),
            paused=self._own_pauses,
            owned=self.mirrors.here,
            lead=lead,
            follow=follow,
            lapsed=self._lapsed,
            failed=self._failed,
        )
        self.fleet = Fleet(me, shared.store, self._group, self.peers, hooks, self._host)
        self._guard = LeaseGuard(
            self.fleet.lease, self._host.boot, shared.sources.clusters.values, self.engine.drop_appends, drop_writes
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
        """Nothing is written from here on: the next write pause need not ask this gateway."""
        deadline = self._host.monotonic() + _GOODBYE_S
        while self._host.monotonic() < deadline:
            if await self._said_goodbye():
                return
            await asyncio.sleep(_AGAIN_S)  # the leader stops too: another one follows, perhaps this one
        _log.warning("the fleet does not know that this gateway stops: others wait until its lease is over")

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

    def _heartbeat(self, gateway: str, said: Mapping[str, Any]) -> None:
        self.mirrors.heard(gateway, said)

    def _records_changed(self) -> None:
        self.mirrors.records_changed()
        self.fleet.records_changed()

    def _own_pauses(self) -> Mapping[str, int]:
        """Of the leader: what it has paused in this term, and no record has ended."""
        return self._shared.publisher.pauses.in_force(self._shared.store.term)

    def term_begins(self) -> None:
        """This gateway leads, and has read all that was written before."""
        self._shared.publisher.assigned(self._shared.store.term, {})

    def _admitted(self, assignment: FleetAssignment) -> None:
        self._shared.publisher.assigned(assignment.term, assignment.paused)
        if assignment.leader != self.name:
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
