"""One gateway: what it is made of, brought up and taken down in order, and whether it leads.

Order matters: routes and gates of what was known before are in force before the first client is let in, and the
last client is answered before the engine and the state topic are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import Counter
from dataclasses import replace

import structlog

from gateway.app.api import ApiServer
from gateway.app.data_plane import DataPlane
from gateway.app.peering import Peering, Shared
from gateway.app.term import LeaderTerm, Surroundings
from gateway.config import Settings
from gateway.control.fleet_parts import Term
from gateway.control.gates_by_record import GatesByRecord
from gateway.control.net_access import NetAccess
from gateway.control.ports import PortBook
from gateway.control.rest.app import create_app
from gateway.control.rest.front import Front
from gateway.control.rest.own import create_own_app
from gateway.control.routing_publisher import RoutingPublisher
from gateway.control.service import StatusView
from gateway.control.source_topics import UnmirroredTopics
from gateway.control.sources import Sources
from gateway.control.store import StateStore, StoreError
from gateway.domain.gates import GroupGates
from gateway.domain.progress import MirrorProgress
from gateway.domain.routing import Routing, RoutingTable
from gateway.net.cluster import Cluster
from gateway.net.config import ClusterConfig
from gateway.net.errors import NetError
from gateway.net.host import MACHINE, Host
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.numbers import FleetNumbers

_log = structlog.get_logger("lockgate")
SHUTDOWN_GRACE_S = 10.0


class StartError(Exception):
    """The gateway cannot start. One line for the operator."""


def _require_free(settings: Settings) -> None:
    """Raises StartError when one of the fixed ports is taken."""
    listener, api = settings.listener, settings.api
    for key, host, port in (
        ("listener.bootstrap_port", listener.host, listener.bootstrap_port),
        ("api.port", api.host, api.port),
    ):
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            socket.create_server((host, port), family=family).close()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise StartError(f"{key}: cannot listen on {host}:{port}: {reason}") from error


class Gateway:
    """One process. `stopped` is set by `stop`; `failed` says why it could not go on."""

    def __init__(self, settings: Settings, host: Host = MACHINE) -> None:
        self.settings = settings
        self._host = host
        self.stopped = asyncio.Event()
        self.failed = ""
        self._metrics = Metrics()
        self._closers = contextlib.AsyncExitStack()
        self._term: LeaderTerm | None = None

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
            await self._start()
        except (NetError, StoreError, OSError, ValueError) as error:
            raise StartError(str(error)) from error

    async def close(self) -> None:
        """Take everything down in the opposite order."""
        await self._closers.aclose()

    async def _start(self) -> None:
        settings = self.settings
        if self._host.plain_sockets:
            # Before the fleet hears of it: a second process of one name must not replace the first.
            _require_free(settings)
        config = ClusterConfig.from_client_properties(settings.target)
        self._target = NetAccess(config, self._host)
        self._closers.push_async_callback(self._target.close)
        await self._target.start()
        group = Cluster(config, host=self._host)
        self._closers.push_async_callback(group.close)
        await group.start()
        self._store = StateStore(config, host=self._host)
        self._store.on_broken = self._fail
        self._closers.push_async_callback(self._store.close)
        await self._store.open()
        self._wire(group)
        self._closers.push_async_callback(self._sources.close)
        self._closers.push_async_callback(self._peering.engine.close)
        self._closers.push_async_callback(self._peering.close)
        self._closers.push_async_callback(self._leave_term)
        await self._peering.open(self._data.forwarder, self._lead, self._follow)
        self._publisher.refresh()
        await self._data.listeners.start()
        self._target.cluster.on_view.append(lambda _view: self._data.listeners.brokers_changed())
        api = (self._host.serve_api or ApiServer)(self._front, settings.api)
        api.start()
        self._closers.push_async_callback(api.close)
        self._closers.push_async_callback(self._data.listeners.close, SHUTDOWN_GRACE_S)
        _log.info(
            "serving",
            bootstrap=self._data.names()["bootstrap"],
            target=self._target.cluster_id(),
            api=settings.api.port,
            gateway=self._peering.name,
            leads=self._term is not None,
        )

    def _wire(self, group: Cluster) -> None:
        self._routing = RoutingTable()
        self._gates = GroupGates()
        self._progress = MirrorProgress()
        self._sources = Sources(lambda config: NetAccess(config, self._host))
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
        self._peering = peering = Peering(self.settings, shared, group, self._fail, self._host)
        self._data = DataPlane(
            self.settings,
            peering.name,
            routing=self._routing,
            gates=self._gates,
            progress=self._progress,
            source_topics=UnmirroredTopics(self._store, self._sources, self._host.monotonic),
            target=self._target.cluster,
            sources=self._sources.clusters,
            on_forwarded=peering.mirrors.forwarded,
            lease_valid=peering.lease_valid,
            views=self._store,
            store_ports=PortBook(self._store, peering.peers, lambda: peering.fleet.leader).keep,
            host=self._host,
        )
        own = (self._host.create_own_app or create_own_app)(self._status, self._metrics, self._data.names)
        # Once, and not when a term begins: it takes 50 ms, in which everything else would stand still.
        self._app = (self._host.create_app or create_app)(
            lambda: self._led.service, self._metrics, self._data.names, lambda: self._led.gateways
        )
        self._front = Front(own, peering.peers, lambda: peering.fleet.leader)
        self._metrics.proxy = self._data.numbers
        self._metrics.fleet = self._fleet_numbers

    def _open_or_close_gates(self, routing: Routing) -> None:
        self._gates.enabled = bool(routing.topics)

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
        around = Surroundings(
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
            local=self._data.forwarder,
            metrics=self._metrics,
            host=self._host,
        )
        await peering.replica.pause()
        peering.term_begins()
        self._term = led = LeaderTerm(around, term, peering.fleet)
        await led.start()
        self._front.lead(self._app)

    async def _follow(self) -> None:
        led, self._term = self._term, None
        self._front.follow()
        self._metrics.control = None
        if led is not None:
            await led.close()
        self._peering.term_over()
        self._peering.replica.go_on()
        self._peering.gates.follow()

    def _fleet_numbers(self) -> FleetNumbers:
        states = Counter({"up": 0, "silent": 0, "lost": 0}) if self._term is not None else Counter[str]()
        for view in self._term.gateways.list() if self._term is not None else ():
            states[view.state] += 1
        return FleetNumbers(
            leads=self._term is not None,
            lease_left_s=self._peering.fleet.right.left_s(),
            mirrored=len(self._peering.engine.running()),
            states=states,
        )

    def _status(self) -> StatusView:
        """Of this gateway, whoever leads."""
        fleet = self._peering.fleet
        if self._term is not None:
            return replace(self._term.service.status(), gateway=self._peering.name, leader=fleet.leader)
        store = self._store
        return StatusView(
            gateway_id=store.instance,
            target_cluster_id=self._target.cluster_id(),
            links=dict.fromkeys(store.links, "UNKNOWN"),
            mirrors=dict(Counter(mirror.state.value for mirror in store.mirrors.values())),
            groups=dict(Counter(group.state.value for group in store.groups.values())),
            ports={node: record.port for node, record in store.ports.items()},
            gateway=self._peering.name,
            leader=fleet.leader,
        )
