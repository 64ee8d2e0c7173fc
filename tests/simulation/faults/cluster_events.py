"""Events of the clusters themselves: coordinators, the controller, brokers that lag, quotas (`plan.EventKind`).

All of it is within what Kafka promises: nothing that was acknowledged with acks=all is lost, an error code that no
client knows changes nothing, who waits is answered some time. So a run must pass as it does without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from protocol.apis import ApiKey, is_flexible
from protocol.errors import ErrorCode
from protocol.messages import DescribeGroupsResponse, HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from protocol.wire import INT32
from tests.simulation.faults.faults import FLEET_GROUP
from tests.simulation.faults.stage import Stage
from tests.simulation.kafka.broker import Between, Broker, Handler, Request
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.plan import GROUP, PLAIN, Event, EventKind
from tests.simulation.plan.roles import WEAK

_CHANGES: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
)
_CHANGED_S: Final = (1.0, 5.0)
"""How long the controller takes for a change."""
_LOOKED_S: Final = (0.3, 1.5)
"""From the looking on that a broker's answer is under way."""
_MUTED_MS: Final = (100, 1_500)
"""KIP-219: for so long a broker reads nothing of a connection."""
_MUTED_PART: Final = 0.1
"""For a tenth of the event's time at most, if that is more."""
_LIMITED: Final = ((ApiKey.PRODUCE, ApiKey.FETCH), (ApiKey.PRODUCE,), (ApiKey.FETCH,))
_FAILS_OVER: Final = 2
_UNKNOWN: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)


class ClusterEvents:
    """`table`: as `NetworkEvents.table`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._dice = stage.loop.random("cluster events")
        self._later: list[asyncio.Task[None]] = []
        self.table: Mapping[EventKind, Callable[[Event], str]] = {
            EventKind.COORDINATOR_REFUSES: self._coordinator_refuses,
            EventKind.COORDINATOR_FAILS_OVER: self._coordinator_fails_over,
            EventKind.COORDINATOR_CUT_OFF: self._coordinator_cut_off,
            EventKind.COORDINATOR_KEEPS_ONE: self._coordinator_keeps_one,
            EventKind.FOLLOWER_LEFT_OUT: self._follower_left_out,
            EventKind.CONTROLLER_SLOW: self._controller_slow,
            EventKind.BROKER_ANSWERS_LATE: self._broker_answers_late,
            EventKind.CONFIGS_HEARD_LATE: self._configs_heard_late,
            EventKind.QUOTA_MUTES: self._quota_mutes,
        }

    def _while(self, event: Event, cluster: ClusterModel, between: Between) -> None:
        """Until the event is over, this stands between requests and those who answer them."""
        cluster.between.append(between)
        self._stage.soon(self._undone(event, lambda: cluster.between.remove(between)), str(event.kind))

    async def _undone(self, event: Event, undo: Callable[[], object]) -> None:
        await self._stage.hold(event.hold_s)
        undo()

    # -- coordinators ----------------------------------------------------------------------------------------------

    def _group(self, event: Event) -> tuple[ClusterModel, str]:
        """Whose coordinator: the fleet's in half of the cases, else that of the clients' group, on either side."""
        of = round(event.hold_s * 100) % 4
        if of == 1:
            return self._stage.source, GROUP
        return self._stage.target, GROUP if of == 3 else FLEET_GROUP

    def _coordinator_refuses(self, event: Event) -> str:
        cluster, group = self._group(event)

        async def between(handler: Handler, broker: Broker, request: Request) -> Any:
            refusal = _refused(request, group)
            return await handler(broker, request) if refusal is None else refusal

        self._while(event, cluster, between)
        return f"{cluster.name}: members of {group} are answered UNKNOWN_SERVER_ERROR for {event.hold_s:g} s at most"

    def _coordinator_fails_over(self, event: Event) -> str:
        """Between JoinGroup and SyncGroup: the generation is in the memory of the one that is deposed."""
        cluster, group = self._group(event)
        left = [_FAILS_OVER]

        async def between(handler: Handler, broker: Broker, request: Request) -> Any:
            answer = await handler(broker, request)
            joined = request.key == ApiKey.JOIN_GROUP and request.message.group_id == group and not answer.error_code
            if joined and left[0] and cluster.move_coordinator(group) is not None:
                left[0] -= 1
                self._stage.story.tell("EVENT", f"{cluster.name}: the coordinator of {group} moves behind a join")
            return answer

        self._while(event, cluster, between)
        if group == FLEET_GROUP:
            self._stage.soon(self._stage.join(), "join")
        return f"{cluster.name}: {group} gets another coordinator between JoinGroup and SyncGroup"

    def _coordinator_cut_off(self, event: Event) -> str:
        """Not on the source: who is a member there, and of nothing but a memory, no gateway can see."""
        cluster, group = self._stage.target, self._group(event)[1]
        broker = self._cut_off(cluster, group, event.hold_s)
        return broker and (
            f"{broker}, which coordinates {group}, has lost its cluster, and not its clients, for {event.hold_s:g} s"
        )

    def _cut_off(self, cluster: ClusterModel, group: str, for_s: float) -> str:
        """The group's coordinator, '' when it may not be: where it leads a topic that is written with less than
        acks=all, it would acknowledge what is lost."""
        broker = cluster.coordinator("group", group).leader_id
        weak = cluster.topics.get(WEAK)
        if broker not in self._stage.living(cluster):
            return ""
        if weak is not None and any(partition.leader_id == broker for partition in weak.partitions):
            return ""
        cluster.cut_broker_off(broker, groups=True)
        name = f"{cluster.name}-{broker}"

        async def between(handler: Handler, asked: Broker, request: Request) -> Any:
            """What clients read there of offsets may be older than what they have committed elsewhere: so it is with
            Kafka, and nobody's fault here."""
            if request.key == ApiKey.OFFSET_FETCH and asked.offsets is not None:
                await asked.hears_again(for_s)
            return await handler(asked, request)

        def rejoin() -> None:
            cluster.between.remove(between)
            cluster.rejoin_broker(broker)

        cluster.between.append(between)
        self._goes_on(_after(for_s, rejoin), f"rejoin {name}")
        return name

    def _coordinator_keeps_one(self, event: Event) -> str:
        followers = self._stage.followers()
        broker = self._cut_off(self._stage.target, FLEET_GROUP, event.hold_s) if followers else ""
        if not broker:
            return ""
        name = followers[0].name
        others = [f"{self._stage.target.name}-{each}" for each in self._stage.target.brokers]
        self._apart(name, [each for each in others if each != broker], event.hold_s)
        return f"{name} hears of nobody but of {broker}, which has lost its cluster, and of the source"

    def _follower_left_out(self, event: Event) -> str:
        """Its renewals arrive, and count as long as the generation that it is in is the last one of the group's log."""
        followers = self._stage.followers()
        if not followers:
            return ""
        target, name, left = self._stage.target, followers[0].name, [_FAILS_OVER]
        over = asyncio.Event()

        async def between(handler: Handler, broker: Broker, request: Request) -> Any:
            if request.key != ApiKey.JOIN_GROUP or request.message.group_id != FLEET_GROUP:
                return await handler(broker, request)
            if request.session.peer.startswith(f"{name}:"):
                await over.wait()
            answer = await handler(broker, request)
            if left[0] and not answer.error_code and target.move_coordinator(FLEET_GROUP) is not None:
                left[0] -= 1
            return answer

        def end() -> None:
            target.between.remove(between)
            over.set()

        target.between.append(between)
        self._goes_on(_after(event.hold_s, end), f"{name} joins")
        self._apart(name, [], event.hold_s)
        return f"no gateway hears of {name}, no coordinator of its joins, and each is gone behind the others' joins"

    def _apart(self, name: str, brokers: Iterable[str], for_s: float) -> None:
        """A gateway and all others, and these brokers."""
        network = self._stage.loop.network
        others = [*brokers, *(gateway.name for gateway in self._stage.gateways if gateway.name != name)]
        pairs = [pair for each in others for pair in ((name, each), (each, name))]
        for pair in pairs:
            network.cut(*pair)

        def heal() -> None:
            for pair in pairs:
                network.heal(*pair)

        self._goes_on(_after(for_s, heal), f"heal {name}")

    def _goes_on(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """It may go on over the end of the operation."""
        loop = self._stage.loop
        self._later.append(loop.spawn(loop.lab, work, name))

    # -- the controller, and brokers that lag ------------------------------------------------------------------------

    def _side(self, event: Event) -> ClusterModel:
        return self._stage.source if round(event.hold_s * 100) % 2 else self._stage.target

    def _controller_slow(self, event: Event) -> str:
        """What it has been asked for it does at once, or when it answers."""
        cluster = self._side(event)

        async def between(handler: Handler, broker: Broker, request: Request) -> Any:
            if request.key not in _CHANGES:
                return await handler(broker, request)
            wait_s, first = self._dice.uniform(*_CHANGED_S), self._dice.random() < 0.5
            if first:
                await asyncio.sleep(wait_s)
            answer = await handler(broker, request)
            if not first:
                await asyncio.sleep(wait_s)
            return answer

        self._while(event, cluster, between)
        return f"{cluster.name}: the controller takes seconds for a change, for {event.hold_s:g} s at most"

    def _broker_answers_late(self, event: Event) -> str:
        """What it tells of configs and of log ends was so when it looked."""
        cluster, topic = self._side(event), self._topic()
        if topic not in cluster.topics:
            return ""
        late = cluster.partition(topic, 0).leader_id

        async def between(handler: Handler, broker: Broker, request: Request) -> Any:
            answer = await handler(broker, request)
            if broker.id == late and request.key in (ApiKey.DESCRIBE_CONFIGS, ApiKey.LIST_OFFSETS):
                await asyncio.sleep(self._dice.uniform(*_LOOKED_S))
            return answer

        self._while(event, cluster, between)
        return f"{cluster.name}-{late} tells of configs and log ends late, for {event.hold_s:g} s at most"

    def _configs_heard_late(self, event: Event) -> str:
        """It describes, checks and stamps by the configs of before."""
        cluster = self._side(event)
        broker = cluster.brokers[1 + round(event.hold_s * 10) % len(cluster.brokers)]
        if broker.late_configs:
            return ""
        broker.late_configs = True
        self._stage.soon(self._undone(event, lambda: cluster.controller.tell_configs(broker)), str(event.kind))
        return f"{broker.host} hears of no topic's configs for {event.hold_s:g} s at most"

    def _topic(self) -> str:
        act = self._stage.act()
        return act.topics[0] if act is not None and act.topics else PLAIN[0]

    # -- quotas ----------------------------------------------------------------------------------------------------

    def _quota_mutes(self, event: Event) -> str:
        """Of what gateways send: their principal has a quota, and is beyond it, of writes, of reads, or of both."""
        cluster = self._side(event)
        keys = _LIMITED[round(event.hold_s * 100) // 2 % len(_LIMITED)]
        most_ms = max(_MUTED_MS[1], int(event.hold_s * _MUTED_PART * 1000))

        async def between(handler: Handler, broker: Broker, request: Request) -> Any:
            answer = await handler(broker, request)
            ours = request.session.peer.startswith(self._stage.fleet_name)
            if ours and request.key in keys:
                muted_ms = self._dice.randint(_MUTED_MS[0], most_ms)
                request.session.muted_s = muted_ms / 1000
                answer = throttled(request, answer, muted_ms)
            return answer

        cluster.between.append(between)
        self._goes_on(_after(event.hold_s, lambda: cluster.between.remove(between)), "quotas end")
        return f"{cluster.name}: gateways are beyond their quotas for {event.hold_s:g} s"


def throttled(request: Request, answer: Any, throttle_ms: int) -> Any:
    """The answer with this `throttle_time_ms`: the first field of a Fetch's, the last one of a Produce's."""
    if answer is None or (request.key == ApiKey.PRODUCE and request.version == 0):
        return answer
    if not isinstance(answer, bytes):
        answer.throttle_time_ms = throttle_ms
        return answer
    at = len(answer) - INT32.size - is_flexible(request.key, request.version) if request.key == ApiKey.PRODUCE else 0
    return answer[:at] + INT32.pack(throttle_ms) + answer[at + INT32.size :]


def _refused(request: Request, group: str) -> Any:
    """What a member of the group is answered; None for whoever asks something else."""
    if request.key == ApiKey.DESCRIBE_GROUPS and group in request.message.groups:
        kind = DescribeGroupsResponse.DescribedGroup
        return DescribeGroupsResponse(
            groups=[kind(group_id=each, error_code=_UNKNOWN) for each in request.message.groups]
        )
    if request.key not in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT):
        return None
    if request.message.group_id != group:
        return None
    if request.key == ApiKey.HEARTBEAT:
        return HeartbeatResponse(error_code=_UNKNOWN)
    if request.key == ApiKey.SYNC_GROUP:
        return SyncGroupResponse(error_code=_UNKNOWN, assignment=b"")
    name = None if request.version >= 7 else ""
    return JoinGroupResponse(
        error_code=_UNKNOWN, generation_id=-1, protocol_name=name, leader="", member_id="", members=[]
    )


async def _after(seconds: float, work: Callable[[], object]) -> None:
    await asyncio.sleep(seconds)
    work()
