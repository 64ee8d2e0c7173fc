"""Schemas of a link as REST shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from gateway.api.models import Body, ForceOption
from gateway.operations.link_tasks import TaskErrorCode, TaskState
from gateway.schemas.rules.gate import TopicIds
from gateway.schemas.rules.model import MAX_ID
from gateway.schemas.rules.scene import Change, ChangeKind, LeftOutSchema, SchemaReason
from gateway.schemas.schema_round import SchemaError
from gateway.schemas.schema_sync import MAX_WANTED, SchemaPlan
from gateway.state.schemas.schema_records import SchemaRecord

SHOWN: Final = 1_000
"""Entries of one list of a plan; the counts say how many there are."""


class SyncSchemas(Body):
    """`ids`: that were seen in records, and that the target does not know."""

    ids: list[Annotated[int, Field(ge=0, le=MAX_ID)]] = Field(default_factory=list, max_length=MAX_WANTED)


class PromoteSchemas(ForceOption):
    """`force`: also while something is not on the target."""


class SchemaChangeData(BaseModel):
    """One change of the target's registry. `version`, `schema_id`: the source's, 0 of a change of the subject itself.

    `value`: the compatibility level or the mode; '' takes away the subject's own.
    """

    change: ChangeKind
    subject: str
    version: int
    schema_id: int
    value: str

    @classmethod
    def of(cls, change: Change) -> SchemaChangeData:
        """From a plan."""
        return cls(
            change=change.kind,
            subject=change.subject,
            version=change.version,
            schema_id=change.id,
            value=change.value,
        )


class SchemaLeftOutData(BaseModel):
    """What of the source is not on the target, and why. `is_error`: somebody must look at it."""

    subject: str
    version: int
    reason: SchemaReason
    reason_detail: str
    is_error: bool

    @classmethod
    def of(cls, one: LeftOutSchema) -> SchemaLeftOutData:
        """From a plan."""
        return cls(
            subject=one.subject,
            version=one.version,
            reason=one.reason,
            reason_detail=one.detail,
            is_error=one.reason.is_error,
        )


class SchemaErrorData(BaseModel):
    """A change that the target refused. `error_time_ms`: when last."""

    change: SchemaChangeData
    error_code: TaskErrorCode
    error_message: str
    error_time_ms: int

    @classmethod
    def of(cls, one: SchemaError) -> SchemaErrorData:
        """From what a round has met."""
        return cls(
            change=SchemaChangeData.of(one.change),
            error_code=one.code,
            error_message=one.message,
            error_time_ms=one.at_ms,
        )


class SchemaPlanData(BaseModel):
    """What the next round of a link's schema sync would do. Lists end after 1000 entries, counts say how many it is.

    `changes`: in this order. `subject_count`: of the source, that the link copies; `promoted_count`: that were handed
    to the target's clients. `unchanged_count`: versions that are on the target. `id_count`: entries of the id map.
    """

    kind: Literal["KafkaLinkSchemaPlanData"] = "KafkaLinkSchemaPlanData"
    link_name: str
    schema_sync_enabled: bool
    state: TaskState
    subject_count: int
    promoted_count: int
    unchanged_count: int
    id_count: int
    changes: list[SchemaChangeData]
    change_count: int
    left_out: list[SchemaLeftOutData]
    left_out_count: int
    errors: list[SchemaErrorData]

    @classmethod
    def of(cls, link: str, plan: SchemaPlan) -> SchemaPlanData:
        """From a plan."""
        return cls(
            link_name=link,
            schema_sync_enabled=plan.enabled,
            state=plan.task.state,
            subject_count=plan.subjects,
            promoted_count=plan.promoted,
            unchanged_count=plan.plan.kept,
            id_count=plan.ids,
            changes=[SchemaChangeData.of(one) for one in plan.changes[:SHOWN]],
            change_count=len(plan.changes),
            left_out=[SchemaLeftOutData.of(one) for one in plan.left_out[:SHOWN]],
            left_out_count=len(plan.left_out),
            errors=[SchemaErrorData.of(one) for one in plan.errors],
        )


class TopicSchemaIds(BaseModel):
    """Ids that were seen in records of a mirror topic, and of them those that the target's registry does not know.

    `more`: it had more ids than are kept of a topic.
    """

    mirror_topic_name: str
    seen: list[int]
    unknown: list[int]
    more: bool


class SchemaCheckData(BaseModel):
    """Whether the target's registry knows the ids that mirrored records have: a sample of each partition."""

    kind: Literal["KafkaLinkSchemaCheckData"] = "KafkaLinkSchemaCheckData"
    link_name: str
    unknown_count: int
    data: list[TopicSchemaIds]

    @classmethod
    def of(cls, link: str, topics: Sequence[TopicIds]) -> SchemaCheckData:
        """From a check."""
        return cls(
            link_name=link,
            unknown_count=len({schema_id for one in topics for schema_id in one.unknown}),
            data=[
                TopicSchemaIds(
                    mirror_topic_name=one.topic, seen=list(one.seen), unknown=list(one.unknown), more=one.more
                )
                for one in topics
            ],
        )


class SchemaVersionData(BaseModel):
    """A version of a subject on both registries. `own`: the target had it before the link."""

    version: int
    schema_id: int
    target_version: int
    target_schema_id: int
    own: bool
    deleted: bool


class SchemaSubjectData(BaseModel):
    """A subject that a link has copied."""

    kind: Literal["KafkaLinkSchemaSubjectData"] = "KafkaLinkSchemaSubjectData"
    link_name: str
    subject: str
    promoted: bool
    versions: list[SchemaVersionData]

    @classmethod
    def of(cls, record: SchemaRecord) -> SchemaSubjectData:
        """From what is remembered of it."""
        return cls(
            link_name=record.link,
            subject=record.subject,
            promoted=record.promoted,
            versions=[
                SchemaVersionData(
                    version=entry.version,
                    schema_id=entry.id,
                    target_version=entry.target_version,
                    target_schema_id=entry.target_id,
                    own=entry.own,
                    deleted=entry.deleted,
                )
                for entry in record.entries
            ],
        )


class SchemaSubjectList(BaseModel):
    """The subjects that a link has copied, with the ids of their versions on both sides: its id map.

    `next`: `after` of the next request, '' at the end.
    """

    kind: Literal["KafkaLinkSchemaSubjectDataList"] = "KafkaLinkSchemaSubjectDataList"
    data: list[SchemaSubjectData]
    next: str

    @classmethod
    def of(cls, records: Sequence[SchemaRecord], after: str) -> SchemaSubjectList:
        """The first ones behind `after`, by subject."""
        rest = [record for record in records if record.subject > after]
        more = rest[SHOWN - 1].subject if len(rest) > SHOWN else ""
        return cls(data=[SchemaSubjectData.of(record) for record in rest[:SHOWN]], next=more)
