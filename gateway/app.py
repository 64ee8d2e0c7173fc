"""The one place that wires the planes together, and the life of a `lockgate serve` process.

Order matters: routes and gates of what was known before are in force before the first client is let in, and the
last client is answered before the engine and the state topic are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import ssl
import time
from collections.abc import Mapping, Sequence

import structlog
import uvicorn
import uvloop

from gateway.config import Settings
from gateway.control.context import target_errors
from gateway.control.errors import Conflict
from gateway.control.group_monitor import GroupMonitor
from gateway.control.net_access import NetAccess
from gateway.control.ports import PortAllocator
from gateway.control.promote_group import GroupPromotions
from gateway.control.promote_topic import TopicPromoter
from gateway.control.rest.app import create_app
from gateway.control.service import ControlService
from gateway.control.sources import Sources
from gateway.control.store import StateStore, StoreError
from gateway.control.ways_back import WaysBack
from gateway.domain.gates import GroupGates
from gateway.domain.offset_map import OffsetMap
from gateway.domain.ports_alloc import allocate
from gateway.domain.progress import MirrorProgress
from gateway.domain.promote_snapshot import PromoteLimits
from gateway.domain.records import LinkRecord, MirrorRecord, PartitionStart
from gateway.domain.routing import Routing, RoutingTable
from gateway.mirror.engine import Engine
from gateway.net.config import ClusterConfig
from gateway.net.errors import NetError
from gateway.proxy.context import ProxyContext
from gateway.proxy.counted_writes import CountedWrites
from gateway.proxy.forwarder import Forwarder
from gateway.proxy.handlers import install
from gateway.proxy.listeners import Listeners
from gateway.proxy.stats import BUCKETS_S
from gateway.replication.start import plan_start
from gateway.telemetry.metrics import Metrics, ProxyNumbers
from protocol.errors import ProtocolError

_log = structlog.get_logger("lockgate")
SHUTDOWN_GRACE_S = 10.0


class StartError(Exception):
    """The gateway cannot start. One line for the operator."""


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0, or 1 when it could not start or was replaced."""
    try:
        return uvloop.run(_serve(settings))
    except StartError as error:
        _log.error("cannot start", reason=str(error))
        return 1


async def _serve(settings: Settings) -> int:
    gateway = Gateway(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, gateway.stop)
    try:
        await gateway.start()
        await gateway.stopped.wait()
    finally:
        await gateway.close()
        _log.info("stopped")
    return 1 if gateway.replaced else 0


class Gateway:
    """One process. `stopped` is set by `stop`; `replaced` says that another process took over the state topic."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopped = asyncio.Event()
        self.replaced = False
        self._metrics = Metrics()
        self._closers = contextlib.AsyncExitStack()

    def stop(self) -> None:
        """Begin the shutdown."""
        self.stopped.set()

    def _fenced(self) -> None:
        _log.error("another gateway has taken over the state topic: stopping")
        self.replaced = True
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
        self._target = NetAccess(ClusterConfig.from_client_properties(settings.target))
        self._closers.push_async_callback(self._target.close)
        await self._target.start()
        self._store = StateStore(settings.target)
        self._store.on_fenced = self._fenced
        self._closers.push_async_callback(self._store.close)
        await self._store.open()
        await self._store.lead()
        self._wire_control()
        self._closers.push_async_callback(self._service.close)
        self._wire_engine()
        self._closers.push_async_callback(self._engine.close)
        self._wire_proxy()
        await self._start_control()
        await self._listeners.start()
        self._target.cluster.on_view.append(lambda _view: self._listeners.brokers_changed())
        await self._start_api()
        self._closers.push_async_callback(self._listeners.close, SHUTDOWN_GRACE_S)
        _log.info("serving", bootstrap=self._bootstrap(), target=self._target.cluster_id(), api=settings.api.port)

    def _wire_control(self) -> None:
        self._routing = RoutingTable()
        self._gates = GroupGates()
        self._progress = MirrorProgress()
        self._sources = Sources(NetAccess)
        self._routing.subscribe(self._open_or_close_gates)
        self._service = ControlService(
            store=self._store,
            target=self._target,
            sources=self._sources,
            routing=self._routing,
            gates=self._gates,
            progress=self._progress,
            plan_start=self._plan_start,
        )
        self._service.restore()

    def _open_or_close_gates(self, routing: Routing) -> None:
        self._gates.enabled = bool(routing.topics)

    async def _plan_start(
        self, link: LinkRecord, topic: str, partitions: int, timestamp: int
    ) -> tuple[PartitionStart, ...]:
        return await plan_start(self._sources.clusters[link.name], topic, timestamp, partitions=range(partitions))

    def _wire_engine(self) -> None:
        self._engine = Engine(self._target.cluster, self._progress, self._service.events)

    async def _offset_maps(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        with target_errors():
            try:
                return await self._engine.offset_maps(mirror)
            except (ValueError, LookupError, ProtocolError) as exc:
                raise Conflict(f"the offset map of mirror topic '{mirror.mirror_topic}': {exc}") from exc

    async def _start_control(self) -> None:
        limits = self.settings.promote
        context = self._service.context
        context.offset_maps = self._offset_maps
        topics = TopicPromoter(
            context=context,
            routing=self._routing,
            fences={self._store.instance: self._proxy.forwarder},
            limits=PromoteLimits(
                lag_threshold=limits.lag_threshold,
                fence_timeout_s=limits.fence_timeout_s,
                grace_s=limits.grace_ms / 1000,
                unknown_grace_s=limits.unknown_grace_ms / 1000,
            ),
            on_fence_ended=self._metrics.fence_ended,
        )
        groups = GroupPromotions(context, quiet_s=self.settings.groups.quiet_period_s)
        await self._service.start(engine=self._engine, topic_promoter=topics, group_promoter=groups)
        ways_back = WaysBack(
            context=context,
            measure=self._service.measure,
            routing=self._routing,
            fences={self._store.instance: self._proxy.forwarder},
        )
        self._service.ways_back = ways_back
        topics.resume()
        ways_back.resume()
        GroupMonitor(context, groups, self._routing).start()

    # -- data plane ----------------------------------------------------------------------------------------

    def _wire_proxy(self) -> None:
        settings = self.settings.listener
        loop = asyncio.get_running_loop()
        context = ProxyContext(
            routing=self._routing,
            gates=self._gates,
            progress=self._progress,
            source_topics=self._service.source_topics,
            target=self._target.cluster,
            sources=self._sources.clusters,
            clock=time.monotonic,
            loop=loop,
            max_request_bytes=settings.max_request_bytes,
            groupless_allowed=self.settings.groups.groupless == "allow",
            on_forwarded=self._engine.forwarded,
        )
        context.forwarder = Forwarder(self._store.instance, time.monotonic)
        self._routing.subscribe(CountedWrites(context).routing_changed)  # before what the fence held is released
        self._routing.subscribe(context.forwarder.routing_changed)
        install(context, random.Random())  # noqa: S311 - spreads holds, guards nothing
        self._proxy = context
        self._listeners = Listeners(
            context,
            host=settings.host,
            advertised_host=settings.advertised,
            bootstrap_port=settings.bootstrap_port,
            allocate=self._port_of,
            client_tls=_server_tls(self.settings),
            target_tls=self._target.cluster.config.ssl_context(),
            idle_timeout_s=settings.idle_timeout_s,
            rng=random.Random(),  # noqa: S311 - picks a bootstrap broker
        )
        context.endpoints = self._listeners
        reserved = {settings.bootstrap_port, self.settings.api.port}
        self._ports = PortAllocator(
            self._store, base_port=settings.base_port, explicit=settings.ports, reserved=reserved
        )
        self._known_ports = {node: record.port for node, record in self._store.ports.items()}

    def _port_of(self, node_id: int) -> int:
        """The port of a broker, at once; a new one is stored behind the caller's back (the rule is the same)."""
        settings = self.settings.listener
        port = allocate(
            [node_id],
            known=self._known_ports,
            base_port=settings.base_port,
            explicit=settings.ports,
            reserved={settings.bootstrap_port, self.settings.api.port},
        )[node_id]
        if node_id not in self._known_ports:
            self._known_ports[node_id] = port
            self._service.context.background.spawn(self._store_port(node_id), f"store port of broker {node_id}")
        return port

    async def _store_port(self, node_id: int) -> None:
        await self._ports.ports_for([node_id])

    def _bootstrap(self) -> str:
        listener = self.settings.listener
        return f"{listener.advertised}:{listener.bootstrap_port}"

    # -- REST ----------------------------------------------------------------------------------------------

    async def _start_api(self) -> None:
        self._metrics.control = self._service.numbers
        self._metrics.proxy = self._proxy_numbers
        app = create_app(self._service, self._metrics, self._listener_names)
        api = self.settings.api
        listening = socket.create_server((api.host, api.port))  # a taken port is an OSError here, an exit in uvicorn
        server = _ApiServer(uvicorn.Config(app, log_config=None, access_log=False))
        task = asyncio.create_task(server.serve([listening]), name="api")
        self._closers.push_async_callback(_stop_api, server, task)

    def _listener_names(self) -> Mapping[str, str]:
        host = self.settings.listener.advertised
        ports = {str(node): f"{host}:{port}" for node, port in self._listeners.ports().items()}
        return {"bootstrap": self._bootstrap(), **ports}

    def _proxy_numbers(self) -> ProxyNumbers:
        stats = self._proxy.stats
        return ProxyNumbers(
            bounds_s=BUCKETS_S,
            apis=list(stats.snapshot()),
            connections=len(self._proxy.sessions),
            closed=stats.closed,
            auto_create_refused=stats.auto_create_refused,
            held=stats.held,
        )


class _ApiServer(uvicorn.Server):
    """uvicorn without its signal handlers: the gateway has its own."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


async def _stop_api(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    server.should_exit = True
    await task


def _server_tls(settings: Settings) -> ssl.SSLContext | None:
    tls = settings.listener.tls
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    return context
