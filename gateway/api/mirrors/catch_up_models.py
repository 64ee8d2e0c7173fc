"""Bodies of /v3/links/{link}/catch-up and /v3/links/{link}/job-plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.mirrors.mirror_models import UpstreamData
from gateway.api.models import Body
from gateway.mirror.rules.period import period_of
from gateway.operations.secrets.rules.references import shown
from gateway.state import link_config
from gateway.state.link_config import Offsets, OnRecordsDeleted
from gateway.state.records import MirrorDirection, MirrorRecord, PartitionStart
from gateway.topics.catch_up import CatchUp, JobPlan, JobState
from gateway.version import VERSION


class ClusterData(BaseModel):
    """How to reach a cluster; the secrets of `client` are hidden."""

    cluster_id: str
    client: dict[str, str]


class StartData(BaseModel):
    """Where one partition's mirror begins: the first offset to show, and the base offset of the batch that holds it."""

    source_start: int
    pad_to: int

    @classmethod
    def of(cls, start: PartitionStart) -> StartData:
        """From the record."""
        return cls(source_start=start.source_start, pad_to=start.pad_to)


class CutoverData(BaseModel):
    """A change of sides: where each partition's log ended on the source, and on the target."""

    source: list[int]
    target: list[int]


class MirrorHistory(BaseModel):
    """The ways that a mirror topic has gone, as its record tells (`state/records.py`)."""

    direction: str
    failback_epoch: int
    source_topic_id: str
    mirror_topic_id: str
    stopped_at: list[int]
    stopped_copy_at: list[int]
    handed_over_at: list[int]
    handed_over_from: list[int]
    cutovers: list[CutoverData]
    reverse_starts: list[StartData]
    not_mirrored: list[int]
    restore_configs: dict[str, str]
    upstream: list[UpstreamData] = Field(default_factory=list)
    translates_ids: list[str] = Field(default_factory=list)

    @classmethod
    def of(cls, record: MirrorRecord) -> MirrorHistory:
        """From the record."""
        return cls(
            direction=record.failback.direction.value,
            failback_epoch=record.failback.epoch,
            source_topic_id=record.source_topic_id,
            mirror_topic_id=record.mirror_topic_id,
            stopped_at=list(record.cutover.stopped_at),
            stopped_copy_at=list(record.cutover.stopped_copy_at),
            handed_over_at=list(record.failback.handed_over_at),
            handed_over_from=list(record.failback.handed_over_from),
            cutovers=[
                CutoverData(source=list(cutover.source), target=list(cutover.target))
                for cutover in record.failback.cutovers
            ],
            reverse_starts=[StartData.of(start) for start in record.failback.reverse_starts],
            not_mirrored=list(record.cutover.not_mirrored),
            restore_configs=dict(record.restore_configs),
            upstream=[UpstreamData.of(each) for each in record.upstream],
            translates_ids=list(record.translates_ids),
        )


class PlannedMirror(BaseModel):
    """What a job must know of a mirror to append as it does, and to read its offset map: under which `mirror_id` and
    `period` its breakpoints are kept, and per partition the (source, target) offset that holds without any (`implied`).

    All that is of the way from the source to the target. `history` tells of the others, and where each one ended.
    `link_tag`: in the producer ids of all batches that were mirrored."""

    source_topic_name: str
    mirror_topic_name: str
    link_tag: int
    mirror_id: int
    mirror_status: str
    mode: str
    compacted: bool
    period: int
    producer_id: int
    starts: list[StartData]
    implied: list[tuple[int, int]]
    history: MirrorHistory

    @classmethod
    def of(cls, record: MirrorRecord, link_id: int) -> PlannedMirror:
        """From the record: its forward way, from the link's source to the target."""
        forward = replace(record, failback=replace(record.failback, direction=MirrorDirection.FORWARD))
        period = period_of(forward, link_id)
        return cls(
            link_tag=link_id,
            source_topic_name=period.origin,
            mirror_topic_name=period.copy,
            mirror_id=period.mirror_id,
            mirror_status=record.state.value,
            mode=record.mode.value,
            compacted=record.compacted,
            period=period.number,
            producer_id=period.producer_id,
            starts=[StartData.of(start) for start in period.starts],
            implied=list(period.implied),
            history=MirrorHistory.of(record),
        )


class PlannedGroup(BaseModel):
    """A mirror group by its name on the target: what is PROMOTED reads there, and is not for a job to write."""

    group: str
    state: str


class JobPlanData(BaseModel):
    """What a job needs. `group_prefix`: what the mirror groups' names begin with on the target. `version`: of this
    gateway, whose rules a job must have too. `skip_deleted`: by the link's `mirror.on.records.deleted`.
    `equal_offsets`: by its `mirror.offsets`, a mirror fails where offsets would have to differ. `sources`:
    cluster ids by the tag of every link there ever was, which stands in the producer ids of what it has mirrored.
    `schema_ids`: the id map, (source, target), where a mirror writes schema ids anew, and `same_schema_ids` the ids of
    the target that stand for the same schema as a lower one, with that."""

    kind: Literal["LockgateJobPlan"] = "LockgateJobPlan"
    link_name: str
    group_prefix: str
    source: ClusterData
    target: ClusterData
    mirrors: list[PlannedMirror]
    groups: list[PlannedGroup]
    version: str
    skip_deleted: bool = False
    equal_offsets: bool = False
    sources: dict[int, str]
    schema_ids: list[tuple[int, int]] = Field(default_factory=list)
    same_schema_ids: list[tuple[int, int]] = Field(default_factory=list)

    @classmethod
    def of(cls, plan: JobPlan) -> JobPlanData:
        """From the plan."""
        return cls(
            link_name=plan.link.name,
            group_prefix=link_config.parse(plan.link.configs).target_group(""),
            source=ClusterData(cluster_id=plan.link.source_cluster_id, client=shown(plan.link.client)),
            target=ClusterData(cluster_id=plan.target_cluster_id, client=shown(plan.target_client)),
            mirrors=[PlannedMirror.of(mirror, plan.link.link_id) for mirror in plan.mirrors],
            groups=[PlannedGroup(group=one.group, state=one.state.value) for one in plan.groups],
            version=VERSION,
            skip_deleted=link_config.parse(plan.link.configs).on_records_deleted is OnRecordsDeleted.SKIP,
            equal_offsets=link_config.parse(plan.link.configs).offsets is Offsets.PRESERVE,
            sources=dict(plan.sources),
            schema_ids=sorted(plan.ids.items()),
            same_schema_ids=sorted(plan.same_ids.items()),
        )


class TopicProgress(Body):
    """How far the job is with one mirror topic. `eta_s` is -1 while it is not known."""

    mirror_topic_name: str
    records_done: int = Field(0, ge=0)
    records_total: int = Field(0, ge=0)
    bytes_done: int = Field(0, ge=0)
    bytes_total: int = Field(0, ge=0)
    bytes_per_s: float = Field(0.0, ge=0)
    eta_s: float = -1


class LostData(Body):
    """Source offsets `first` to `following` - 1 of a partition, which the source deleted before they were copied."""

    mirror_topic_name: str
    partition: int = Field(ge=0)
    first: int = Field(ge=0)
    following: int = Field(ge=0)


class ReportCatchUp(Body):
    """A job's report, to be repeated every few seconds. `by`: what kind of job. `lost`: what it goes on
    without since the report before, as the link's `mirror.on.records.deleted` says; counted once it is answered."""

    by: str
    state: JobState
    topics: list[TopicProgress]
    lost: list[LostData] = Field(default_factory=list)

    def progress(self, job: str) -> dict[str, CatchUp]:
        """By mirror topic."""
        return {
            topic.mirror_topic_name: CatchUp(job=job, by=self.by, **topic.model_dump(exclude={"mirror_topic_name"}))
            for topic in self.topics
        }

    def lost_by_topic(self) -> dict[str, list[tuple[int, int, int]]]:
        """(partition, first, following) of each, by mirror topic."""
        found: dict[str, list[tuple[int, int, int]]] = {}
        for one in self.lost:
            found.setdefault(one.mirror_topic_name, []).append((one.partition, one.first, one.following))
        return found
