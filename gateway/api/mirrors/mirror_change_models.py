"""Bodies of what is told before a mirror topic is changed, and of its repair and deletion."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.mirrors.mirror_models import ClientsNotMigratedData
from gateway.api.models import Body
from gateway.state.records import TransitionError
from gateway.topics.delete import DeletionPlan
from gateway.topics.plan import MirrorPlan
from gateway.topics.promote_plan import PromotePlan, PromoteSetPlan
from gateway.topics.repair import RepairPlan
from gateway.topics.rules.repair import RepairAction


class TransitionErrorData(BaseModel):
    """`error_code` is Confluent's. `operation`: what was asked for. `time_ms`: when it was met last."""

    error_code: str
    error_message: str
    operation: str
    time_ms: int

    @classmethod
    def of(cls, error: TransitionError) -> TransitionErrorData:
        """From the record."""
        return cls(**{name: getattr(error, name) for name in cls.model_fields})


class TransitionErrorList(BaseModel):
    """Of one mirror topic, oldest first."""

    kind: Literal["KafkaMirrorStateTransitionErrorList"] = "KafkaMirrorStateTransitionErrorList"
    data: list[TransitionErrorData]


class CreatePlanData(BaseModel):
    """What a create would do.

    `starts`: the first offset of the source to be shown, by partition. `adopted`: an empty topic of that name is on the
    target already, and is taken over. `configs`: what the topic gets; `configs_at_promote`: what is set back when it is
    promoted, null is the target's default. `translates_ids`: where in its records schema ids would be written anew.
    """

    kind: Literal["LockgateMirrorCreatePlan"] = "LockgateMirrorCreatePlan"
    link_name: str
    source_topic_name: str
    mirror_topic_name: str
    num_partitions: int
    replication_factor: int
    mode: str
    mode_reason: str
    adopted: bool
    translates_ids: list[str]
    starts: list[int]
    configs: dict[str, str]
    configs_at_promote: dict[str, str | None]

    @classmethod
    def of(cls, plan: MirrorPlan) -> CreatePlanData:
        """From the plan."""
        return cls(
            link_name=plan.link.name,
            source_topic_name=plan.source.name,
            mirror_topic_name=plan.mirror_topic,
            num_partitions=plan.source.partitions,
            replication_factor=plan.replication_factor,
            mode="translate" if plan.translated else "preserve",
            mode_reason=plan.translated,
            adopted=plan.target is not None,
            translates_ids=list(plan.translates_ids),
            starts=[start.source_start for start in plan.starts],
            configs=dict(plan.configs.apply),
            configs_at_promote=plan.configs.at_promote(),
        )


class PromoteTopicPlanData(BaseModel):
    """One topic of the set. `eta_s`: about how long its mirror needs to be level, null while that is not known."""

    mirror_topic_name: str
    source_topic_name: str
    mirror_status: str
    lag: int | None
    eta_s: float | None
    waits_for: list[str]
    clients_not_migrated: ClientsNotMigratedData | None

    @classmethod
    def of(cls, plan: PromotePlan) -> PromoteTopicPlanData:
        """From the plan."""
        view, moved = plan.view, plan.view.clients_not_migrated
        lags = [one.lag for one in view.partitions]
        return cls(
            mirror_topic_name=view.record.mirror_topic,
            source_topic_name=view.record.source_topic,
            mirror_status=view.record.state.value,
            lag=None if None in lags or not lags else sum(lag or 0 for lag in lags),
            eta_s=plan.eta_s,
            waits_for=list(plan.waits_for),
            clients_not_migrated=None if moved is None else ClientsNotMigratedData.of(moved),
        )


class PromotePlanData(BaseModel):
    """What a promote would meet. `blockers`: what it would be refused for; empty: it would begin."""

    kind: Literal["LockgatePromotePlan"] = "LockgatePromotePlan"
    blockers: list[str]
    topics: list[PromoteTopicPlanData]

    @classmethod
    def of(cls, plan: PromoteSetPlan) -> PromotePlanData:
        """From the plan."""
        return cls(blockers=list(plan.blockers), topics=[PromoteTopicPlanData.of(one) for one in plan.topics])


class DeletionPlanData(BaseModel):
    """What a deletion would do. `refused`: why it would not be done, '' when it would."""

    kind: Literal["LockgateMirrorDeletionPlan"] = "LockgateMirrorDeletionPlan"
    link_name: str
    mirror_topic_name: str
    source_topic_name: str
    mirror_status: str
    delete_topic: bool
    refused: str
    groups_not_promoted: list[str] | None
    groups_promoted: list[str]

    @classmethod
    def of(cls, plan: DeletionPlan) -> DeletionPlanData:
        """From the plan."""
        readers = plan.facts.readers
        return cls(
            link_name=plan.record.link,
            mirror_topic_name=plan.record.mirror_topic,
            source_topic_name=plan.record.source_topic,
            mirror_status=plan.record.state.value,
            delete_topic=plan.topic_too,
            refused=plan.refused,
            groups_not_promoted=None if readers is None else list(readers),
            groups_promoted=list(plan.facts.promoted_readers),
        )


class RepairMirror(Body):
    """`action`: resume or translate; none: the first of them that is possible. Creating anew is `:recreate`."""

    action: Literal["resume", "translate"] | None = None

    @property
    def chosen(self) -> RepairAction | None:
        """As the rules name it."""
        return None if self.action is None else RepairAction(self.action)


class RepairData(BaseModel):
    """One way out. `refused`: why it is not possible, '' when it is. `effect`: what it does."""

    action: str
    possible: bool
    refused: str
    effect: str


class RepairPlanData(BaseModel):
    """What can be done for a mirror topic that has FAILED, in order of preference."""

    kind: Literal["LockgateRepairPlan"] = "LockgateRepairPlan"
    link_name: str
    mirror_topic_name: str
    source_topic_name: str
    mirror_topic_error: str
    error_message: str
    way_out: str
    repairs: list[RepairData] = Field(description="All three, possible or not.")

    @classmethod
    def of(cls, plan: RepairPlan) -> RepairPlanData:
        """From the plan."""
        record = plan.record
        return cls(
            link_name=record.link,
            mirror_topic_name=record.mirror_topic,
            source_topic_name=record.source_topic,
            mirror_topic_error=record.error.value,
            error_message=record.error_message,
            way_out=plan.way_out,
            repairs=[
                RepairData(action=one.action.value, possible=one.possible, refused=one.refused, effect=one.effect)
                for one in plan.repairs
            ],
        )
