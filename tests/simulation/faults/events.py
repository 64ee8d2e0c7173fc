"""What happens beside operations and is nobody's fault, or nobody's of the fleet: see `plan.EventKind`.

As a fault, an event strikes in the middle of whatever runs, and what it has begun comes to its end before the next
operation begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from gateway.kafka.cluster import Cluster, NetError
from gateway.kafka.connection.config import ClusterConfig
from gateway.mirror.offset_map.topic import map_topic
from protocol.messages import OffsetFetchRequest
from tests.simulation.clients import GroupMember, Producer
from tests.simulation.clients.client import addresses
from tests.simulation.clients.sender import Sender
from tests.simulation.faults.call_off_events import CallOffEvents
from tests.simulation.faults.carried_events import CarriedEvents
from tests.simulation.faults.cluster_events import ClusterEvents
from tests.simulation.faults.faults import started
from tests.simulation.faults.ground_events import GroundEvents
from tests.simulation.faults.late_ends import LateEnds
from tests.simulation.faults.late_identities import LateIdentities
from tests.simulation.faults.many_producers import ManyProducers
from tests.simulation.faults.network_events import NetworkEvents, woken
from tests.simulation.faults.owner_events import OwnerEvents
from tests.simulation.faults.stage import Stage
from tests.simulation.fleet.gateway_node import GatewayNode, NotServing
from tests.simulation.kafka.broker import Broker
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kafka.groups.group_offsets import CommittedOffset
from tests.simulation.kafka.logs.retention import retention_start
from tests.simulation.operations.operator import LINK
from tests.simulation.plan import GROUP, PLAIN, SET, TOPICS, Event, EventKind
from tests.simulation.plan.roles import TABLE, WEAK
from tests.simulation.recorder import SOURCE, TARGET, Recorder

EARLY: Final = "early"
"""A group that reads the first topic of the set, on the source, and has asked a gateway before it was mirrored."""
_AHEAD_MS: Final = 16 * 60 * 1000
_WRITES_S: Final = 1.0
_ASK_S: Final = 40.0
_LOST: Final = 3
_WAIT_S: Final = 0.05
_KILLS: Final = 4
_STAYS: Final = 3


class Events:
    """Strikes.

    Attributes:
        early: the member of the group EARLY, in a run that has it.
        replaced: topic -> its id, of those that somebody has put in a copy's place.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._numbers = iter(range(1_000_000))
        self.early: GroupMember | None = None
        self.replaced: dict[str, UUID] = {}
        self._later: list[asyncio.Task[None]] = []
        self._beside: list[Producer] = []  # write to the source, and do not use the gateways
        self._call_offs = CallOffEvents(stage)
        self._do: Mapping[EventKind, Callable[[Event], str]] = {
            **NetworkEvents(stage).table,
            **LateEnds(stage).table,
            **LateIdentities(stage).table,
            **GroundEvents(stage).table,
            **ClusterEvents(stage).table,
            **CarriedEvents(stage).table,
            **ManyProducers(stage).table,
            **OwnerEvents(stage).table,
            **self._call_offs.table,
            EventKind.GROUP_ASKS: self._group_asks,
            EventKind.PRODUCER_EARLY: self._producer_early,
            EventKind.FAILOVER_ASKED: self._failover_asked,
            EventKind.MEMBER_ON_SOURCE: self._member_on_source,
            EventKind.FIRST_REQUEST: self._first_request,
            EventKind.NAME_TAKEN: self._name_taken,
            EventKind.MAP_UNKNOWN: self._map_unknown,
            EventKind.SOURCE_HEARS_LATE: self._source_hears_late,
            EventKind.KILLED_OFTEN: self._killed_often,
            EventKind.TARGET_LOSES: self._target_loses,
            EventKind.SOURCE_REWRITTEN: self._source_rewritten,
            EventKind.PROMOTE_ASKED: self._promote_asked,
            EventKind.REVERSE_ASKED: self._reverse_asked,
            EventKind.PARTITIONS_ADDED: self._partitions_added,
            EventKind.TARGET_BROKER_PAUSED: self._target_broker_paused,
            EventKind.CLOCKS_AHEAD: self._clocks_ahead,
            EventKind.COPY_REPLACED: self._copy_replaced,
            EventKind.COMPACTED: self._compacted,
            EventKind.RECORDS_DELETED: self._records_deleted,
            EventKind.RETAINED: self._retained,
            EventKind.SOURCE_BROKER_PAUSED: self._source_broker_paused,
            EventKind.SOURCE_BROKER_CUT_OFF: self._source_broker_cut_off,
            EventKind.COMMITTED_ELSEWHERE: self._committed_elsewhere,
            EventKind.ACLS_CHANGED: self._acls_changed,
            EventKind.ACLS_REFUSED: self._acls_refused,
            EventKind.CONFIGS_CHANGED: self._configs_changed,
            EventKind.WRITER_STAYS: self._writer_stays,
        }

    def strike(self, event: Event) -> str:
        """Do it now. Returns what happens, '' when there is nobody to whom it could."""
        return self._do[event.kind](event)

    async def before_promote(self) -> None:
        """What is seen to before somebody asks for a promote."""
        await self._call_offs.over()
        await self.writers_beside_gone()

    async def writers_beside_gone(self) -> None:
        """Nobody writes to the source beside the gateways any more: who promotes sees to that.

        No gateway can hold such a writer. A promote finds one that writes under the write pause, which may be short.
        """
        for producer in self._beside:
            await producer.stop()

    def members(self) -> list[GroupMember]:
        """Those that read to the end of the run."""
        return [] if self.early is None or self.early.side == SOURCE else [self.early]

    async def created(self, topic: str) -> None:
        """A topic is mirrored: its reader comes to the gateways."""
        if self.early is not None and topic == SET[0]:
            await self.early.restart(self._stage.gateway_bootstrap, TARGET)

    # -- groups ----------------------------------------------------------------------------------------------------

    def _group_asks(self, event: Event) -> str:
        for gateway in self._stage.gateways:
            if gateway.serves:
                self._stage.soon(self._ask_offsets(gateway.bootstrap), f"ask {gateway.name} for {EARLY}")
        return f"group {EARLY} asks gateways for its offsets"

    async def _ask_offsets(self, where: str) -> None:
        """As a tool does, that describes a group."""
        stage = self._stage
        config = ClusterConfig(bootstrap=addresses(where), client_id="tool", request_timeout_s=5.0)
        cluster = Cluster(config, rng=stage.loop.random("tool").random)
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=EARLY, topics=None)
        try:
            await cluster.start()
            node = await cluster.coordinator(EARLY)
            connection = await cluster.connection(node, "tool", 5.0)
            request = OffsetFetchRequest(group_id=EARLY, topics=None, groups=[group], require_stable=False)
            await connection.request(request, cap=8, timeout_s=5.0)
        except (NetError, OSError, TimeoutError):
            pass  # the gateway has heard it
        finally:
            await cluster.close()

    def _member_on_source(self, event: Event) -> str:
        member = self._stage.member(f"visitor-{next(self._numbers)}", self._stage.source.bootstrap, SOURCE)
        self._stage.soon(self._visit(member, event.hold_s), member.name)
        return f"{member.name} reads on the source for {event.hold_s:g} s"

    def _committed_elsewhere(self, event: Event) -> str:
        source = self._stage.source
        at = source.log_range(SET[0], 0)[2]
        source.groups.offsets.commit(GROUP, {(SET[0], 0): CommittedOffset(at, -1, "from before")})
        return f"group {GROUP} has committed {at} for {SET[0]} on the source"

    def _acls_changed(self, event: Event) -> str:
        rights, act = self._stage.rights, self._stage.act()
        return "" if rights is None or act is None else rights.change(act.topics or PLAIN)

    def _acls_refused(self, event: Event) -> str:
        rights = self._stage.rights
        return "" if rights is None else rights.refuse(event.hold_s)

    def _configs_changed(self, event: Event) -> str:
        """Not while they are still to be set back: a change of then may be undone, and nobody could say whose fault."""
        act = self._stage.act()
        topic = act.topics[0] if act is not None and act.topics else PLAIN[0]
        written, _ = self._written(topic)
        if written is None:
            return ""
        minutes = 600 + next(self._numbers)
        changes = {"retention.ms": str(minutes * 60_000), "max.message.bytes": str(3_000_000 + minutes)}
        written.alter_topic(topic, changes)
        self._stage.configured(topic, changes)
        return f"{topic} gets {changes} on the {written.name}, where it is written"

    def _writer_stays(self, event: Event) -> str:
        """Nobody is to miss what it writes."""
        stage, act = self._stage, self._stage.act()
        topic = act.topics[0] if act is not None and act.topics else PLAIN[0]
        nobody, topics = Recorder(stage.loop.time), {topic: 1}
        producer = Exactly(stage.loop, "forgotten", stage.source.bootstrap, topics, nobody, side=SOURCE)
        producer.count = _STAYS
        stage.judge.nobodys(producer.name)
        stage.soon(_writes(producer), producer.name)
        return f"{producer.name} writes {_STAYS} records to {topic}/0 on the source"

    def _first_request(self, event: Event) -> str:
        where = ",".join(gateway.bootstrap for gateway in self._stage.followers())
        if not where:
            return ""
        member = self._stage.member(f"visitor-{next(self._numbers)}", where, TARGET)
        self._stage.soon(self._visit(member, event.hold_s), member.name)
        return f"{member.name} comes to {where} for {event.hold_s:g} s"

    @staticmethod
    async def _visit(member: GroupMember, for_s: float) -> None:
        member.start()
        await asyncio.sleep(for_s)
        await member.stop()

    def _producer_early(self, event: Event) -> str:
        where = self._stage.gateway_bootstrap
        self._stage.begin(self._stage.producer("early-writer", PLAIN[0], TOPICS[PLAIN[0]], where, TARGET))
        return f"a producer of {PLAIN[0]} comes to the gateways"

    # -- clusters and gateways -------------------------------------------------------------------------------------

    def _target_broker_paused(self, event: Event) -> str:
        target, act = self._stage.target, self._stage.act()
        topic = act.topics[0] if act is not None and act.topics else PLAIN[0]
        if topic not in target.topic_names() or len(self._stage.living(target)) < len(target.brokers):
            return ""
        broker = target.partition(topic, 0).leader_id
        target.pause_broker(broker)
        loop = self._stage.loop  # it may go on over the end of the operation
        self._later.append(loop.spawn(loop.lab, woken(target, broker, event.hold_s), f"wake target-{broker}"))
        return f"target-{broker}, which leads {topic}/0, is stopped for {event.hold_s:g} s"

    def _copy_replaced(self, event: Event) -> str:
        target, act = self._stage.target, self._stage.act()
        topic = act.topics[0] if act is not None and act.topics else PLAIN[0]
        if topic not in target.topic_names():
            return ""
        count = len(target.topics[topic].partitions)
        target.delete_topic(topic)
        self.replaced[topic] = target.create_topic(topic, count, 3).id
        return f"somebody deletes {topic} on the target, and creates another one of its name"

    def _source_broker_paused(self, event: Event) -> str:
        source = self._stage.source
        if len(self._stage.living(source)) < len(source.brokers):
            return ""
        broker = 1 + int(event.hold_s * 100) % len(source.brokers)
        source.pause_broker(broker)
        self._stage.soon(woken(source, broker, event.hold_s), f"wake source-{broker}")
        return f"source-{broker} is stopped for {event.hold_s:g} s"

    def _source_broker_cut_off(self, event: Event) -> str:
        """The one that leads the operation's topic. Not where it leads one that is written with less than acks=all: it
        would go on to acknowledge what is lost."""
        source, act = self._stage.source, self._stage.act()
        topic = next((each for each in (() if act is None else act.topics) if each in source.topics), PLAIN[0])
        if topic not in source.topics or len(self._stage.living(source)) < len(source.brokers):
            return ""
        broker = source.partition(topic, 0).leader_id
        weak = source.topics.get(WEAK)
        if weak is not None and any(partition.leader_id == broker for partition in weak.partitions):
            return ""
        source.cut_broker_off(broker)
        loop = self._stage.loop  # it may go on over the end of the operation
        self._later.append(loop.spawn(loop.lab, _rejoined(source, broker, event.hold_s), f"rejoin source-{broker}"))
        return (
            f"source-{broker}, which leads {topic}/0, has lost its cluster, and not its clients, for {event.hold_s:g} s"
        )

    def _compacted(self, event: Event) -> str:
        clusters = [one for one in (self._stage.source, self._stage.target) if TABLE in one.topic_names()]
        for cluster in clusters:
            cluster.compact(TABLE)
        return f"{TABLE} is compacted" if clusters else ""

    def _records_deleted(self, event: Event) -> str:
        """Only where it is written, and what the other cluster has: so nothing is lost."""
        written, copied = self._written(WEAK)
        if written is None or copied is None:
            return ""
        before = min(copied.log_range(WEAK, 0)[2], written.log_range(WEAK, 0)[2]) // 2
        gone = written.records(WEAK, 0)
        error, _ = written.partition(WEAK, 0).delete_records(before)
        self._stage.deleted(WEAK, gone)
        return "" if error else f"{WEAK} begins at {before} on the {written.name}"

    def _retained(self, event: Event) -> str:
        """As `_records_deleted`; of what was not mirrored nothing is old enough."""
        written, copied = self._written(WEAK)
        if written is None or copied is None:
            return ""
        partition = written.partition(WEAK, 0)
        leader = partition.leader
        if leader is None:
            return ""
        log, now_ms = leader.log, written.wall_ms(written.brokers[leader.broker_id].host)
        if copied.log_range(WEAK, 0)[2] < retention_start(log, partition.topic.settings, now_ms):
            return ""
        before, gone = log.start, written.records(WEAK, 0)
        written.retain(WEAK)
        self._stage.deleted(WEAK, gone)
        return f"retention: {WEAK} begins at {log.start} on the {written.name}, not at {before}"

    def _written(self, topic: str) -> tuple[ClusterModel | None, ClusterModel | None]:
        """The cluster on which a topic is written, and the one to which it is mirrored."""
        clusters = {SOURCE: self._stage.source, TARGET: self._stage.target}
        side = self._stage.written_on(topic)
        if side is None or any(topic not in cluster.topic_names() for cluster in clusters.values()):
            return None, None
        return clusters[side], clusters[TARGET if side == SOURCE else SOURCE]

    def _partitions_added(self, event: Event) -> str:
        source, topic, count = self._stage.source, PLAIN[0], TOPICS[PLAIN[0]]
        if len(source.topics[topic].partitions) != count:
            return ""
        source.add_partitions(source.topics[topic], count + 1)
        producer = self._stage.producer("adder", topic, count + 1)
        producer.keys = [(topic, count)]
        self._beside.append(producer)
        self._stage.soon(_writes(producer), producer.name)
        return f"{topic} has {count + 1} partitions on the source, and the new one is written for {_WRITES_S:g} s"

    def _map_unknown(self, event: Event) -> str:
        target, topic = self._stage.target, map_topic(LINK)
        for broker in target.brokers.values():
            broker.lacks.add(topic)
        target.changes += 1
        self._stage.soon(self._map_known(topic, event.hold_s), "brokers know the map")
        return f"the target's brokers do not know of {topic} for {event.hold_s:g} s, its controller does"

    async def _map_known(self, topic: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        for broker in self._stage.target.brokers.values():
            broker.lacks.discard(topic)
        self._stage.target.changes += 1

    def _source_hears_late(self, event: Event) -> str:
        source, topic = self._stage.source, PLAIN[0]
        if topic not in source.topics:
            return ""
        late = [one for one in source.brokers.values() if one.id != source.partition(topic, 0).leader_id]
        for broker in late:
            broker.heard = dict(source.topics)
        self._stage.soon(self._heard(late, event.hold_s), "brokers hear of topics")
        names = " ".join(broker.host for broker in late)
        return f"{names} hear of no topic that is created or deleted for {event.hold_s:g} s"

    async def _heard(self, late: list[Broker], after_s: float) -> None:
        await asyncio.sleep(after_s)
        for broker in late:
            broker.heard = None
        self._stage.source.changes += 1

    def _killed_often(self, event: Event) -> str:
        followers, leader = self._stage.followers(), self._stage.leader()
        gateway = leader if int(event.hold_s * 100) % 2 or not followers else followers[0]
        if gateway is None:
            return ""
        gateway.kill()
        self._stage.soon(self._kill_again(gateway, event.hold_s / _KILLS), f"kill {gateway.name} again")
        return f"{gateway.name} is killed {_KILLS} times in {event.hold_s:g} s, and started again"

    async def _kill_again(self, gateway: GatewayNode, each_s: float) -> None:
        for _ in range(_KILLS - 1):
            if not gateway.runs:
                with suppress(NotServing, TimeoutError):
                    async with asyncio.timeout(each_s):
                        await gateway.start()
                        await asyncio.sleep(each_s)
                gateway.kill()
        if not gateway.runs:
            await started(self._stage, gateway)

    def _target_loses(self, event: Event) -> str:
        target, topic = self._stage.target, PLAIN[0]
        broker = target.partition(topic, 0).leader_id
        if broker not in self._stage.living(target):
            return ""
        target.kill_broker(broker)  # one that lives on would tell of what it has, until it heard of the next one
        target.move_leader(topic, 0, lose=_LOST)
        self._stage.soon(_started(target, broker, event.hold_s), f"start target-{broker}")
        return f"target-{broker}, which leads {topic}/0, dies, the next one lacks {_LOST} records"

    def _source_rewritten(self, event: Event) -> str:
        stage, topic = self._stage, PLAIN[0]
        end = stage.source.log_range(topic, 0)[1]
        stage.source.move_leader(topic, 0, lose=_LOST)
        kept = stage.source.log_range(topic, 0)[1]
        # Nobody is to miss what this one writes: it has a history of its own.
        nobody = Recorder(stage.loop.time)
        at, topics = stage.source.bootstrap, {topic: 1}
        producer = Exactly(stage.loop, "rewriter", at, topics, nobody, side=SOURCE)
        producer.count = end - kept
        stage.soon(_writes(producer), producer.name)
        return f"the source's leader of {topic}/0 dies, the next one ends at {kept}; others are written up to {end}"

    def _reverse_asked(self, event: Event) -> str:
        body = {"mirror_topic_names": [PLAIN[0]]}
        self._stage.soon(self._ask(f"/v3/links/{LINK}/mirrors:reverse-and-start-mirror", body), "reverse")
        return f"{PLAIN[0]} is to be mirrored back"

    def _promote_asked(self, event: Event) -> str:
        leader = self._stage.leader()
        if leader is None:
            return ""
        self._stage.soon(self._ask_promote(leader), "promote")
        return f"{leader.name} is asked to promote {PLAIN[0]}"

    @staticmethod
    async def _ask_promote(leader: GatewayNode) -> None:
        """In the direction in which it is mirrored: a promote goes no other way."""
        path = f"/v3/links/{LINK}/mirrors"
        with suppress(NotServing):
            _, mirror = await leader.api.request("GET", f"{path}/{PLAIN[0]}", None, _ASK_S)
            direction = mirror.get("mirror_direction", "FORWARD")
            body = {"mirror_topic_names": [PLAIN[0]], "mirror_direction": direction, "force": True}
            await leader.api.request("POST", f"{path}:promote", body, _ASK_S)

    def _clocks_ahead(self, event: Event) -> str:
        for gateway in self._stage.followers():
            gateway.jump_clock(_AHEAD_MS)
        return "gateways that follow are 16 min ahead"

    def _failover_asked(self, event: Event) -> str:
        topic = PLAIN[0]
        body = {"mirror_topic_names": [topic]}
        path = f"/v3/links/{LINK}/mirrors:failover"
        self._stage.soon(self._ask(path, body), "failover")
        return f"{topic} is to be failed over"

    async def _ask(self, path: str, body: Any) -> None:
        await self._stage.operator.say("POST", path, body)

    def _name_taken(self, event: Event) -> str:
        followers = self._stage.followers()
        if not followers:
            return ""
        old = followers[0]
        fleet = {"name": old.name, "lease_s": old.settings.fleet.lease_s}
        twin = GatewayNode(self._stage.loop, f"{old.name}-twin", self._stage.target.bootstrap, {"fleet": fleet})
        loop = self._stage.loop  # it may go on over the end of the operation
        self._later.append(loop.spawn(loop.lab, self._take_name(old, twin, event.hold_s), twin.name))
        return f"{old.name} is cut off from the target, and {twin.name} takes its name"

    async def _take_name(self, old: GatewayNode, twin: GatewayNode, for_s: float) -> None:
        network, targets = self._stage.loop.network, [n for n in self._stage.loop.nodes if n.startswith("target-")]
        for name in targets:
            network.cut(name, old.name)
        try:
            await twin.start()
            self._stage.gateways.append(twin)
            await asyncio.sleep(for_s)
        except NotServing:
            pass
        if twin in self._stage.gateways:
            self._stage.gateways.remove(twin)
        await twin.stop()
        for name in targets:
            network.heal(name, old.name)
        old.kill()
        await old.start()


class Exactly(Producer):
    """Sends so many records, one in a batch."""

    count = 0

    async def _send_all(self, sender: Sender) -> None:
        for _ in range(self.count):
            sender.send(self._batch_of(self.keys[0], 1))
        await sender.flushed()


async def _rejoined(cluster: ClusterModel, broker: int, after_s: float) -> None:
    await asyncio.sleep(after_s)
    cluster.rejoin_broker(broker)


async def _started(cluster: ClusterModel, broker: int, after_s: float) -> None:
    await asyncio.sleep(after_s)
    await cluster.start_broker(broker)


async def _writes(producer: Producer) -> None:
    producer.start()
    await asyncio.sleep(_WRITES_S)
    await producer.stop()
