"""One gateway: what it is made of, brought up and taken down in order, and whether it leads.

Order matters: routes and gates of what was known before are in force before the first client is let in, and the
last client is answered before the engine and the state topic are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import structlog

from gateway.api.access.audit import AuditTrail
from gateway.api.access.roles import RouteTable
from gateway.api.app import create_app
from gateway.api.leader_forwarding import LeaderForwarding
from gateway.api.own import create_own_app
from gateway.config.settings import Settings
from gateway.console.rules.levels import EVERY_S
from gateway.console.timeline import Timeline
from gateway.control_plane import StatusView
from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.routing import Routing, RoutingTable
from gateway.fleet.parts import Term
from gateway.fleet.rules.membership import gateway_of
from gateway.groups.gate.by_record import GatesByRecord
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.gated_offsets import GatedOffsets
from gateway.kafka.acts import guarded
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import NetError
from gateway.links.listener_ports import PortBook
from gateway.migration.client_errors import FleetAnswers
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.link_policy import LinkPolicy
from gateway.operations.net_access import NetAccess
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.sources import Sources
from gateway.runtime.api import ApiServer
from gateway.runtime.audit_topic import AuditTopic
from gateway.runtime.console import FleetClients, console_feed
from gateway.runtime.data_plane import DataPlane
from gateway.runtime.free_ports import StartError, require_broker_ports, require_free
from gateway.runtime.health import Vitals, checks
from gateway.runtime.identity import act_for_clients, require_token_listeners
from gateway.runtime.keys import own_files, sealing_keys
from gateway.runtime.management import ManagementListener
from gateway.runtime.peering import Peering, Shared
from gateway.runtime.server_tls import warn_of_names
from gateway.runtime.term import LeaderTerm, TermDependencies
from gateway.runtime.trends import TrendKeeper
from gateway.runtime.workers.share import ALONE, Worker
from gateway.runtime.workers.siblings import Siblings
from gateway.state.mirror_states import shown
from gateway.state.store import StateStore, StoreError
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.numbers import FleetNumbers
from gateway.topics.source_topics import UnmirroredTopics
from gateway.transport.background import Background, kept_running
from gateway.transport.host import MACHINE, Host
from gateway.transport.loop_watch import LoopWatch

_log = structlog.get_logger("lockgate")
SHUTDOWN_GRACE_S = 10.0


class Gateway:
    """One process. `stopped` is set by `stop`; `failed` says why it could not go on."""

    def __init__(self, settings: Settings, host: Host = MACHINE, worker: Worker = ALONE) -> None:
        """`worker`: which of the gateway's processes it is; `settings` are its own."""
        self.settings = settings
        self._worker = worker
        self._host = host
        self.stopped = asyncio.Event()
        self.failed = ""
        self._metrics = Metrics()
        self.loop_watch: LoopWatch | None = None  # of a process that serves
        self._management = ManagementListener(
            settings.management, self._closed_ports, self.stopped.is_set, host.monotonic
        )
        self._closers = contextlib.AsyncExitStack()
        self._background = Background()
        self._term: LeaderTerm | None = None
        self._audit_topic: AuditTopic | None = None
        self._forwarding: LeaderForwarding
        self._trends: TrendKeeper
        self._app: Any

    def stop(self) -> None:
        """Begin the shutdown."""
        self.stopped.set()

    def _fail(self, reason: str) -> None:
        _log.error("this gateway cannot go on", reason=reason)
        self.failed = self.failed or reason
        self.stop()

    async def start(self) -> None:
        """Bring everything up, in order. Raises StartError with one line."""
        try:
            with guarded():  # every task of this gateway is begun in here
                await self._start()
        except (NetError, StoreError, OSError, ValueError) as error:
            raise StartError(str(error)) from error

    async def close(self) -> None:
        """Take everything down in the opposite order."""
        await self._closers.aclose()

    async def _start(self) -> None:
        settings = self.settings
        if self._host.plain_sockets and self._worker.count == 1:  # else the supervisor has looked
            # Before the fleet hears of it: a second process of one name must not replace the first.
            require_free(settings)
        for where in settings.in_the_clear():
            _log.warning("logins at this listener can be read on the wire: it has no tls", listener=where)
        if self._worker.serves_api:
            self._management.start()
            self._closers.push_async_callback(self._management.close)
        config = ClusterConfig.from_client_properties(settings.target)
        await self._connect(config)
        group = Cluster(config, host=self._host)
        self._closers.push_async_callback(group.close)
        await group.start()
        self._store = StateStore(config, host=self._host)
        self._store.on_broken = self._fail
        self._closers.push_async_callback(self._store.close)
        await self._store.open()
        self._wire(group)
        self._closers.push_async_callback(self._sources.close)
        self._closers.push_async_callback(self._background.close)
        self._closers.push_async_callback(self._peering.engine.close)
        self._closers.push_async_callback(self._peering.close)
        self._closers.push_async_callback(self._leave_term)
        data = self._data
        self._require_broker_ports()
        await self._peering.open(data.forwarder, data.sessions.lease_over, self._lead, self._follow)
        self._publisher.refresh()
        self._background.spawn(kept_running(self._data.expiry.run, "identity expiry"), "identity expiry")
        if self._host.plain_sockets:  # in virtual time nobody looks at trends
            self._background.every(EVERY_S, self._trends.look, "trends")
        await self._data.listeners.start()
        self._target.cluster.on_view.append(lambda _view: self._data.listeners.brokers_changed())
        self._open_audit_topic(settings.api.audit_topic)
        if self._worker.serves_api:
            api = (self._host.serve_api or ApiServer)(self._forwarding, settings.api)
            api.start()
            self._closers.push_async_callback(api.close)
        self._closers.push_async_callback(self._data.tokens.close)
        self._closers.push_async_callback(self._data.listeners.close, SHUTDOWN_GRACE_S)
        self._management.serves()
        _log.info(
            "serving",
            bootstrap=self._data.names()["bootstrap"],
            target=self._target.cluster_id(),
            api=settings.api.socket or f"{settings.api.host}:{settings.api.port}",
            gateway=self._peering.name,
            leads=self._term is not None,
        )

    async def _connect(self, config: ClusterConfig) -> None:
        servers = self.settings.target.get("bootstrap.servers", "")
        _log.info("connecting to the target", servers=servers, option="target.bootstrap.servers")
        self._target = NetAccess(config, self._host)
        self._closers.push_async_callback(self._target.close)
        await self._target.start()
        await require_token_listeners(self.settings, self._target.cluster)

    def _closed_ports(self) -> list[str]:
        return self._data.listeners.closed()

    def _require_broker_ports(self) -> None:
        if self._host.plain_sockets:
            brokers = self._target.cluster.view.brokers
            ports = self._data.ports_for(brokers)
            require_broker_ports(self.settings, ports, self._data.stored_ports, shared=self._worker.count > 1)
            warn_of_names(self.settings, brokers)

    def _open_audit_topic(self, name: str) -> None:
        if name:
            self._audit_topic = AuditTopic(self._target.cluster, name, lambda: self._name, self._host.wall_ms)
            self._audit_topic.start()
            self._closers.push_async_callback(self._audit_topic.stop)

    def _wire(self, group: Cluster) -> None:
        self._routing = RoutingTable()
        self._gates = GroupGates()
        self._progress = MirrorProgress()
        links = self.settings.links
        own = tuple(map(str, own_files(self.settings)))
        policy = LinkPolicy(links.files, links.allow_unverified_tls, links.variables, links.hosts, own)
        secrets = LinkSecrets(policy, sealing_keys(links.key_file))
        secrets.fleet(self._store.secret)  # who cannot read it would answer to no peer, and be dropped again and again
        self._sources = Sources(
            lambda config: NetAccess(config, self._host),
            secrets,
            lambda cluster, link: act_for_clients(cluster, link, self.settings.tokens, self._host),
        )
        # before the routes change, and writes that waited go to where they say
        self._store.subscribe(lambda: self._sources.only(self._store.links))
        self._publisher = RoutingPublisher(self._store, self._routing, self._host.monotonic)
        self._routing.subscribe(self._open_or_close_gates)
        GatesByRecord(self._store, self._gates)
        shared = Shared(
            store=self._store,
            target=self._target.cluster,
            sources=self._sources,
            gates=self._gates,
            progress=self._progress,
            publisher=self._publisher,
        )
        self._peering = Peering(self.settings, shared, group, self._fail, self._host)
        self._data = self._new_data_plane(self._peering)
        self._answers = FleetAnswers(self._peering.peers, self._data.answers)
        self._wire_api(self._peering)

    def _new_data_plane(self, peering: Peering) -> DataPlane:
        return DataPlane(
            self.settings,
            routing=self._routing,
            gates=self._gates,
            progress=self._progress,
            source_topics=UnmirroredTopics(self._store, self._sources, self._host.monotonic),
            source_offsets=GatedOffsets(self._store, self._sources),
            target=self._target.cluster,
            sources=self._sources.clusters,
            on_forwarded=peering.mirrors.forwarded,
            lease_valid=peering.lease_valid,
            views=self._store,
            leads=lambda: self._term is not None,
            store_ports=PortBook(self._store, peering.peers, lambda: peering.fleet.leader).keep,
            host=self._host,
            shares_ports=self._worker.count > 1,
        )

    def _wire_api(self, peering: Peering) -> None:
        process = self._host.new_id()
        siblings = Siblings(self._name, self._worker, peering.peers, self._metrics, self._checks, process=process)
        self._management.siblings = siblings
        timeline = Timeline(self._store, self._host.wall_ms)
        self._closers.callback(timeline.close)
        feed = console_feed(lambda: self._forwarding, timeline, self._host.monotonic)
        self._closers.push_async_callback(feed.close)
        clients = FleetClients(peering.peers, self._data.writes, self._data.unmirrored)
        own = (self._host.create_own_app or create_own_app)(
            self._status, siblings, self._data.names, siblings.checks, self._document, feed
        )
        # Once, and not when a term begins: it takes 50 ms, in which everything else would stand still.
        self._app = (self._host.create_app or create_app)(
            lambda: self._led.service,
            self._metrics,
            self._data.names,
            lambda: self._led.gateways,
            clients,
            lambda: self._trends.trends,
        )
        audit = AuditTrail(lambda: self._name, self._store, self._host.wall_ms)
        table = RouteTable((*own.rows, *self._app.rows))
        self._forwarding = LeaderForwarding(
            own, peering.peers, lambda: peering.fleet.leader, audit, table, lambda: self._name
        )
        self._trends = TrendKeeper(peering.peers, lambda: self._forwarding)
        self._metrics.proxy = self._data.numbers
        self._metrics.fleet = self._fleet_numbers

    @property
    def _name(self) -> str:
        """The gateway's, whichever of its processes this is."""
        return gateway_of(self._peering.name)

    def _open_or_close_gates(self, routing: Routing, _changed: Collection[str]) -> None:
        self._gates.enabled = routing.mirrors

    @property
    def _led(self) -> LeaderTerm:
        """The present term, for requests of its own, which end with it."""
        if self._term is None:
            raise RuntimeError("this gateway does not lead")
        return self._term

    async def _leave_term(self) -> None:
        """Before anything that a promote of this gateway stands on is given away."""
        if self._term is not None:
            await self._term.leave()

    # -- leading -------------------------------------------------------------------------------------------------

    async def _lead(self, term: Term) -> None:
        peering = self._peering
        around = TermDependencies(
            settings=self.settings,
            store=self._store,
            target=self._target,
            sources=self._sources,
            routing=self._routing,
            publisher=self._publisher,
            gates=self._gates,
            progress=self._progress,
            engine=peering.engine,
            mirrors=peering.mirrors,
            events=peering.events,
            peers=peering.peers,
            local=peering.pauses,
            metrics=self._metrics,
            host=self._host,
            ask_answers=self._answers,
        )
        await peering.replica.pause()
        peering.term_begins()
        self._term = led = LeaderTerm(around, term, peering.fleet)
        await led.start()
        self._forwarding.lead(self._app)

    async def _follow(self) -> None:
        led, self._term = self._term, None
        self._forwarding.follow()
        self._metrics.control = None
        if led is not None:
            await led.close()
        self._peering.replica.go_on()
        self._peering.gates.follow()

    def watched_by(self, watch: LoopWatch) -> None:
        """The event loop is watched from now on; its counts become metrics."""
        self.loop_watch = watch

    def _fleet_numbers(self) -> FleetNumbers:
        states = Counter({"up": 0, "silent": 0, "lost": 0}) if self._term is not None else Counter[str]()
        lost: list[float] = []
        for view in self._term.gateways.list() if self._term is not None else ():
            states[view.state] += 1
            lost += [] if view.lease_left_s is None else [view.lease_left_s]
        return FleetNumbers(
            leads=self._term is not None,
            lease_left_s=self._peering.fleet.right.left_s(),
            mirrored=len(self._peering.engine.running()),
            states=states,
            audit_lost=None if self._audit_topic is None else self._audit_topic.lost,
            lost_lease_s=max(lost, default=0.0) if self._term is not None else None,
            throttled_s=self._peering.engine.throttled_s(),
            stalls={} if self.loop_watch is None else dict(self.loop_watch.by_cause),
            append_throttled_s=self._peering.engine.append_throttled_s(),
            state_losses=self._store.lineage,
            agreed=not self._peering.fleet.trouble,
        )

    def _document(self) -> Mapping[str, Any]:
        """OpenAPI's with roles, of the whole fleet's application."""
        document: Mapping[str, Any] = self._app.described()
        return document

    def _checks(self) -> Mapping[str, str]:
        fleet, assignment = self._peering.fleet, self._peering.fleet.assignment
        cluster = self._target.cluster
        vitals = Vitals(
            read_error=self._store.read_error,
            applied=self._store.applied,
            wanted=-1 if assignment is None else assignment.state_offset,
            closed_ports=self._data.listeners.closed(),
            admitted=assignment is not None,
            lease_left_s=fleet.right.left_s(),
            fleet_trouble=fleet.trouble,
            target_error="" if cluster.available else cluster.last_error or "no broker is known",
            stopping=self.stopped.is_set(),
        )
        return checks(vitals)

    def _status(self) -> StatusView:
        """Of this gateway, whoever leads."""
        fleet = self._peering.fleet
        if self._term is not None:
            view = self._term.service.status()
            return replace(view, gateway=self._name, leader=gateway_of(fleet.leader), fleet_trouble=fleet.trouble)
        store = self._store
        return StatusView(
            gateway_id=store.instance,
            target_cluster_id=self._target.cluster_id(),
            links=dict.fromkeys(store.links, "UNKNOWN"),
            mirrors=dict(Counter(shown(mirror).value for mirror in store.mirrors.values())),
            groups=dict(Counter(group.state.value for group in store.groups.values())),
            ports={node: record.port for node, record in store.ports.items()},
            gateway=self._name,
            leader=gateway_of(fleet.leader),
            fleet_trouble=fleet.trouble,
        )
