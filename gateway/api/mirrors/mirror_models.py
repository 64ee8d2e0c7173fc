"""Bodies of /v3/links/{link}/mirrors."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.links.link_models import ConfigEntry
from gateway.api.models import Body, ForceOption
from gateway.api.paging import ListMetadata
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import BadRequest
from gateway.mirror.interface import PartitionStatus
from gateway.state.provenance import Provenance
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, Undo, Upstream
from gateway.topics.catch_up import CatchUp
from gateway.topics.clients_not_migrated import ClientsNotMigrated
from gateway.topics.mirrors import MirrorView
from gateway.topics.plan import Wanted
from gateway.topics.rules import start_point
from gateway.topics.rules.at_risk import records_at_risk

CATCHING_UP = "CATCHING_UP"


class CreateMirror(Body):
    """`mirror_topic_name` is the link's prefix and the source topic's name; one of the two names is enough.

    `configs`: of this topic, instead of what is synced. `replication_factor`: null is the link's. `start`: earliest,
    latest, an ISO-8601 time or milliseconds; '' is the link's. `start_offsets`: partition -> offset of the source; the
    partitions that are not named begin where the link says.
    """

    source_topic_name: str = ""
    mirror_topic_name: str = ""
    configs: list[ConfigEntry] = Field(default_factory=list)
    replication_factor: int | None = Field(default=None, ge=1, le=32_767)
    start: str = ""
    start_offsets: dict[int, int] = Field(default_factory=dict)

    def wanted(self) -> Wanted:
        """As the operation takes it. Raises BadRequest."""
        configs = {entry.name: entry.value for entry in self.configs}
        if len(configs) < len(self.configs):
            raise BadRequest("configs: a name occurs twice")
        if self.start and self.start_offsets:
            raise BadRequest("start, start_offsets: give one of the two")
        if any(number < 0 for pair in self.start_offsets.items() for number in pair):
            raise BadRequest("start_offsets: partitions and offsets are not negative")
        start = self.start or start_point.text_of(self.start_offsets)
        return Wanted(configs=configs, replication_factor=self.replication_factor or 0, start=start)


class SetBackData(BaseModel):
    """A config that somebody changed on the copy, and config sync has set back."""

    name: str
    found: str
    value: str
    time_ms: int


class TransitionErrorEntry(BaseModel):
    """As Confluent's describe has it."""

    error_code: str
    error_message: str


class PromoteMirror(ForceOption):
    """`mirror_direction`: FORWARD promotes to the target, REVERSE takes topics home that are mirrored back.

    Topics that do not go this way now are refused (409) with the side that they are written on: so one that is asked
    for again never turns round what it has brought about.
    """

    mirror_direction: MirrorDirection = MirrorDirection.FORWARD


class AlterMirrors(PromoteMirror):
    """Several mirror topics, promoted as one set: all of them go to the target, or all of them home.

    `mirror_direction`: FORWARD promotes to the target, REVERSE takes topics home that are mirrored back. Topics that do
    not go this way now are refused (409) with the side that they are written on. `group_names`: mirror groups, by their
    names on the target, that change sides with the topics under the same write pause; refused (409) with `force`.
    """

    mirror_topic_names: list[str]
    group_names: list[str] = Field(default_factory=list)


class MirrorLag(BaseModel):
    """One partition. Offsets are the source's unless named target; `mirrored_to` is the next one to mirror.

    `source_end`, `mirrored_to`, `lag` and `lag_ms` are null while they are not known: nobody has seen that end yet, or,
    of the last one, the mirror does not run. `segments`: of the offset map, 0 while offsets are equal. `waits_for`:
    what the source waits for before it shows more records, such as the end of a transaction, or the mirror before it
    copies them: schema ids.
    """

    partition: int
    phase: str
    source_end: int | None
    mirrored_to: int | None
    target_end: int
    lag: int | None
    lag_ms: int | None
    bytes_per_s: float
    records_total: int
    bytes_total: int
    bypassed_last_minute: int
    last_error: str
    segments: int
    waits_for: str
    queued_bytes: int

    @classmethod
    def of(cls, status: PartitionStatus) -> MirrorLag:
        """From the engine's numbers."""
        return cls(**{name: getattr(status, name) for name in cls.model_fields})


class ReaderData(BaseModel):
    """A member of a group that still reads the topic on the source."""

    group: str
    client_id: str
    host: str


class ClientsNotMigratedData(BaseModel):
    """Who has not moved to the gateway yet. `readers` is null when the source did not tell; `unknown`: why."""

    bypassed_last_minute: int
    readers: list[ReaderData] | None
    unknown: str

    @classmethod
    def of(cls, clients_not_migrated: ClientsNotMigrated) -> ClientsNotMigratedData:
        """From the view."""
        readers = clients_not_migrated.readers
        return cls(
            bypassed_last_minute=clients_not_migrated.bypassed_last_minute,
            readers=None
            if readers is None
            else [ReaderData(group=r.group, client_id=r.client_id, host=r.host) for r in readers],
            unknown=clients_not_migrated.unknown,
        )


class CatchUpData(BaseModel):
    """A job that copies the topic up to the tail. Bytes are about right; `eta_s` is -1 while it is not known."""

    job: str
    by: str
    records_done: int
    records_total: int
    bytes_done: int
    bytes_total: int
    bytes_per_s: float
    eta_s: float

    @classmethod
    def of(cls, progress: CatchUp) -> CatchUpData:
        """From the job's last report."""
        return cls(**{name: getattr(progress, name) for name in cls.model_fields})


class UpstreamData(BaseModel):
    """A cluster from which the source itself mirrored the topic. `until_offsets`: of the topic that was written there,
    by partition, where that mirror was promoted; empty while it is mirrored."""

    cluster_id: str
    link: str
    topic: str
    until_offsets: list[int]

    @classmethod
    def of(cls, found: Upstream) -> UpstreamData:
        """From the record."""
        return cls(cluster_id=found.cluster_id, link=found.link, topic=found.topic, until_offsets=list(found.ends))


class ProvenanceData(BaseModel):
    """From where a mirror topic's records are. A batch of the target's log whose producer id p is in [2^50, 2^51) (mod
    2^51) was mirrored by the link whose tag is (p mod 2^50) / 2^32; any other one was written on the target.

    `producer_id`: under which it is mirrored now. `upstream`: a chain's clusters before the source, nearest first.
    """

    link_tag: int
    source_cluster_id: str
    producer_id: int
    upstream: list[UpstreamData]

    @classmethod
    def of(cls, found: Provenance) -> ProvenanceData:
        """From the view."""
        return cls(
            link_tag=found.link_tag,
            source_cluster_id=found.source_cluster_id,
            producer_id=found.producer_id,
            upstream=[UpstreamData.of(each) for each in found.upstream],
        )


class UndoData(BaseModel):
    """Of a promote: whether it can be taken back, by a mirror back that was begun by itself.

    `state`: `open`; `over`: its time is; `ended`: by somebody, before that; `refused`: it could not be begun, see the
    transition errors.
    """

    state: str
    until_time_ms: int = Field(description="Until when the mirror back is kept, or was to be; wall clock.")
    records_at_risk: int | None = Field(
        description="Records of the target that the source does not have yet; null: not known, or not mirrored back."
    )
    late_records: int | None = Field(
        default=0,
        description="Records that somebody wrote to the source beside the gateway; with any, an undo is refused. "
        "null: not measured since the present leader leads; an undo measures them.",
    )

    @classmethod
    def of(cls, view: MirrorView) -> UndoData | None:
        """From the view; None where there is none."""
        cutover = view.record.cutover
        if cutover.undo is Undo.NONE:
            return None
        ended = cutover.undo is Undo.OPEN and view.record.state is MirrorState.STOPPED
        return cls(
            state="ended" if ended else cutover.undo.value,
            until_time_ms=cutover.undo_until_ms,
            records_at_risk=records_at_risk(view.record, view.partitions),
            late_records=view.late_records,
        )


class MirrorData(BaseModel):
    """A mirror topic. `promote_error`: why the last promote did not end in STOPPED. `clients_not_migrated` in describe.

    `waiting_for`: what a running promote waits for. `records_after_cutover`: partition -> records that a writer beside
    the gateway left on the source after the promote; nobody reads them on the target; null: the topic is written on the
    target, and they were not measured since the present leader leads. `mirror_status` is CATCHING_UP while a job copies
    the topic, see `catch_up`, and PENDING_MIRROR while the topic is being created.

    `mirror_direction`: which way it is mirrored; the lags of a REVERSE mirror are those of the failback destination
    behind the target. `records_lost`: partition -> records that the source deleted before they were mirrored, and that
    the link's `mirror.on.records.deleted` said to go on without. `records_not_mirrored`: partition -> records that a
    failover left behind on the source, -1 where unknown; `records_not_mirrored_exact` is false when the source did not
    answer then: it may have more, which nobody has seen. It is null without a failover.
    """

    kind: Literal["KafkaMirrorData"] = "KafkaMirrorData"
    link_name: str
    mirror_topic_name: str
    source_topic_name: str
    num_partitions: int
    mirror_status: str
    mirror_topic_error: str
    error_message: str
    state_time_ms: int
    mode: str
    mode_reason: str
    readable: bool = Field(description="False while the topic is being padded to the source's offsets.")
    promote_error: str
    waiting_for: str
    records_after_cutover: dict[int, int] | None
    mirror_lags: list[MirrorLag]
    stopped_at: list[int]
    mirror_direction: MirrorDirection = MirrorDirection.FORWARD
    records_not_mirrored: dict[int, int] = Field(default_factory=dict)
    records_not_mirrored_exact: bool | None = None
    records_lost: dict[int, int] = Field(default_factory=dict)
    retries_unknown: list[int] = Field(
        default_factory=list,
        description="Partitions in which a retry over the last failover may be appended once more.",
    )
    clients_not_migrated: ClientsNotMigratedData | None = None
    catch_up: CatchUpData | None = None
    configs: dict[str, str] = Field(default_factory=dict, description="What the topic was given at create.")
    replication_factor: int | None = Field(default=None, description="That was given at create; null: the link's.")
    start: str = Field(default="", description="Where it begins, as was said at create; '': as the link says.")
    reverses: bool = Field(default=False, description="Its promote is the first half of a reverse.")
    configs_on_target: dict[str, str] | None = Field(
        default=None, description="Set on the target's topic beside what is synced; in describe."
    )
    configs_set_back: list[SetBackData] = Field(default_factory=list)
    warnings: list[str] = Field(
        default_factory=list,
        description="In what the copy differs from its origin that clients would meet at the cutover, and the remedy.",
    )
    mirror_state_transition_errors: list[TransitionErrorEntry] | None = Field(
        default=None, description="With include_state_transition_errors."
    )
    paused_by_link: bool = Field(default=False, description="Its link is paused, and so it is.")
    provenance: ProvenanceData | None = None
    undo: UndoData | None = Field(
        default=None, description="Whether its promote can be taken back; null: not asked for."
    )
    unresolved_schema_ids: list[int] = Field(
        default_factory=list,
        description="Ids that its records have, and that the target's schema registry, or the id map, does not know.",
    )
    translates_ids: list[str] = Field(
        default_factory=list,
        description="Where in its records schema ids are written anew, of key, value, headers: bytes differ there.",
    )

    @classmethod
    def of(cls, view: MirrorView, *, transition_errors: bool = False) -> MirrorData:
        """From the view."""
        record = view.record
        return cls(
            link_name=record.link,
            mirror_topic_name=record.mirror_topic,
            source_topic_name=record.source_topic,
            num_partitions=len(record.starts),
            mirror_status=view.state.value if view.catch_up is None else CATCHING_UP,
            paused_by_link=view.paused_by_link,
            mirror_topic_error=record.error.value,
            error_message=record.error_message,
            state_time_ms=record.state_since_ms,
            mode=record.mode.value,
            mode_reason=record.mode_reason,
            readable=record.readable or written_on_target(record),
            promote_error=view.promote_error,
            waiting_for=view.waiting_for,
            unresolved_schema_ids=list(view.unresolved_schema_ids),
            translates_ids=list(record.translates_ids),
            records_after_cutover=None if view.records_after_cutover is None else dict(view.records_after_cutover),
            mirror_lags=[MirrorLag.of(status) for status in view.partitions],
            stopped_at=list(record.cutover.stopped_at),
            mirror_direction=record.failback.direction,
            records_not_mirrored={index: count for index, count in enumerate(record.cutover.not_mirrored) if count},
            records_not_mirrored_exact=record.cutover.source_answered if record.cutover.not_mirrored else None,
            retries_unknown=list(record.cutover.retries_unknown),
            records_lost={index: lost.count for index, lost in enumerate(record.lost) if lost.count},
            clients_not_migrated=None
            if view.clients_not_migrated is None
            else ClientsNotMigratedData.of(view.clients_not_migrated),
            catch_up=None if view.catch_up is None else CatchUpData.of(view.catch_up),
            configs=dict(record.configs),
            replication_factor=record.replication_factor or None,
            start=record.start,
            reverses=bool(record.cutover.then_reverse),
            configs_on_target=None if view.configs_on_target is None else dict(view.configs_on_target),
            configs_set_back=[
                SetBackData(name=one.name, found=one.found, value=one.value, time_ms=one.time_ms)
                for one in view.set_back
            ],
            warnings=list(view.warnings),
            mirror_state_transition_errors=[
                TransitionErrorEntry(error_code=one.error_code, error_message=one.error_message)
                for one in view.transition_errors
            ]
            if transition_errors
            else None,
            provenance=None if view.provenance is None else ProvenanceData.of(view.provenance),
            undo=UndoData.of(view),
        )


class TranslatedOffset(BaseModel):
    """`offset` of the source and the target's for it, or the other way round if `reverse`; `rule`: how it was found."""

    kind: Literal["KafkaMirrorOffset"] = "KafkaMirrorOffset"
    partition: int
    offset: int
    reverse: bool
    translated: int
    rule: str


class MirrorList(BaseModel):
    """The mirror topics of a link. `metadata` where they are listed, not of those that a verb was for."""

    kind: Literal["KafkaMirrorDataList"] = "KafkaMirrorDataList"
    metadata: ListMetadata | None = Field(default=None, exclude_if=lambda metadata: metadata is None)
    data: list[MirrorData]


class CalledOffData(BaseModel):
    """Promotes that were called off. `data`: all mirror topics that go back, those of the same sets besides.
    `paused_migrations`: were RUNNING, and would promote them again."""

    kind: Literal["LockgatePromoteCalledOff"] = "LockgatePromoteCalledOff"
    data: list[MirrorData]
    paused_migrations: list[str]


def mirror_key(record: MirrorRecord) -> tuple[str, str]:
    """What lists of mirror topics are sorted by."""
    return record.link, record.mirror_topic


def partitions_of(record: MirrorRecord) -> int:
    """How many: an answer has some numbers of each."""
    return len(record.starts)
