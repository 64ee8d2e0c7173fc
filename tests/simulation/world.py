"""One simulated run: two clusters, a fleet of shipped gateways, clients, an operator, faults; then all is judged.

Nothing here waits for real: the loop's clock jumps. A run is a function of its plan.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, Final

from gateway.state.records import MirrorMode, MirrorState
from tests.simulation.clients import GroupMember, Producer, TransactionalProducer
from tests.simulation.clients.cast import Cast
from tests.simulation.faults.aim import Aim, named
from tests.simulation.faults.events import EARLY, Events
from tests.simulation.faults.giving_up import Trouble
from tests.simulation.faults.leaders_lost import LeadersLost, is_promised
from tests.simulation.faults.steps import watched
from tests.simulation.fleet import logs
from tests.simulation.fleet.gateway_node import GatewayNode, NotServing
from tests.simulation.fleet.looks import Looks
from tests.simulation.fleet.work import Work
from tests.simulation.judge import Judge
from tests.simulation.judge.in_order import judge_in_order
from tests.simulation.judge.promises import judge_promises
from tests.simulation.judge.state import side_of
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kafka.judged import ModelRecord
from tests.simulation.kafka.logs.log import Batch
from tests.simulation.kafka.logs.partition import Partition
from tests.simulation.kernel.loop import SimLoop, Spinning
from tests.simulation.kernel.node import State
from tests.simulation.operations.acts import Acts
from tests.simulation.operations.asked import Asked
from tests.simulation.operations.at_rest import AtRest
from tests.simulation.operations.branches import Branch
from tests.simulation.operations.ending import Ending
from tests.simulation.operations.operator import LINK, LinkOptions, Operator, Stuck, TopicFailed
from tests.simulation.operations.owned import Owned
from tests.simulation.operations.rights import Rights
from tests.simulation.operations.schemas import Schemas
from tests.simulation.outcome import Outcome
from tests.simulation.plan import (
    AUTO,
    BUILT_FIRST,
    GROUP,
    JOINED,
    OWNED,
    PLAIN,
    SET,
    TOPICS,
    Act,
    EventKind,
    Operation,
    RunPlan,
    joined_topics,
)
from tests.simulation.plan.roles import compacted, pipelines
from tests.simulation.recorder import Recorder
from tests.simulation.story import Line, Story

SOURCE: Final = "source"
TARGET: Final = "target"
_REST_S: Final = 120.0
_LOOK_S: Final = 0.1
_WATCH_S: Final = 0.05
_JOINED_S: Final = 2.0
_AFTER_S: Final = 0.5
"""What is broken stays so for no longer after its operation is done: then nothing happens but waiting."""
_COLLECTED: Final = (500_000, 20, 100)
"""Thresholds of the garbage collector's generations, during a run."""
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "groups": {"quiet_period_s": 1},
}
_CONFIGS: Final = {
    "min.insync.replicas": "2",
    "retention.ms": "86400000",
    "retention.bytes": "1000000000",
    "max.message.bytes": "2000000",
}
"""Of the topics of a run: each of these is another one than the clusters' default."""
_LIVELY: Final = {"group.initial.rebalance.delay.ms": "0", "broker.session.timeout.ms": "3000"}


def simulate(plan: RunPlan, listener: Callable[[Line], None] | None = None) -> Outcome:
    """Run a plan, and judge it.

    The garbage collector looks seldom meanwhile: a run is short and makes little garbage in circles, so that a tenth of
    the time would go where nothing is found (30 MB more at the most).
    """
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECTED)
    try:
        return _simulated(plan, listener)
    finally:
        gc.set_threshold(*before)


def _simulated(plan: RunPlan, listener: Callable[[Line], None] | None) -> Outcome:
    """A loop that closes collects the garbage of its run: by then nobody has its world any more."""
    loop = SimLoop(plan.seed)
    try:
        return _lived(plan, loop, listener)
    finally:
        loop.close()


def _lived(plan: RunPlan, loop: SimLoop, listener: Callable[[Line], None] | None) -> Outcome:
    world = World(plan, loop, listener)
    with logs.told_to(world.logged if listener else None):
        try:
            return loop.run_until_complete(world.run())
        except Spinning as exc:
            return replace(world.outcome, broken=f"spinning: {exc}", story=world.story.lines)


class World:
    """See the module. Implements `faults.Scene`."""

    fleet_name = "gw-"
    asked_as_source = f"{SOURCE}-"

    def __init__(self, plan: RunPlan, loop: SimLoop, listener: Callable[[Line], None] | None) -> None:
        self.plan = plan
        self.loop = loop
        self.story = Story(loop.time, listener)
        self.source = self.cluster(SOURCE, plan.source_kafka)
        self.target = self.cluster(TARGET, "4.3.1")
        self.recorder = Recorder(loop.time)
        self.gateways = [self._gateway(number) for number in range(plan.gateways)]
        self.operator = Operator(self._asked, loop.time, lambda text: self.story.tell("operator", text))
        self.events = Events(self)
        self.operator.before_promote = self.events.before_promote
        self.operator.on_promote = self._promote_sent
        self._beside: list[asyncio.Task[None]] = []
        self._undoing: dict[asyncio.Task[None], None] = {}
        self._act: Act | None = None
        self._over = asyncio.Event()  # the operation of the act
        self._joined = 0
        self._aim, self._ending = Aim(self), Ending(self)
        self.outcome = Outcome(plan)
        self.writers: list[Producer | TransactionalProducer] = []
        self.readers: list[GroupMember] = []
        self.cast = Cast()
        self.branches: dict[str, Branch] = {}  # by mirror topic
        self.more_topics: list[str] = []
        self.looks = Looks(loop.time)
        self.work = Work(loop, self.story.tell)
        self.rights = Rights(self) if plan.acls else None
        self.schemas = Schemas(self) if plan.schemas else None
        elsewhere = joined_topics(plan)
        self.judge = Judge(
            self.recorder,
            self.source,
            self.target,
            loop.time,
            compacted=compacted(plan),
            pipelines=pipelines(plan),
            links=(LINK,) if elsewhere else (),
            told=lambda topic: topic not in elsewhere,
            looked=self.looks.of,
            ack_both=plan.ack_both,
        )
        self.asked: Asked = Asked(self)
        self.at_rest = AtRest(self, elsewhere)
        self.owned = Owned(self)
        self._acts = Acts(self)
        self.trouble = Trouble(self.source, self.target, self.recorder)
        self.leaders_lost = LeadersLost(
            self.target, loop.random("leaders"), plan.leaders_lost, lambda text: self.story.tell("FAULT", text)
        )
        self.target.on_lost.append(self._lost)

    def _lost(self, partition: Partition, batches: Sequence[Batch], promised: int) -> None:
        self.outcome.leaders_lost += any(is_promised(partition, batch) for batch in batches)
        origin = self.source.lookup(partition.topic.name, partition.index)
        is_gapless = origin is not None and origin.is_gapless
        findings, now = self.judge.findings, self.loop.time()
        judge_promises(self.gateways, partition, batches, promised, findings, now, is_gapless=is_gapless)

    def _gateway(self, number: int) -> GatewayNode:
        return self.gateway(f"{self.fleet_name}{number}", self.target)

    def gateway(self, name: str, target: ClusterModel) -> GatewayNode:
        """One before a target, not started."""
        settings = {**_SETTINGS, "fleet": {"lease_s": self.plan.lease_s}}
        return GatewayNode(self.loop, name, target.bootstrap, settings)

    def cluster(self, name: str, version: str) -> ClusterModel:
        """One whose story is told, not started."""
        made = _cluster(self.loop, name, version)
        made.on_trace = lambda text: self.story.tell(name, text)
        return made

    def _promote_sent(self) -> None:
        self.judge.call_offs.requests += 1

    def logged(self, entry: logs.Entry) -> None:
        """A line of a gateway's log."""
        fields = " ".join(f"{name}={value}" for name, value in entry.fields.items())
        self.story.tell(entry.node, f"{entry.event} {fields}".strip())

    # -- for faults --------------------------------------------------------------------------------------------------

    def _asked(self) -> list[GatewayNode]:
        """The leader last: what a follower passes on is tried, too."""
        running = [gateway for gateway in self.gateways if gateway.runs]
        return sorted(running, key=leads)

    def leader(self) -> GatewayNode | None:
        """See `faults.Scene`."""
        return next((gateway for gateway in self.gateways if gateway.serves and leads(gateway)), None)

    def followers(self) -> list[GatewayNode]:
        """See `faults.Scene`."""
        return [gateway for gateway in self.gateways if gateway.serves and not leads(gateway)]

    def soon(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """See `faults.Scene`."""
        task = self.loop.spawn(self.loop.lab, work, name)
        self._beside.append(task)
        self._undoing[task] = None
        task.add_done_callback(lambda done: self._undoing.pop(done, None))

    def troubled(self) -> bool:
        """See `faults.Scene`."""
        return len(self._undoing) > 1

    async def hold(self, seconds: float) -> None:
        """See `faults.Scene`. In every eighth run all of it, whatever the operation does."""
        until = self.loop.time() + seconds
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await (asyncio.sleep(seconds) if self.plan.seed % 8 == 0 else self._over.wait())
        await asyncio.sleep(max(0.0, min(_AFTER_S, until - self.loop.time())))

    async def join(self) -> None:
        """See `faults.Scene`."""
        self._joined += 1
        gateway = self._gateway(self.plan.gateways + self._joined - 1)
        self.gateways.append(gateway)
        await gateway.start()
        await asyncio.sleep(_JOINED_S)
        if gateway.runs:
            await gateway.stop()
        self.gateways.remove(gateway)

    def living(self, cluster: ClusterModel) -> set[int]:
        """See `faults.Scene`."""
        names = {number: f"{cluster.name}-{number}" for number in cluster.brokers}
        up = {
            number
            for number, name in names.items()
            if self.loop.node(name).state is State.RUNNING and not cluster.brokers[number].cut_off
        }
        return up if len(up) == len(names) else set()

    def act(self) -> Act | None:
        """See `events.Stage`."""
        return self._act

    def written_on(self, topic: str) -> str | None:
        """See `events.Stage`. By the records of the state."""
        self.judge.look()
        mirror = next((each for each in self.judge.state.mirrors if each.mirror_topic == topic), None)
        alike = mirror is not None and mirror.state is MirrorState.ACTIVE and mirror.mode is MirrorMode.PRESERVE
        return side_of(mirror) if alike and mirror is not None else None

    def deleted(self, topic: str, before: Sequence[ModelRecord]) -> None:
        """See `events.Stage`."""
        cluster = self.source if self.written_on(topic) == SOURCE else self.target
        start = cluster.log_range(topic, 0)[0]
        self.judge.deleted(f"{topic}/0", (record.value for record in before if record.offset < start))

    def configured(self, topic: str, changes: Mapping[str, str]) -> None:
        """See `events.Stage`."""
        self.at_rest.configured(topic, changes)

    def state_lost(self, end: int) -> None:
        """See `events.Stage`."""
        for judge in (self.judge, *(branch.judge for branch in self.branches.values())):
            if judge.state.target is self.target:
                judge.state_lost(end)

    def producers(self) -> list[str]:
        """See `events.Stage`."""
        return [producer.name for producer in self.writers]

    def member(self, name: str, bootstrap: str, side: str, group: str = GROUP) -> GroupMember:
        """See `events.Stage`."""
        topics, positions = (PLAIN, self.readers[0].positions) if group == GROUP else (SET[:1], None)
        member = GroupMember(self.loop, name, bootstrap, group, topics, self.recorder, positions=positions, side=side)
        member.on_error.append(self.story.tell)
        return member

    def producer(self, name: str, topic: str, partitions: int, bootstrap: str = "", side: str = SOURCE) -> Producer:
        """See `events.Stage`."""
        at, topics = bootstrap or self.source.bootstrap, {topic: partitions}
        return Producer(self.loop, name, at, topics, self.recorder, rate_per_s=20.0, side=side)

    def begin(self, producer: Producer) -> None:
        """See `events.Stage`."""
        self.writers.append(producer)
        producer.start()

    def topics(self) -> tuple[str, ...]:
        """See `faults.Scene`."""
        return (*TOPICS, *self.cast.topics, *self.more_topics)

    def branch_of(self, act: Act) -> Branch | None:
        """The other link with which an operation has to do, whose scene is struck."""
        return self.branches.get(act.topics[-1]) if act.operation in JOINED or OWNED in act.topics else None

    # -- the run -----------------------------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """All of it."""
        outcome, began = self.outcome, self.loop.time()
        stuck: list[str] = []
        watching = self.loop.spawn(self.loop.lab, self._watch(), "judge")
        try:
            registries = nullcontext() if self.schemas is None else self.schemas.opened()
            with watched(self._aim.stepped), self.looks.noted(), registries, self.work.charged():
                await self._set_up()
                for act in self.plan.acts:
                    await asyncio.sleep(act.pause_s)
                    await self._perform(act)
                self._act = None
                self.leaders_lost.stop()
                await self._ending.come_to_rest()
                await self.at_rest.judged()
                await self.owned.judged()
        except (Stuck, TopicFailed, NotServing) as exc:
            stuck.append(f"{named(self._act)}: {exc}")
        watching.cancel()
        if self.plan.in_order:
            judge_in_order(self.writers, self.judge.findings, self.loop.time())
        outcome.virtual_s = self.loop.time() - began
        outcome.verdict = self.judge.verdict(
            stuck=stuck, at_rest=not stuck, lossy=self.cast.lossy, clients=self.cast.to_end
        )
        for branch in self.branches.values():
            outcome.verdict = outcome.verdict.and_also(branch.judge.verdict(at_rest=not stuck))
        for stall in self.work.stalls:
            outcome.broken = outcome.broken or f"stalled: {stall}"
        for error in self.loop.unhandled:
            outcome.broken = outcome.broken or f"unhandled: {error.get('message')}: {error.get('exception')!r}"
        outcome.story, outcome.digest = self.story.lines, self.story.digest()
        return outcome

    @property
    def link_options(self) -> LinkOptions:
        """What the plan says of the link."""
        auto_create = AUTO if self.plan.auto_create else ""
        return {
            "synced": self.plan.synced,
            "auto_create": auto_create,
            "acls": self.plan.acls,
            "ack_both": self.plan.ack_both,
            "schemas": self.plan.schemas,
        }

    async def _watch(self) -> None:
        while True:
            for judge in (self.judge, *(branch.judge for branch in self.branches.values())):
                judge.look()
            self.at_rest.look()
            self.owned.look()
            await asyncio.sleep(_WATCH_S)

    async def _set_up(self) -> None:
        await asyncio.gather(self.source.start(), self.target.start())
        stamps = {"message.timestamp.type": "LogAppendTime"} if self.plan.stamped else {}
        for topic, partitions in TOPICS.items():
            self.source.create_topic(topic, partitions, 3, {**_CONFIGS, **stamps})
        await asyncio.gather(*(gateway.start() for gateway in self.gateways))
        await self.operator.create_link(self.source.bootstrap, **self.link_options)
        plain = {topic: TOPICS[topic] for topic in PLAIN}
        loop, at, recorder, rate = self.loop, self.source.bootstrap, self.recorder, self.plan.rate_per_s
        self.writers = [
            Producer(loop, "java", at, plain, recorder, style="java", rate_per_s=rate, side=SOURCE),
            Producer(loop, "rd", at, plain, recorder, style="librdkafka", rate_per_s=rate, side=SOURCE),
            TransactionalProducer(
                loop, "tx", at, {topic: TOPICS[topic] for topic in SET}, recorder, rate_per_s=rate, side=SOURCE
            ),
        ]
        if self.plan.brief and not self.created() & set(SET):
            self.writers.pop()
        positions: dict[tuple[str, str], int] = {}
        self.readers = [
            GroupMember(loop, f"reader-{n}", at, GROUP, PLAIN, recorder, positions=positions, side=SOURCE)
            for n in range(2)
        ]
        for client in (*self.writers, *self.readers):
            client.on_error.append(self.story.tell)
            client.start()
        self.cast = Cast.of(self.plan, loop, self.source, recorder)
        self.cast.start(self.story.tell)
        if any(event.kind is EventKind.GROUP_ASKS for event in self.plan.events):
            self.events.early = self.member("early", at, SOURCE, EARLY)
            self.events.early.start()

    @property
    def gateway_bootstrap(self) -> str:
        """Where clients of gateways connect."""
        return ",".join(gateway.bootstrap for gateway in self.gateways[: self.plan.gateways])

    async def _perform(self, act: Act) -> None:
        self._act = act
        self._over.clear()
        self.story.tell("operator", f"== {named(act)}")
        if act.operation not in BUILT_FIRST:
            self.arm(act)
        await self._acts.perform(act)
        self.outcome.migrations += act.operation not in (
            Operation.REBALANCE,
            Operation.RESTART,
            Operation.RELINK,
            Operation.UNMIRROR,
            Operation.SPOIL,
            Operation.OWN,
        )
        self.story.tell("operator", f"== done {named(act)}")
        self._over.set()
        self.at_rest.operation_ended()
        await self.settled()

    def arm(self, act: Act) -> None:
        """From now on what is to strike at the operation does."""
        self._aim.begin(act)

    async def settled(self) -> None:
        """What was stopped or cut is back, before the next operation begins: one story at a time."""
        while self._beside:
            beside, self._beside = self._beside, []
            await asyncio.gather(*beside)

    # -- for acts and for the end ----------------------------------------------------------------------------------

    def all_members(self) -> list[GroupMember]:
        """Of all groups of the plan."""
        return [*self.readers, *self.cast.members]

    def reading(self) -> list[GroupMember]:
        """Whoever reads what the run's own link mirrors."""
        return [*self.all_members(), *self.events.members()]

    def groups(self) -> list[str]:
        """Their groups."""
        return list(dict.fromkeys(member.group for member in self.all_members()))

    def created(self) -> set[str]:
        """Topics that the plan mirrors."""
        return {t for act in self.plan.acts if act.operation is Operation.CREATE for t in act.topics}

    async def until(
        self,
        reached: Callable[[], Coroutine[Any, Any, bool]],
        what: str,
        waits_for: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Wait for it. Raises Stuck after two minutes, with `what`, and a line for each that is waited for."""
        until = self.loop.time() + _REST_S
        while not await reached():
            if self.loop.time() > until:
                shown = await self.operator.ask("GET", f"/v3/links/{LINK}/mirrors")
                raise Stuck("; ".join((f"after {_REST_S:g} s of rest {what}", *waits_for(), f"mirrors: {shown}")))
            await asyncio.sleep(_LOOK_S)


def _cluster(loop: SimLoop, name: str, version: str) -> ClusterModel:
    """Groups begin at once, and a dead broker is noticed soon; in every eighth run as brokers have it by default, with
    3 and 9 s in which little happens.
    """
    configs = {} if loop.seed % 8 == 0 else _LIVELY
    return ClusterModel(loop, name=name, version=version, configs=configs, rng=loop.random(name))


def leads(gateway: GatewayNode) -> bool:
    """It has begun a term of leadership, and not ended it as far as it knows."""
    return gateway.serves and gateway.gateway._term is not None
