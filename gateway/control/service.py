"""The control plane as one object: operations, engine events, loops, and what is rebuilt at start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import structlog

from gateway.control.access import ClusterAccess
from gateway.control.catch_up import CatchUps
from gateway.control.config_sync import ConfigSync
from gateway.control.context import ControlContext, PlanStart
from gateway.control.errors import ControlError
from gateway.control.events import EngineEvents
from gateway.control.groups import Groups
from gateway.control.links import Links
from gateway.control.measure import Measure
from gateway.control.mirrors import Mirrors
from gateway.control.routing_publisher import RoutingPublisher
from gateway.control.sources import LinkHealth, Sources
from gateway.control.store import StateStore
from gateway.control.ways_back import WaysBack
from gateway.domain.gates import GroupGates
from gateway.domain.mirror_states import is_mirroring
from gateway.domain.ports import GroupPromoter, MirrorEngine, TopicPromoter
from gateway.domain.progress import MirrorProgress
from gateway.domain.records import GroupState, LinkRecord
from gateway.domain.routing import RoutingTable
from gateway.net.host import MACHINE, Host
from gateway.telemetry.numbers import ControlNumbers, GroupNumbers, MirrorNumbers

_SYNC_TICK_S = 1.0
_LEASE_TICK_S = 1.0
_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """The gateway at a glance. `gateway` and `leader` are names in the fleet."""

    gateway_id: str
    gateway: str = ""
    leader: str = ""
    target_cluster_id: str
    links: dict[str, str]  # name -> state
    mirrors: dict[str, int]  # state -> count
    groups: dict[str, int]  # state -> count
    ports: dict[int, int]  # node id -> listener port


class ControlService:
    """`links`, `mirrors`, `groups`, `catch_ups`: the operations.

    `events`: what the engine is to tell. It lives for one term of leadership; the store, the target, the sources, the
    routes and the gates outlive it.
    """

    def __init__(
        self,
        *,
        store: StateStore,
        target: ClusterAccess,
        sources: Sources,
        routing: RoutingTable,
        gates: GroupGates,
        progress: MirrorProgress,
        plan_start: PlanStart,
        host: Host = MACHINE,
        publisher: RoutingPublisher | None = None,
    ) -> None:
        """`store` is open, `target` started. `publisher`: of `routing`; its own by default."""
        self.publisher = publisher or RoutingPublisher(store, routing, host.monotonic)
        self.context = ControlContext(
            store=store,
            target=target,
            sources=sources,
            gates=gates,
            progress=progress,
            publisher=self.publisher,
            plan_start=plan_start,
            now_ms=host.wall_ms,
            clock=host.monotonic,
        )
        self.links = Links(self.context)
        self.measure = Measure(self.context)
        self.catch_ups = CatchUps(self.context, self.measure)
        self.mirrors = Mirrors(self.context, self.measure, self.catch_ups)
        self.groups = Groups(self.context)
        self.events = EngineEvents(self.context, self.measure)
        self._sync = ConfigSync(self.context)
        self.ways_back: WaysBack  # from `app/term.py`, once the data plane is there

    def restore(self) -> None:
        """What must be so before a client is let in: routes, gates as the records say, source clusters known."""
        for link in self.context.store.links.values():
            if link.name not in self.context.sources.clusters:
                self.context.sources.add(link)
        self.context.gates.term_begins()
        self.publisher.refresh()

    async def start(
        self, *, engine: MirrorEngine, topic_promoter: TopicPromoter, group_promoter: GroupPromoter
    ) -> None:
        """Take the partners, start links and mirrors as their records say, and the loops. After `restore`.

        A source that does not answer stops nothing: its mirrors go on when it does.
        """
        context = self.context
        context.engine = self.catch_ups.around(engine)
        context.topic_promoter = topic_promoter
        context.group_promoter = group_promoter
        for link in list(context.store.links.values()):
            await engine.start_link(link)
            context.background.spawn(self._first_contact(link), f"first contact {link.name}")
        for mirror in list(context.store.mirrors.values()):
            if not mirror.created:
                finish = self.mirrors.finish_create(mirror.link, mirror.mirror_topic)
                context.background.spawn(finish, f"finish create {mirror.mirror_topic}")
            elif is_mirroring(mirror.state):
                engine.start_mirror(mirror)
        context.background.spawn(self.events.run(), "engine events")
        context.background.every(_SYNC_TICK_S, self._sync.run_due, "topic config sync")
        context.background.every(_LEASE_TICK_S, self.catch_ups.expire, "catch-up leases")

    async def close(self) -> None:
        """Stop the loops and running promotes. Sources, engine and store are the caller's."""
        await self.context.background.close()
        for closer in self.context.closers:
            closer()

    def status(self) -> StatusView:
        """Counts and states, without asking anybody."""
        store = self.context.store
        return StatusView(
            gateway_id=store.instance,
            target_cluster_id=self.context.target.cluster_id(),
            links={view.record.name: view.state for view in self.links.list()},
            mirrors=dict(Counter(mirror.state.value for mirror in store.mirrors.values())),
            groups=dict(Counter(group.state.value for group in store.groups.values())),
            ports={node: record.port for node, record in store.ports.items()},
        )

    def numbers(self) -> ControlNumbers:
        """For the metrics."""
        store, context = self.context.store, self.context
        return ControlNumbers(
            links={name: name not in context.health or context.health[name].available for name in store.links},
            mirrors=[
                MirrorNumbers(
                    link,
                    topic,
                    mirror.state,
                    context.engine.status(link, topic),
                    sum(context.late_records(link, topic).values()),
                    sum(lost.count for lost in mirror.lost),
                    mirror.is_reverse,
                    sum(count for count in mirror.not_mirrored if count > 0),
                )
                for (link, topic), mirror in store.mirrors.items()
            ],
            groups=[_group_numbers(context, link, name, group.state) for (link, name), group in store.groups.items()],
        )

    async def _first_contact(self, link: LinkRecord) -> None:
        """Learn whether the source is there, unless the engine has told meanwhile."""
        try:
            await self.context.sources.reach(link)
        except ControlError as exc:
            if link.name in self.context.store.links:  # the engine says when it counts as lost
                _log.warning("source not reached yet", link=link.name, reason=str(exc))
            return
        self.context.health.setdefault(link.name, LinkHealth(True, self.context.now_ms()))


def _group_numbers(context: ControlContext, link: str, group: str, state: GroupState) -> GroupNumbers:
    sync = context.offset_sync(link, group)
    return GroupNumbers(
        link,
        group,
        state.value,
        len(context.gates.waiters(group)),
        context.late_members(link, group),
        late_commits=context.late_commits(link, group),
        synced_ms=None if sync is None else sync.synced_ms,
        sync_lag=0 if sync is None else sync.behind,
        held_back=0 if sync is None else len(sync.held_back),
    )
