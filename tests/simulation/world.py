"""One simulated run: two clusters, a fleet of shipped gateways, clients, an operator, faults; then everybody rests, and is judged.

Nothing here waits for real: the loop's clock jumps. A run is a function of its plan.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.clients import GroupMember, Producer, TransactionalProducer
from tests.simulation.faults import Faults
from tests.simulation.fleet import GatewayNode
from tests.simulation.judge import Verdict, judge_cutover, verdict
from tests.simulation.kafka import ClusterModel
from tests.simulation.kernel.loop import SimLoop, Spinning
from tests.simulation.operator import LINK, Operator, Stuck, TopicFailed
from tests.simulation.plan import GROUP, PLAIN, SET, STEPS, TOPICS, Act, Fault, FaultKind, Operation, RunPlan
from tests.simulation.recorder import Recorder
from tests.simulation.steps import watched
from tests.simulation.story import Line, Story

SOURCE: Final = "source"
TARGET: Final = "target"
_REST_S: Final = 120.0
_LOOK_S: Final = 0.1
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
}
"""Which families of steps an operation takes; see `steps.py`."""


@dataclass
class Outcome:
    """What a run came to. `broken`: it could not be carried out, in one line; '' otherwise."""

    plan: RunPlan
    verdict: Verdict
    broken: str = ""
    stuck: str = ""
    failed_topic: str = ""
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
        if self.failed_topic:
            return "failed_topics"
        if self.stuck:
            return "stuck"
        return self.verdict.first_class()

    @property
    def why(self) -> str:
        """One line for a person."""
        return self.broken or self.failed_topic or self.stuck or self.verdict.first_example()


def simulate(plan: RunPlan, listener: Callable[[Line], None] | None = None) -> Outcome:
    """Run a plan, and judge it."""
    loop = SimLoop(plan.seed)
    try:
        world = World(plan, loop, listener)
        return loop.run_until_complete(world.run())
    except Spinning as exc:
        return Outcome(plan, Verdict(), broken=f"spinning: {exc}")
    finally:
        loop.close()


class World:
    """See the module. Implements `faults.Scene`."""

    def __init__(self, plan: RunPlan, loop: SimLoop, listener: Callable[[Line], None] | None) -> None:
        self.plan = plan
        self.loop = loop
        self.story = Story(loop.time, listener)
        self.source = ClusterModel(loop, name=SOURCE, version=plan.source_kafka, rng=loop.random(SOURCE))
        self.target = ClusterModel(loop, name=TARGET, version="4.3.1", rng=loop.random(TARGET))
        for cluster in (self.source, self.target):
            cluster.on_trace = lambda text, name=cluster.name: self.story.tell(name, text)  # type: ignore[misc]
        self.recorder = Recorder(loop.time)
        self.gateways = [self._gateway(number) for number in range(plan.gateways)]
        self._operator = Operator(self._asked, loop.time, lambda text: self.story.tell("operator", text))
        self._faults = Faults(self, loop.random("faults"))
        self._beside: list[asyncio.Task[None]] = []
        self._act: Act | None = None
        self._waiting: list[Fault] = []
        self._joined = 0
        self._written_on: dict[str, str] = dict.fromkeys(TOPICS, SOURCE)
        self.outcome = Outcome(plan, Verdict())
        self._producers: list[Producer | TransactionalProducer] = []
        self._members: list[GroupMember] = []

    def _gateway(self, number: int) -> GatewayNode:
        return GatewayNode(self.loop, f"gw-{number}", self.target.bootstrap, tell=self.story.tell)

    # -- for faults --------------------------------------------------------------------------------------------------

    def _asked(self) -> list[GatewayNode]:
        """The leader last: what a follower passes on is tried, too."""
        running = [gateway for gateway in self.gateways if gateway.runs]
        return sorted(running, key=lambda gateway: gateway.leads)

    def leader(self) -> GatewayNode | None:
        """See `faults.Scene`."""
        return next((gateway for gateway in self.gateways if gateway.runs and gateway.leads), None)

    def followers(self) -> list[GatewayNode]:
        """See `faults.Scene`."""
        return [gateway for gateway in self.gateways if gateway.runs and not gateway.leads]

    def soon(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """See `faults.Scene`."""
        self._beside.append(self.loop.spawn(self.loop.lab, work, name))

    async def join(self) -> None:
        """See `faults.Scene`."""
        self._joined += 1
        gateway = self._gateway(self.plan.gateways + self._joined - 1)
        self.gateways.append(gateway)
        await gateway.start()
        await asyncio.sleep(3.0)
        if gateway.runs:
            await gateway.stop()
        self.gateways.remove(gateway)

    def topics(self) -> tuple[str, ...]:
        """See `faults.Scene`."""
        return tuple(TOPICS)

    # -- the run -----------------------------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """All of it."""
        outcome = self.outcome
        try:
            with watched(self._stepped):
                await self._set_up()
                for act in self.plan.acts:
                    await asyncio.sleep(act.pause_s)
                    await self._perform(act)
                await self._rest()
        except Stuck as exc:
            outcome.stuck = f"{self._named(self._act)}: {exc}"
        except TopicFailed as exc:
            outcome.failed_topic = f"{self._named(self._act)}: {exc}"
        outcome.virtual_s = self.loop.time() - self._began
        if not outcome.stuck and not outcome.failed_topic:
            outcome.verdict = verdict(
                self.recorder, self.source, self.target, [g.gateway for g in self.gateways if g.runs]
            )
        for error in self.loop.unhandled:
            outcome.broken = outcome.broken or f"unhandled: {error.get('message')}: {error.get('exception')!r}"
        outcome.story, outcome.digest = self.story.lines, self.story.digest()
        return outcome

    _began = 0.0

    @staticmethod
    def _named(act: Act | None) -> str:
        return "set-up" if act is None else f"act {act.number} {act.operation} {' '.join(act.topics)}"

    async def _set_up(self) -> None:
        self._began = self.loop.time()
        await asyncio.gather(self.source.start(), self.target.start())
        for topic, partitions in TOPICS.items():
            self.source.create_topic(topic, partitions, 3, {"min.insync.replicas": "2"})
        self.recorder.setup(SOURCE, topics={topic: {"preserve": topic in PLAIN} for topic in TOPICS})
        await asyncio.gather(*(gateway.start() for gateway in self.gateways))
        await self._operator.create_link(self.source.bootstrap)
        keys = [("plain", 0), ("plain", 1)]
        self._producers = [
            Producer(self.loop, "java", self.source.bootstrap, keys, self.recorder, style="java", rate_per_s=20.0),
            Producer(self.loop, "rd", self.source.bootstrap, keys, self.recorder, style="librdkafka", rate_per_s=20.0),
            TransactionalProducer(
                self.loop, "tx", self.source.bootstrap, [(t, 0) for t in SET], self.recorder, transactional_id="tx"
            ),
        ]
        self._members = [self._member(number) for number in range(2)]
        for client in (*self._producers, *self._members):
            await client.start(SOURCE)

    def _member(self, number: int) -> GroupMember:
        return GroupMember(self.loop, f"reader-{number}", self.source.bootstrap, GROUP, list(PLAIN), self.recorder)

    @property
    def _bootstrap(self) -> str:
        return ",".join(gateway.bootstrap for gateway in self.gateways[: self.plan.gateways])

    async def _perform(self, act: Act) -> None:
        self._act = act
        self.story.tell("operator", f"== {self._named(act)}")
        self._waiting = [fault for fault in self.plan.faults if fault.act == act.number and fault.step]
        for fault in self.plan.faults:
            if fault.act == act.number and not fault.step:
                self.soon(self._strike_later(fault), f"fault {fault.kind}")
        await getattr(self, f"_do_{act.operation.name.lower()}")(act)
        self.story.tell("operator", f"== done {self._named(act)}")
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
        for fault in [one for one in self._waiting if one.step == step]:
            self._waiting.remove(fault)
            if fault.delay_s:
                self.soon(self._strike_later(fault), f"fault {fault.kind}")
            else:
                self._strike(fault)

    async def _strike_later(self, fault: Fault) -> None:
        await asyncio.sleep(fault.delay_s)
        self._strike(fault)

    def _strike(self, fault: Fault) -> None:
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
        if act.topics[0] == SET[-1]:
            for producer in self._producers:
                await producer.restart(self._bootstrap, TARGET)
        self.outcome.migrations += 1

    async def _do_promote(self, act: Act) -> None:
        await self._cutover(act, TARGET, lambda: self._operator.promote(act.topics, twice=act.twice))

    _do_promote_set = _do_promote

    async def _do_home(self, act: Act) -> None:
        await self._cutover(act, SOURCE, lambda: self._operator.promote(act.topics, home=True, twice=act.twice))

    _do_home_set = _do_home

    async def _cutover(self, act: Act, to: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        keys = [f"{topic}/{index}" for topic in act.topics for index in range(TOPICS[topic])]
        self.recorder.flip("invoke", keys, to)
        await work()
        self.recorder.flip("ok", keys, to)
        self._written_on.update(dict.fromkeys(act.topics, to))
        self.outcome.migrations += 1
        judge_cutover(self.outcome.verdict, self.recorder, self.source, self.target, act.topics)

    async def _do_reverse(self, act: Act) -> None:
        await self._operator.reverse(act.topics, twice=act.twice)
        self.outcome.migrations += 1

    async def _do_failover(self, act: Act) -> None:
        """Nobody writes and everything is mirrored: then it may lose nothing."""
        for producer in self._producers:
            await producer.stop()
        await self._level(act.topics)
        await self._cutover(act, TARGET, lambda: self._operator.failover(act.topics[0]))
        for producer in self._producers:
            await producer.restart(self._bootstrap, TARGET)

    async def _do_restore(self, act: Act) -> None:
        await self._operator.restore(act.topics[0])
        self.outcome.migrations += 1

    async def _do_group_promote(self, act: Act) -> None:
        for member in self._members[:-1]:
            await member.restart(self._bootstrap, TARGET)
        await self._members[-1].stop()
        self.recorder.move("invoke", GROUP, TARGET)
        await self._members[-1].restart(self._bootstrap, TARGET)
        await self._operator.promoted(GROUP)
        self.recorder.move("ok", GROUP, TARGET)
        self.outcome.migrations += 1

    async def _do_demote(self, act: Act) -> None:
        for member in self._members:
            await member.stop()
        self.recorder.move("invoke", GROUP, SOURCE)
        await self._operator.demote(GROUP)
        self.recorder.move("ok", GROUP, SOURCE)
        for member in self._members:
            await member.restart(self.source.bootstrap, SOURCE)
        self.outcome.migrations += 1

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
        await self._level(tuple(TOPICS))
        await self._until(self._read_out, "a group has not read to the end")
        for member in self._members:
            await member.stop()
        for side, cluster in ((SOURCE, self.source), (TARGET, self.target)):
            for topic, partitions in TOPICS.items():
                if topic in cluster.topic_names():
                    for index in range(partitions):
                        self.recorder.final_log(side, topic, index, cluster)

    async def _level(self, topics: tuple[str, ...]) -> None:
        async def level() -> bool:
            listed = await self._operator.mirrors()
            return all(_is_level(listed[t]) if t in listed else t not in self._created() for t in topics)

        await self._until(level, "a mirror is not level")

    def _created(self) -> set[str]:
        return {t for act in self.plan.acts if act.operation is Operation.CREATE for t in act.topics}

    async def _read_out(self) -> bool:
        for index in range(TOPICS["plain"]):
            side = self._members[0].side
            cluster = self.source if side == SOURCE else self.target
            if "plain" in cluster.topic_names():
                end = cluster.log_range("plain", index)[3]
                if self._members[0].positions.get(("plain", index), 0) < end:
                    return False
        return True

    async def _until(self, reached: Callable[[], Coroutine[Any, Any, bool]], what: str) -> None:
        until = self.loop.time() + _REST_S
        while not await reached():
            if self.loop.time() > until:
                shown = await self._operator.ask("GET", f"/v3/links/{LINK}/mirrors")
                raise Stuck(f"after {_REST_S:g} s of rest {what}: {shown}")
            await asyncio.sleep(_LOOK_S)


def _is_level(mirror: dict[str, Any]) -> bool:
    if mirror["mirror_status"] == "STOPPED":
        return True
    lags = mirror["mirror_lags"]
    if mirror["mirror_status"] == "FAILED":
        raise TopicFailed(f"{mirror['mirror_topic_name']}: {mirror}")
    return bool(lags) and all(one["phase"] == "copying" and one["lag"] == 0 for one in lags)
