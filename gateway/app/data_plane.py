"""What clients connect to: listeners, handlers, and the ports of brokers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping

from gateway.config import Settings
from gateway.control.state_views import StateViews
from gateway.domain.gates import GroupGates
from gateway.domain.ports import SourceTopics
from gateway.domain.ports_alloc import allocate
from gateway.domain.progress import MirrorProgress
from gateway.domain.routing import RoutingTable
from gateway.net.cluster import Cluster
from gateway.net.host import MACHINE, Host
from gateway.proxy.context import ProxyContext
from gateway.proxy.counted_writes import CountedWrites
from gateway.proxy.flipped_lanes import FlippedLanes
from gateway.proxy.forwarder import Forwarder
from gateway.proxy.handlers import install
from gateway.proxy.listeners import Listeners
from gateway.proxy.stats import BUCKETS_S
from gateway.telemetry.numbers import ProxyNumbers


class DataPlane:
    """Args.

    name: of this gateway, for acknowledgements of fences.
    store_ports: makes new ports of brokers known to all gateways; called in the background.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        *,
        routing: RoutingTable,
        gates: GroupGates,
        progress: MirrorProgress,
        source_topics: SourceTopics,
        target: Cluster,
        sources: Mapping[str, Cluster],
        on_forwarded: Callable[[str, int, int, int], None],
        lease_valid: Callable[[], bool],
        views: StateViews,
        store_ports: Callable[[Mapping[int, int]], Awaitable[None]],
        host: Host = MACHINE,
    ) -> None:
        self._settings = settings
        self._views = views
        self._store_ports = store_ports
        self._given: dict[int, int] = {}
        listener = settings.listener
        self.context = context = ProxyContext(
            routing=routing,
            gates=gates,
            progress=progress,
            source_topics=source_topics,
            target=target,
            sources=sources,
            clock=host.monotonic,
            loop=asyncio.get_running_loop(),
            max_request_bytes=listener.max_request_bytes,
            groupless_allowed=settings.groups.groupless == "allow",
            on_forwarded=on_forwarded,
            lease_valid=lease_valid,
            alone=lambda: len(views.gateways) < 2,
        )
        self.forwarder = context.forwarder = Forwarder(name, host.monotonic)
        routing.subscribe(CountedWrites(context).routing_changed)  # before what the fence held is released
        routing.subscribe(FlippedLanes(context).routing_changed)
        routing.subscribe(context.forwarder.routing_changed)
        install(context, host.rng)
        self.listeners = context.endpoints = Listeners(
            context,
            host=listener.host,
            advertised_host=listener.advertised,
            bootstrap_port=listener.bootstrap_port,
            allocate=self._port_of,
            client_tls=_server_tls(settings),
            target_tls=target.config.ssl_context(),
            idle_timeout_s=listener.idle_timeout_s,
            rng=host.rng,
            plain_sockets=host.plain_sockets,
        )

    def _port_of(self, node_id: int) -> int:
        """The port of a broker, at once; a new one is stored behind the caller's back (the rule is the same)."""
        settings = self._settings.listener
        known = {**self._given, **{node: record.port for node, record in self._views.ports.items()}}
        port = allocate(
            [node_id],
            known=known,
            base_port=settings.base_port,
            explicit=settings.ports,
            reserved={settings.bootstrap_port, self._settings.api.port},
        )[node_id]
        if node_id not in known:
            self._given[node_id] = port
            if not settings.ports:
                work = self.context.loop.create_task(_awaited(self._store_ports({node_id: port})), name="store ports")
                self.context.spawn(work)
        return port

    def names(self) -> Mapping[str, str]:
        """'bootstrap' and node ids -> host:port."""
        host = self._settings.listener.advertised
        ports = {str(node): f"{host}:{port}" for node, port in self.listeners.ports().items()}
        return {"bootstrap": f"{host}:{self._settings.listener.bootstrap_port}", **ports}

    def numbers(self) -> ProxyNumbers:
        """For the metrics."""
        stats = self.context.stats
        return ProxyNumbers(
            bounds_s=BUCKETS_S,
            apis=list(stats.snapshot()),
            connections=len(self.context.sessions),
            closed=stats.closed,
            auto_create_refused=stats.auto_create_refused,
            held=stats.held,
        )


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _server_tls(settings: Settings) -> ssl.SSLContext | None:
    tls = settings.listener.tls
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    return context
