"""What an audit compares: decided once, from what both clusters say when it begins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.jobs.audit import asked_periods
from gateway.jobs.audit.asked import AuditScope, LogState, PartitionFacts, ask, partitions
from gateway.jobs.audit.clusters import AuditCluster, Offsets
from gateway.jobs.audit.pieces import AuditPiece
from gateway.jobs.audit.relation import Relation
from gateway.jobs.audit.report import ClusterFacts
from gateway.jobs.audit.schema_ids import IdTranslation
from gateway.jobs.errors import JobFailed
from gateway.jobs.kafka import Loop
from gateway.jobs.period_maps import PeriodMapReader
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.state.records import MirrorRecord
from protocol.errors import ProtocolError

Maps = Mapping[TopicPartition, tuple[OffsetMap, ...] | str]

_POLL_S: Final = 0.5
BYTES_PER_TASK: Final = 128 * 1024 * 1024
"""Of a log: enough to make a task's start cheap, little enough to show how far the audit is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What to audit.

    Attributes:
        source, target: Kafka client properties.
        names: topic -> its name on the target; those that are not in it have the same name there.
        link, records: of a gateway's mirrors, by source topic; each topic has a record then.
        records_now: asks the gateway for the records again, at the end. Raises JobFailed when it does not tell.
        given: an offset map instead: by source topic and partition. A partition that is not in it cannot be compared.
        fraction: of the offsets of each partition to compare, above 0 up to 1.
        seed: draws the sample.
        provenance: from where each topic's records are, for the report (`LinkPlan.provenance`).
        sources: of every link there ever was, by its tag, for the report (`LinkPlan.sources`).
        ids_now: asks the gateway for the link's id map (`LinkPlan.ids`, `same_ids`), where schema ids are written
            anew. Raises JobFailed likewise.
        wait_s: how long the copy may take to come to the other side's end of when the audit began.
    """

    source: Mapping[str, str]
    target: Mapping[str, str]
    topics: Sequence[str]
    names: Mapping[str, str] = field(default_factory=dict)
    link: str = ""
    records: Mapping[str, MirrorRecord] = field(default_factory=dict)
    records_now: Callable[[], Mapping[str, MirrorRecord]] | None = None
    given: Mapping[TopicPartition, Relation | str] | None = None
    fraction: float = 1.0
    seed: int = 0
    wait_s: float = 60.0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[int, str] = field(default_factory=dict)
    ids_now: Callable[[], tuple[Mapping[int, int], Mapping[int, int]]] | None = None

    def translations(self) -> dict[str, IdTranslation]:
        """By source topic, of those whose schema ids are written anew; asked for after the ends of the copies.

        Raises:
            JobFailed: there is such a topic, and the gateway does not tell.
            ValueError: there is nobody to ask.
        """
        places = {topic: record.translates_ids for topic, record in self.records.items() if record.translates_ids}
        if not places:
            return {}
        if self.ids_now is None:
            raise ValueError(f"topic '{min(places)}': its schema ids are written anew, and the id map is not known")
        ids, same = self.ids_now()
        return {topic: IdTranslation(ids=ids, same=same, places=where) for topic, where in places.items()}


@dataclass(slots=True)
class AuditInput:
    """What both clusters said when the audit began. `bytes`: of the source's logs. `sizes`: of each. `began_ms`: then.
    `ids`: of the topics, on the source and on the target."""

    source: ClusterFacts
    target: ClusterFacts
    asked: list[AuditScope]
    sizes: Mapping[TopicPartition, int]
    began_ms: int
    ids: tuple[Mapping[str, str], Mapping[str, str]]

    @property
    def bytes(self) -> int:
        """Size of the source's logs, 0 when it was not told."""
        return sum(self.sizes.values())

    def pieces(self, options: AuditOptions, slots: int) -> dict[TopicPartition, list[AuditPiece]]:
        """What to compare: for `slots` tasks at a time at least, and none of them too large."""
        total = sum(one.source.size + one.target.size for one in self.asked) or 1
        found = {}
        for one in self.asked:
            key = (one.topic, one.partition)
            share = slots * (one.source.size + one.target.size) / total
            parts = max(1, round(share), -(-self.sizes.get(key, 0) // BYTES_PER_TASK))
            found[key] = one.pieces(parts, options.fraction, options.seed)
        return found


def prepare(options: AuditOptions, say: Callable[[str], None] = lambda _: None) -> AuditInput:
    """Ask both clusters for their logs, wait for the copy, and decide what to compare.

    Raises:
        ValueError: a topic that a cluster does not have.
        NetError: a cluster does not answer.
    """
    with Loop() as loop:
        source = AuditCluster(loop.connect(options.source), options.topics)
        target = AuditCluster(loop.connect(options.target), options.topics, options.names)
        maps = PeriodMapReader(source.cluster, target.cluster, options.link)
        loop.on_close(maps.close)
        facts, sizes, began_ms = loop.run(_Gathering(options, source, target, maps, say).run())
        clusters = [
            ClusterFacts(side.cluster.view.cluster_id, properties["bootstrap.servers"], len(side.cluster.view.brokers))
            for side, properties in ((source, options.source), (target, options.target))
        ]
    asked = [ask(one) for one in facts]
    return AuditInput(clusters[0], clusters[1], asked, sizes, began_ms, (source.ids, target.ids))


def changed(scene: AuditInput, options: AuditOptions) -> dict[str, str]:
    """Topics that are not what they were when the audit began, or of which that is not known, and why.

    Hours of comparing lie behind: who gives no answer now makes it INCOMPLETE, and takes nothing of the report.
    """
    return {
        **_anew("source", options.source, {}, scene.ids[0]),
        **_anew("target", options.target, options.names, scene.ids[1]),
        **_mirrors_changed(options),
    }


def _anew(
    which: str, properties: Mapping[str, str], names: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str]:
    try:
        with Loop() as loop:
            side = AuditCluster(loop.connect(properties), list(before), names)
            loop.run(side.find())
    except (NetError, ProtocolError, OSError, ValueError) as exc:
        return dict.fromkeys(before, f"whether the topic on the {which} is still the same is not known: {exc}")
    found = {}
    for topic, known in before.items():
        if topic not in side.ids:
            found[topic] = f"the topic on the {which} was deleted while it was compared, or may not be read any more"
        elif side.ids[topic] != known:
            found[topic] = f"the topic on the {which} was created anew while it was compared"
    return found


def _mirrors_changed(options: AuditOptions) -> dict[str, str]:
    if options.records_now is None:
        return {}
    try:
        now = options.records_now()
    except JobFailed as exc:
        return dict.fromkeys(options.records, f"whether the mirror is still what it was is not known: {exc}")
    found = {}
    for topic, record in options.records.items():
        if topic not in now:
            found[topic] = "the mirror was deleted while it was compared"
        elif _sides(now[topic]) != _sides(record):
            found[topic] = "the mirror changed sides, mode or partitions while it was compared"
    return found


def _sides(record: MirrorRecord) -> tuple[object, ...]:
    live = asked_periods.is_live(record)
    return record.mirror_id, record.mode, record.failback.direction, record.failback.epoch, live, len(record.starts)


class _Gathering:
    """One gathering of facts. A copy's end is asked for before the other side's, and again once it should be level."""

    def __init__(
        self,
        options: AuditOptions,
        source: AuditCluster,
        target: AuditCluster,
        maps: PeriodMapReader,
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._source = source
        self._target = target
        self._maps = maps
        self._say = say
        self._said = False

    async def run(self) -> tuple[list[PartitionFacts], Mapping[TopicPartition, int], int]:
        """Facts of all partitions, the sizes of the source's logs, and when it began (ms since the epoch)."""
        source, target = self._source, self._target
        await source.look()
        await target.look()
        began_ms = time.time_ns() // 1_000_000
        here_before, there, here = await source.ends(), await target.ends(), await source.ends()
        there_before = dict(there)
        policies = await source.policies(self._lifted(reverse=True)), await target.policies(self._lifted(reverse=False))
        self._say_tiered()
        maps = await self._level(here, there)
        starts = await source.starts(), await target.starts()  # last: a log start is never beyond the end that is used
        facts = []
        for topic in self._options.topics:
            record = self._options.records.get(topic)
            for index in partitions(record, (*source.partitions[topic], *target.partitions[topic])):
                key = (topic, index)
                facts.append(
                    PartitionFacts(
                        topic=topic,
                        target_topic=target.name(topic),
                        partition=index,
                        source=_state(key, index in source.partitions[topic], starts[0], here, here_before),
                        target=_state(key, index in target.partitions[topic], starts[1], there, there_before),
                        source_policy=policies[0].get(key),
                        target_policy=policies[1].get(key),
                        record=record,
                        maps=maps.get(key, ()),
                        given=(self._options.given or {}).get(key),
                        is_mapped=self._options.given is not None,
                        source_id=source.ids[topic],
                        target_id=target.ids[topic],
                        problem=self._silent(key),
                    )
                )
        return facts, await source.sizes(), began_ms

    def _lifted(self, *, reverse: bool) -> dict[str, Mapping[str, str]]:
        """The configs that the copies on one side do not have now."""
        records = self._options.records.items()
        return {topic: record.restore_configs for topic, record in records if record.is_reverse == reverse}

    def _is_reverse(self, topic: str) -> bool:
        record = self._options.records.get(topic)
        return record is not None and record.is_reverse

    def _say_tiered(self) -> None:
        for name, side in (("source", self._source), ("target", self._target)):
            if side.tiered:
                self._say(
                    f"tiered storage on the {name}: {', '.join(side.tiered)}; what a broker "
                    "does not send in time is INCOMPLETE, not empty"
                )

    async def _level(self, here: Offsets, there: Offsets) -> Maps:
        """Wait until every copy has what the other side had, or until the time is up. Moves the copies' ends on.

        Returns:
            The maps up to the copies' ends.
        """
        options = self._options
        deadline = time.monotonic() + options.wait_s
        while True:
            copies = {key: here[key] if self._is_reverse(key[0]) else end for key, end in there.items() if key in here}
            maps = await self._maps.read(options.records, copies)
            behind = {key for key in copies if self._is_behind(key, maps, here, there)}
            if not behind or time.monotonic() >= deadline:
                return maps
            if not self._said:
                self._say(f"{len(behind)} partition(s) of the copy are behind: waiting up to {options.wait_s:g} s")
                self._said = True
            await asyncio.sleep(_POLL_S)
            here |= await self._source.ends({key for key in behind if self._is_reverse(key[0])})
            there |= await self._target.ends({key for key in behind if not self._is_reverse(key[0])})

    def _is_behind(self, key: TopicPartition, maps: Maps, here: Offsets, there: Offsets) -> bool:
        topic = key[0]
        record = self._options.records.get(topic)
        if record is not None and not asked_periods.is_live(record):
            return False
        read = maps.get(key) or ()
        if isinstance(read, str):
            return False
        if read:
            return read[-1].read_to < (there if self._is_reverse(topic) else here)[key]
        given = (self._options.given or {}).get(key)
        if isinstance(given, Relation):
            return there[key] < min(given.end.target, given.cut(here[key]).target)
        return here[key] < there[key] if self._is_reverse(topic) else there[key] < here[key]

    def _silent(self, key: TopicPartition) -> str:
        """Why a partition cannot be compared that is there."""
        silent = self._source.silent.get(key) or self._target.silent.get(key)
        return f"it gives no answer: {silent}" if silent else ""


def _state(key: TopicPartition, exists: bool, starts: Offsets, ends: Offsets, before: Offsets) -> LogState | None:
    if not exists or key not in starts or key not in ends:
        return None
    return LogState(min(starts[key], ends[key]), ends[key], before.get(key, ends[key]))
