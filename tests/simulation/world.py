"""One simulated run: two clusters, a fleet of shipped gateways, clients, an operator, faults; then all is judged.

Nothing here waits for real: the loop's clock jumps. A run is a function of its plan.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.simulation import logs
from tests.simulation.cast import Cast, compacted
from tests.simulation.clients import GroupMember, Producer, TransactionalProducer
from tests.simulation.events import EARLY, Events
from tests.simulation.faults import Faults
from tests.simulation.fleet import GatewayNode, NotServing
from tests.simulation.giving_up import Trouble
from tests.simulation.judge import Judge, Verdict, unread
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop, Spinning
from tests.simulation.kernel.node import State
from tests.simulation.operator import LINK, Operator, Stuck, TopicFailed
from tests.simulation.plan import (
    GROUP,
    PLAIN,
    SET,
    STEPS,
    TOPICS,
    Act,
    Event,
    EventKind,
    Fault,
    FaultKind,
    Operation,
    RunPlan,
)
from tests.simulation.recorder import Recorder
from tests.simulation.steps import watched
from tests.simulation.story import Line, Story

SOURCE: Final = "source"
TARGET: Final = "target"
_REST_S: Final = 120.0
_LOOK_S: Final = 0.1
_WATCH_S: Final = 0.05
_STEADY_S: Final = 0.5
_JOINED_S: Final = 2.0
_AFTER_S: Final = 0.5
"""What is broken stays so for no longer after its operation is done: then nothing happens but waiting."""
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "fleet": {"lease_s": 8},
    "groups": {"quiet_period_s": 1},
}
"""Leases shorter than the longest pauses, so that they do end."""
_LIVELY: Final = {"group.initial.rebalance.delay.ms": "0", "broker.session.timeout.ms": "3000"}
_FAMILIES: Final[dict[Operation, tuple[str, ...]]] = {
    Operation.CREATE: ("create",),
    Operation.GROUP_PROMOTE: ("group",),
    Operation.PROMOTE: ("promote",),
    Operation.PROMOTE_SET: ("promote",),
    Operation.REVERSE: ("back",),
    Operation.HOME: ("promote", "back"),
    Operation.HOME_SET: ("promote", "back"),
    Operation.DEMOTE: ("demote",),
    Operation.FAILOVER: ("failover",),
    Operation.RESTORE: ("back",),
    Operation.REBALANCE: ("rebalance",),
    Operation.RESTART: ("leave",),
    Operation.PROMOTE_GIVEN_UP: ("promote",),
    Operation.GROUP_GIVEN_UP: ("group",),
    Operation.REVERSE_GIVEN_UP: ("back",),
    Operation.RESTORE_GIVEN_UP: ("back",),
}
"""Which families of steps an operation takes; see `steps.py`."""


@dataclass
class Outcome:
    """What a run came to. `broken`: it could not be carried out, in one line; '' otherwise."""

    plan: RunPlan
    verdict: Verdict | None = None
    broken: str = ""
    migrations: int = 0
    faults: int = 0
    pairs: Counter[tuple[Operation, str, FaultKind]] = field(default_factory=Counter)
    virtual_s: float = 0.0
    story: list[Line] = field(default_factory=list)
    digest: str = ""

    @property
    def failure(self) -> str:
        """The class of what went wrong first, '' when all is well."""
        if self.broken:
            return f"broken: {self.broken.split(':', 1)[0]}"
        return self.why.split(":", 1)[0]

    @property
    def why(self) -> str:
        """One line for a person."""
        return self.broken or (self.verdict.first if self.verdict is not None else "there is no verdict")


def simulate(plan: RunPlan, listener: Callable[[Line], None] | None = None) -> Outcome:
    """Run a plan, and judge it."""
    loop = SimLoop(plan.seed)
    world = World(plan, loop, listener)
    with logs.told_to(world.logged if listener else None):
        try:
            return loop.run_until_complete(world.run())
        except Spinning as exc:
            return replace(world.outcome, broken=f"spinning: {exc}", story=world.story.lines)
        finally:
            loop.close()


class World:
    """See the module. Implements `faults.Scene`."""

    def __init__(self, plan: RunPlan, loop: SimLoop, listener: Callable[[Line], None] | None) -> None:
        self.plan = plan
        self.loop = loop
        self.story = Story(loop.time, listener)
        self.source = _cluster(loop, SOURCE, plan.source_kafka)
        self.target = _cluster(loop, TARGET, "4.3.1")
        for cluster in (self.source, self.target):
            cluster.on_trace = lambda text, name=cluster.name: self.story.tell(name, text)
        self.recorder = Recorder(loop.time)
        self.gateways = [self._gateway(number) for number in range(plan.gateways)]
        self._operator = Operator(self._asked, loop.time, lambda text: self.story.tell("operator", text))
        self._faults = Faults(self, loop.random("faults"))
        self._events = Events(self)
        self._beside: list[asyncio.Task[None]] = []
        self._act: Act | None = None
        self._over = asyncio.Event()  # the operation of the act
        self._waiting: list[Fault | Event] = []
        self._joined = 0
        self.outcome = Outcome(plan)
        self._producers: list[Producer | TransactionalProducer] = []
        self._members: list[GroupMember] = []
        self._cast = Cast()
        self.judge = Judge(self.recorder, self.source, self.target, loop.time, compacted=compacted(plan))
        self._trouble = Trouble(self.source, self.target, self.recorder)

    def _gateway(self, number: int) -> GatewayNode:
        return GatewayNode(self.loop, f"gw-{number}", self.target.bootstrap, _SETTINGS)

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
        self._beside.append(self.loop.spawn(self.loop.lab, work, name))

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
        up = {number for number, name in names.items() if self.loop.node(name).state is State.RUNNING}
        return up if len(up) == len(names) else set()

    @property
    def operator(self) -> Operator:
        """See `events.Stage`."""
        return self._operator

    def act(self) -> Act | None:
        """See `events.Stage`."""
        return self._act

    def producers(self) -> list[str]:
        """See `events.Stage`."""
        return [producer.name for producer in self._producers]

    def member(self, name: str, bootstrap: str, side: str, group: str = GROUP) -> GroupMember:
        """See `events.Stage`."""
        topics, positions = (PLAIN, self._members[0].positions) if group == GROUP else (SET[:1], None)
        member = GroupMember(self.loop, name, bootstrap, group, topics, self.recorder, positions=positions, side=side)
        member.on_error.append(self.story.tell)
        return member

    def producer(self, name: str, topic: str, partitions: int, bootstrap: str = "", side: str = SOURCE) -> Producer:
        """See `events.Stage`."""
        at, topics = bootstrap or self.source.bootstrap, {topic: partitions}
        return Producer(self.loop, name, at, topics, self.recorder, rate_per_s=20.0, side=side)

    def begin(self, producer: Producer) -> None:
        """See `events.Stage`."""
        self._producers.append(producer)
        producer.start()

    def topics(self) -> tuple[str, ...]:
        """See `faults.Scene`."""
        return (*TOPICS, *self._cast.topics)

    # -- the run -----------------------------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """All of it."""
        outcome, began = self.outcome, self.loop.time()
        stuck: list[str] = []
        watching = self.loop.spawn(self.loop.lab, self._watch(), "judge")
        try:
            with watched(self._stepped):
                await self._set_up()
                for act in self.plan.acts:
                    await asyncio.sleep(act.pause_s)
                    await self._perform(act)
                await self._rest()
        except (Stuck, TopicFailed, NotServing) as exc:
            stuck.append(f"{self._named(self._act)}: {exc}")
        watching.cancel()
        outcome.virtual_s = self.loop.time() - began
        outcome.verdict = self.judge.verdict(
            stuck=stuck, at_rest=not stuck, lossy=self._cast.lossy, clients=self._cast.to_end
        )
        for error in self.loop.unhandled:
            outcome.broken = outcome.broken or f"unhandled: {error.get('message')}: {error.get('exception')!r}"
        outcome.story, outcome.digest = self.story.lines, self.story.digest()
        return outcome

    async def _watch(self) -> None:
        while True:
            self.judge.look()
            await asyncio.sleep(_WATCH_S)

    @staticmethod
    def _named(act: Act | None) -> str:
        return "set-up" if act is None else f"act {act.number} {act.operation} {' '.join(act.topics)}"

    async def _set_up(self) -> None:
        await asyncio.gather(self.source.start(), self.target.start())
        for topic, partitions in TOPICS.items():
            self.source.create_topic(topic, partitions, 3, {"min.insync.replicas": "2"})
        await asyncio.gather(*(gateway.start() for gateway in self.gateways))
        await self._operator.create_link(self.source.bootstrap, synced=self.plan.synced)
        plain = {topic: TOPICS[topic] for topic in PLAIN}
        loop, at, recorder, rate = self.loop, self.source.bootstrap, self.recorder, self.plan.rate_per_s
        self._producers = [
            Producer(loop, "java", at, plain, recorder, style="java", rate_per_s=rate, side=SOURCE),
            Producer(loop, "rd", at, plain, recorder, style="librdkafka", rate_per_s=rate, side=SOURCE),
            TransactionalProducer(
                loop, "tx", at, {topic: TOPICS[topic] for topic in SET}, recorder, rate_per_s=rate, side=SOURCE
            ),
        ]
        if self.plan.brief and not self._created() & set(SET):
            self._producers.pop()
        positions: dict[tuple[str, str], int] = {}
        self._members = [
            GroupMember(loop, f"reader-{n}", at, GROUP, PLAIN, recorder, positions=positions, side=SOURCE)
            for n in range(2)
        ]
        for client in (*self._producers, *self._members):
            client.on_error.append(self.story.tell)
            client.start()
        self._cast = Cast.of(self.plan, loop, self.source, recorder)
        self._cast.start(self.story.tell)
        if any(event.kind is EventKind.GROUP_ASKS for event in self.plan.events):
            self._events.early = self.member("early", at, SOURCE, EARLY)
            self._events.early.start()

    @property
    def gateway_bootstrap(self) -> str:
        """Where clients of gateways connect."""
        return ",".join(gateway.bootstrap for gateway in self.gateways[: self.plan.gateways])

    async def _perform(self, act: Act) -> None:
        self._act = act
        self._over.clear()
        self.story.tell("operator", f"== {self._named(act)}")
        both: tuple[Fault | Event, ...] = (*self.plan.faults, *self.plan.events)
        here = [each for each in both if each.act == act.number]
        self._waiting = [fault for fault in here if fault.step]
        for fault in here:
            if not fault.step:
                self.soon(self._strike_later(fault), f"fault {fault.kind}")
        await getattr(self, f"_do_{act.operation.name.lower()}")(act)
        self.outcome.migrations += act.operation not in (Operation.REBALANCE, Operation.RESTART)
        self.story.tell("operator", f"== done {self._named(act)}")
        self._over.set()
        await self._settled()

    async def _settled(self) -> None:
        """What was stopped or cut is back, before the next operation begins: one story at a time."""
        while self._beside:
            beside, self._beside = self._beside, []
            await asyncio.gather(*beside)

    # -- faults at steps ---------------------------------------------------------------------------------------------

    def _stepped(self, family: str, step: str) -> None:
        act = self._act
        if act is None or family not in _FAMILIES[act.operation]:
            return
        self._trouble.stepped(act, step)
        for fault in [one for one in self._waiting if one.step == step]:
            self._waiting.remove(fault)
            if fault.delay_s:
                self.soon(self._strike_later(fault), f"fault {fault.kind}")
            else:
                self._strike(fault)

    async def _strike_later(self, fault: Fault | Event) -> None:
        await asyncio.sleep(fault.delay_s)
        self._strike(fault)

    def _strike(self, fault: Fault | Event) -> None:
        if isinstance(fault, Event):
            if happened := self._events.strike(fault):
                self.story.tell("EVENT", f"{happened} (at {self._named(self._act)} {fault.step or 'anywhere'})")
            return
        done = self._faults.strike(fault)
        if not done:
            return
        self.outcome.faults += 1
        self.recorder.fault(fault.kind.value)
        self.story.tell("FAULT", f"{done} (at {self._named(self._act)} {fault.step or 'anywhere'})")
        act = self._act
        if act is not None and fault.step in STEPS[act.operation]:
            self.outcome.pairs[act.operation, fault.step, fault.kind] += 1

    # -- operations --------------------------------------------------------------------------------------------------

    async def _do_create(self, act: Act) -> None:
        await self._operator.create(act.topics[0])
        await self._events.created(act.topics[0])
        await self._cast.created(act.topics[0], self.gateway_bootstrap)
        last = max(one.number for one in self.plan.acts if one.operation is Operation.CREATE)
        if act.number == last if self.plan.brief else act.topics[0] == SET[-1]:
            for producer in self._producers:
                if producer.side == SOURCE:
                    await producer.restart(self.gateway_bootstrap, TARGET)

    async def _do_promote(self, act: Act) -> None:
        await self._cast.before_promote(act.topics)
        await self._operator.promote(act.topics, twice=act.twice)

    _do_promote_set = _do_promote

    async def _do_home(self, act: Act) -> None:
        await self._operator.promote(act.topics, home=True, twice=act.twice)

    _do_home_set = _do_home

    async def _do_reverse(self, act: Act) -> None:
        await self._operator.reverse(act.topics, twice=act.twice)

    async def _do_failover(self, act: Act) -> None:
        """Under load: what is left behind then, the judge excuses by the record's own account."""
        await self._roll_members()
        await self._operator.failover(act.topics[0])
        await self._promoted()

    async def _do_restore(self, act: Act) -> None:
        await self._operator.restore(act.topics[0])

    async def _do_promote_given_up(self, act: Act) -> None:
        await self._operator.promote_in_vain(act.topics[0], lambda: self._trouble.was_taken(act, "mark_active"))

    async def _do_reverse_given_up(self, act: Act) -> None:
        await self._operator.reverse_in_vain(act.topics[0], lambda: self._trouble.was_taken(act, "abort"))

    async def _do_restore_given_up(self, act: Act) -> None:
        self.judge.allowed.add(act.topics[0])
        with self._trouble.no_deletes():
            await self._operator.restore_in_vain(act.topics[0])
        self.judge.look()
        self.judge.allowed.remove(act.topics[0])

    async def _do_group_promote(self, act: Act) -> None:
        await self._roll_members()
        await self._promoted()

    _do_group_given_up = _do_group_promote

    def _all_members(self) -> list[GroupMember]:
        return [*self._members, *self._cast.members]

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(member.group for member in self._all_members()))

    async def _promoted(self) -> None:
        for group in self._groups():
            await self._operator.promoted(group)

    async def _roll_members(self) -> None:
        """A group without an offset on the source would be a new one at the gateway: there is nothing to promote."""

        async def committed() -> bool:
            return all(
                len(self.source.committed(member.group)) >= sum(TOPICS[topic] for topic in member.topics)
                for member in self._all_members()
            )

        await self._until(committed, "a group has not committed on the source")
        for member in self._all_members():
            if member.side == SOURCE:
                await member.restart(self.gateway_bootstrap, TARGET)

    async def _do_demote(self, act: Act) -> None:
        for member in self._all_members():
            await member.stop()
        for group in self._groups():
            await self._operator.demote(group)
        for member in self._all_members():
            member.start(self.source.bootstrap, SOURCE)

    async def _do_rebalance(self, act: Act) -> None:
        await self.join()

    async def _do_restart(self, act: Act) -> None:
        for gateway in list(self.gateways):
            if gateway.runs:
                await gateway.stop()
            if not gateway.runs:
                await gateway.start()

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        """Faults are over; producers stop, mirrors come level, groups read to the end."""
        self._act = None
        await self._settled()
        self.loop.network.heal()
        for producer in self._producers:
            await producer.stop()
        await self._cast.stop_producers()
        await self._level((*TOPICS, *self._cast.topics))
        await self._until(self._read_out, "a group has not read to the end")
        for member in (*self._all_members(), *self._events.members()):
            await member.stop()

    async def _level(self, topics: tuple[str, ...]) -> None:
        """Level for `_STEADY_S`: what `describe` knows of other gateways' mirrors is as old as their last heartbeat."""
        since = [float("inf")]

        async def level() -> bool:
            listed, now = await self._operator.mirrors(), self.loop.time()
            is_level = bool(listed) and all(
                self._is_level(listed[t]) if t in listed else t not in self._created() for t in topics
            )
            since[0] = min(since[0], now) if is_level else float("inf")
            return now - since[0] >= _STEADY_S

        await self._until(level, "a mirror is not level")

    def _is_level(self, mirror: dict[str, Any]) -> bool:
        """By the logs: a mirror that has not heard of the last records yet says that it is level."""
        if mirror["mirror_status"] == "STOPPED":
            return True
        topic, lags = mirror["mirror_topic_name"], mirror["mirror_lags"]
        if mirror["mirror_status"] == "FAILED":
            raise TopicFailed(f"{topic}: {mirror}")
        origin = self.target if mirror["mirror_direction"] == "REVERSE" else self.source
        return bool(lags) and all(
            one["phase"] == "copying"
            and one["lag"] == 0
            and one["mirrored_to"] >= origin.log_range(topic, one["partition"])[3]
            for one in lags
        )

    def _created(self) -> set[str]:
        return {t for act in self.plan.acts if act.operation is Operation.CREATE for t in act.topics}

    async def _read_out(self) -> bool:
        members = (self._members[0], *self._cast.members, *self._events.members())
        return not any(unread(one, self.source if one.side == SOURCE else self.target) for one in members)

    async def _until(self, reached: Callable[[], Coroutine[Any, Any, bool]], what: str) -> None:
        until = self.loop.time() + _REST_S
        while not await reached():
            if self.loop.time() > until:
                shown = await self._operator.ask("GET", f"/v3/links/{LINK}/mirrors")
                raise Stuck(f"after {_REST_S:g} s of rest {what}: {shown}")
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
