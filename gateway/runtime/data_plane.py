"""What clients connect to: listeners, handlers, and the ports of brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from gateway.config.listeners import Endpoint
from gateway.config.settings import Settings
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.groups.gate.rules.gates import GroupGates
from gateway.kafka.cluster import Cluster
from gateway.kafka.rules.principal_mapping import PrincipalMapping
from gateway.mirror.rules.progress import MirrorProgress
from gateway.proxy.handlers import install
from gateway.proxy.handlers.offset_fetch import SourceOffsets
from gateway.proxy.produce.counted_writes import CountedWrites
from gateway.proxy.produce.cutover_connections import CutoverLanes
from gateway.proxy.produce.forwarder import Forwarder
from gateway.proxy.rules.limits import Limits
from gateway.proxy.rules.port_allocation import allocate
from gateway.proxy.rules.proxy_protocol import Proxies
from gateway.proxy.session.answer_watch import AnswerWatch
from gateway.proxy.session.context import Sessions
from gateway.proxy.session.listener import Listener
from gateway.proxy.session.listeners import Listeners
from gateway.proxy.session.stats import BUCKETS_S
from gateway.proxy.transactions.coordinators import TransactionCoordinators
from gateway.proxy.transactions.identities import Identities
from gateway.proxy.transactions.identity_expiry import IdentityExpiry
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.transactions import Transactions
from gateway.runtime.identity import token_book, token_identity, token_numbers
from gateway.runtime.server_tls import renewed_context
from gateway.state.gateway_records import PortRecord
from gateway.state.views import StateViews
from gateway.telemetry.numbers import ProxyNumbers
from gateway.topics.interface import SourceTopics
from gateway.transport.certificates import subject_of
from gateway.transport.host import MACHINE, Host


class DataPlane:
    """Args.

    store_ports: makes new ports of brokers known to all gateways; called in the background.
    leads: whether this gateway leads the fleet.
    shares_ports: with the other processes of this gateway.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        routing: RoutingTable,
        gates: GroupGates,
        progress: MirrorProgress,
        source_topics: SourceTopics,
        source_offsets: SourceOffsets,
        target: Cluster,
        sources: Mapping[str, Cluster],
        on_forwarded: Callable[[str, int, int, int], None],
        lease_valid: Callable[[], bool],
        views: StateViews,
        store_ports: Callable[[Mapping[int, int]], Awaitable[None]],
        leads: Callable[[], bool] = lambda: True,
        host: Host = MACHINE,
        shares_ports: bool = False,
    ) -> None:
        self._settings = settings
        self._views = views
        self._sources = sources
        self._store_ports = store_ports
        self._given: dict[int, int] = {}
        self._ports_read: dict[int, PortRecord] = {}
        listener = settings.listener
        self.tokens = token_book(target, settings.tokens, host)
        self._host = host
        self.sessions = sessions = Sessions(
            routing=routing,
            clock=host.monotonic,
            loop=asyncio.get_running_loop(),
            max_request_bytes=listener.max_request_bytes,
            asks_login=target.config.uses_sasl,
            lease_valid=lease_valid,
            limits=Limits(**settings.limits.model_dump()),
        )
        self.answers = AnswerWatch(routing=routing, clock=host.monotonic, rng=host.rng, switch=self._watch_answers)
        self.listeners = Listeners(
            sessions,
            target=target,
            listeners=self._listeners_of(),
            target_tls=target.config.ssl_context_for_others(),
            idle_timeout_s=listener.idle_timeout_s,
            rng=host.rng,
            plain_sockets=host.plain_sockets,
            shares_ports=shares_ports,
        )
        self.forwarder = forwarder = Forwarder(host.monotonic)
        counted = CountedWrites(sessions=sessions.open, clock=host.monotonic, stats=sessions.stats, forwarder=forwarder)
        routing.subscribe(counted.routing_changed)
        lanes = CutoverLanes(sources=sources, forwarder=forwarder, progress=progress)
        routing.subscribe(lanes.routing_changed)
        forwarder.drop = lanes.drop
        forwarder.stalls_seen = sessions.stats.stalls.of
        coordinators = TransactionCoordinators(target, sources, lease_valid)
        placements = TopicPlacements(routing, coordinators)
        identities = Identities(target)
        transactions = Transactions(placements, coordinators, identities, host.monotonic, self._is_alone)
        self.expiry = IdentityExpiry(transactions, identities, leads, host.wall_ms)
        views.subscribe(self.records_changed)
        install(
            sessions,
            gates=gates,
            progress=progress,
            source_topics=source_topics,
            source_offsets=source_offsets,
            target=target,
            sources=sources,
            forwarder=forwarder,
            placements=placements,
            transactions=transactions,
            target_down=self.listeners.target_down,
            advertised=self.listeners.advertised,
            groupless_allowed=settings.groups.groupless == "allow",
            on_forwarded=on_forwarded,
            rng=host.rng,
        )

    def _watch_answers(self, on: bool) -> None:
        self.sessions.watch = self.answers if on else None

    def _is_alone(self) -> bool:
        return len(self._views.gateways) < 2

    @property
    def stored_ports(self) -> Mapping[int, int]:
        """Node id -> port at the first listener, as the fleet has it."""
        return {node: record.port for node, record in self._views.ports.items()}

    def ports_for(self, nodes: Iterable[int]) -> Mapping[int, int]:
        """The ports that brokers have, or would get now, at the first listener; nothing is given out. PortError."""
        settings = self._settings.listener
        known = {**self._given, **self.stored_ports}
        return allocate(
            nodes, known=known, base_port=settings.base_port, explicit=settings.ports, reserved=self._reserved
        )

    def _port_of(self, node_id: int) -> int:
        """The port of a broker, at once; a new one is stored behind the caller's back (the rule is the same)."""
        port = self.ports_for([node_id])[node_id]
        if node_id not in self._given and node_id not in self._views.ports:
            self._given[node_id] = port
            if not self._settings.listener.ports:
                work = self.sessions.loop.create_task(_awaited(self._store_ports({node_id: port})), name="store ports")
                self.sessions.spawn(work)
        return port

    def records_changed(self) -> None:
        """The state was read on: a port is the broker's that its record says, whoever saw which broker first."""
        records = self._views.ports
        if self._ports_read == records or self._settings.listener.ports:
            return
        self._ports_read = dict(records)
        owners = {record.port: node for node, record in records.items()}
        self._given = {
            node: port for node, port in self._given.items() if node not in records and owners.get(port, node) == node
        }
        self.listeners.ports_changed()

    def names(self) -> Mapping[str, str]:
        """'bootstrap' and node ids -> host:port; of further listeners with their name and a dot in front."""
        found = {}
        for listener in self.listeners.every:
            host, port = listener.bootstrap()
            found[listener.told(None)] = f"{host}:{port}"
            for node in self.listeners.ports():
                host, port = listener.broker(node)
                found[listener.told(node)] = f"{host}:{port}"
        return found

    def _listeners_of(self) -> list[Listener]:
        """Raises ValueError for files of no use; names the option."""
        listeners = []
        for where, endpoint in self._settings.endpoints().items():
            first = endpoint is self._settings.listener
            tls = endpoint.tls
            principal = None if tls is None else PrincipalMapping(tls.principal_mapping_rules)
            listeners.append(
                Listener(
                    name="" if first else where.partition(".")[2],
                    host=endpoint.host,
                    advertised_host=endpoint.advertised,
                    bootstrap_port=endpoint.bootstrap_port,
                    port_of=self._port_of if first else partial(self._port_at, endpoint),
                    proxies=Proxies(endpoint.proxy_protocol_from) if endpoint.proxy_protocol_from else None,
                    tls=None if tls is None else renewed_context(tls, f"{where}.tls").get,
                    principal=partial(_principal, principal or PrincipalMapping()),
                    identity=token_identity(endpoint, self.tokens, self._host),
                    advertised_port=endpoint.advertised_port or None,
                    told_behind=endpoint.told_behind,
                    names=endpoint.names,
                    by_name=endpoint.addressing == "sni",
                    has_ports=endpoint.has_ports,
                )
            )
        return listeners

    def _port_at(self, endpoint: Endpoint, node_id: int) -> int:
        """Of a further listener: as far behind its base port as at the first one, which all gateways have alike."""
        if endpoint.ports:
            if node_id not in endpoint.ports:
                raise ValueError(f"a listener's ports have no port for broker {node_id} of the target")
            return endpoint.ports[node_id]
        return endpoint.base_port + self._port_of(node_id) - self._settings.listener.base_port

    @property
    def _reserved(self) -> set[int]:
        """Ports at the first listener that would take a fixed port there or, as far behind, at another one."""
        settings = self._settings
        endpoints = settings.endpoints().values()
        fixed = {settings.api.port, settings.management.port, *(endpoint.bootstrap_port for endpoint in endpoints)}
        first = settings.listener
        behind = [each.base_port - first.base_port for each in endpoints if not each.ports and each.has_ports]
        return {port - shift for port in fixed for shift in behind}

    def numbers(self) -> ProxyNumbers:
        """For the metrics."""
        stats = self.sessions.stats
        return ProxyNumbers(
            bounds_s=BUCKETS_S,
            apis=list(stats.snapshot()),
            connections=len(self.sessions.open),
            refused=self.sessions.admission.refused,
            uncounted_waiters=self.sessions.waiters.uncounted,
            held_bytes=self.sessions.held.bytes + self.sessions.unproven.bytes,
            held_answer_bytes=self.sessions.answers.bytes,
            answers_waited=self.sessions.answers.waited,
            unread_connections=self.sessions.held.waiting,
            unread_times=self.sessions.held.paused,
            throttled=self.sessions.quotas.throttled,
            tokens=token_numbers(self.tokens, self._sources),
            client_errors={link: dict(cluster.client_errors) for link, cluster in self._sources.items()},
            closed=stats.closed,
            auto_create_refused=stats.unmirrored.asked,
            held=stats.held,
            forwarded=stats.forwarded,
            writes_throttled_s=stats.rests.seconds,
        )

    def writes(self) -> Mapping[str, int]:
        """Produce requests so far: sent to a `source`, to the `target`, and `held` by write pauses first."""
        stats = self.sessions.stats
        sent = stats.forwarded
        return {"source": sent, "target": max(0, stats.produced() - sent), "held": sum(stats.held.values())}

    def unmirrored(self) -> Mapping[str, tuple[str, str]]:
        """Topics that clients have asked for lately, and that are on a source only -> its link, and who asked last."""
        return self.sessions.stats.unmirrored.recent(self.sessions.clock())


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _principal(mapping: PrincipalMapping, certificate: bytes) -> str:
    return mapping.name(subject_of(certificate))
