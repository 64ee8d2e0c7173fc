"""Bodies of the failbacks under /v3/links/{link}/mirrors."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.models import Body
from gateway.cutover.dry_runs import Outlook
from gateway.cutover.failback.operations import RestorePlan
from gateway.cutover.failover.operations import FailoverPlan
from gateway.state.records import MirrorRecord


class MirrorNames(Body):
    """Several mirror topics."""

    mirror_topic_names: list[str]


class UndoNames(MirrorNames):
    """`group_names`: mirror groups, by their names on the target, that change sides with the topics.

    `keep_late_writes`: records that somebody wrote to the source beside the gateway stay where they are, and come to
    the target behind the cutover; refused where that is not possible.
    """

    group_names: list[str] = Field(default_factory=list)
    keep_late_writes: bool = False


class ReverseMirrors(MirrorNames):
    """Several mirror topics. `force`: of those that are promoted first, as for a promote."""

    force: bool = False


class FailoverPlanData(BaseModel):
    """What a failover now would leave behind on the source, by partition; -1 where nobody knows.

    `records_not_mirrored_exact`: the source tells so now. Else the numbers are those of what was seen of it, and it may
    have more. `retries_unknown`: partitions whose producers are too many to go along: a batch that is sent again over
    the failover may be there twice.
    """

    kind: Literal["LockgateFailoverPlan"] = "LockgateFailoverPlan"
    link_name: str
    mirror_topic_name: str
    source_topic_name: str = ""
    records_not_mirrored: dict[int, int]
    records_not_mirrored_exact: bool
    retries_unknown: list[int] = Field(default_factory=list)

    @classmethod
    def of(cls, plan: FailoverPlan) -> FailoverPlanData:
        """From the plan."""
        return cls(
            link_name=plan.record.link,
            mirror_topic_name=plan.record.mirror_topic,
            source_topic_name=plan.record.source_topic,
            records_not_mirrored={index: count for index, count in enumerate(plan.not_mirrored) if count},
            records_not_mirrored_exact=plan.exact,
            retries_unknown=list(plan.retries_unknown),
        )


class RestorePlanData(BaseModel):
    """What a truncate-and-restore would throw away, by partition of the failback destination.

    `records_divergent`: only the failback destination has them. `records_older`: the target has deleted them.
    `records_refilled`: how many the target will give it.
    """

    kind: Literal["LockgateRestorePlan"] = "LockgateRestorePlan"
    link_name: str
    mirror_topic_name: str
    source_topic_name: str = ""
    records_divergent: dict[int, int]
    records_older: dict[int, int]
    records_refilled: int

    @classmethod
    def of(cls, plan: RestorePlan) -> RestorePlanData:
        """From the plan."""
        return cls(
            link_name=plan.record.link,
            mirror_topic_name=plan.record.mirror_topic,
            source_topic_name=plan.record.source_topic,
            records_divergent=dict(plan.divergent),
            records_older=dict(plan.older),
            records_refilled=plan.refilled,
        )


class ReversePlanData(BaseModel):
    """What a reverse would meet. `promoted_first`: the topic is mirrored to the target, so its promote comes first, and
    both logs are compared when that has cut over."""

    kind: Literal["LockgateReversePlan"] = "LockgateReversePlan"
    link_name: str
    mirror_topic_name: str
    source_topic_name: str
    promoted_first: bool
    blockers: list[str]

    @classmethod
    def of(cls, outlook: Outlook, record: MirrorRecord) -> ReversePlanData:
        """From what would begin."""
        return cls(
            link_name=record.link,
            mirror_topic_name=record.mirror_topic,
            source_topic_name=record.source_topic,
            promoted_first=outlook.promoted_first,
            blockers=[] if outlook.refused is None else [str(outlook.refused)],
        )


class ReversePlanList(BaseModel):
    """Of several mirror topics."""

    kind: Literal["LockgateReversePlanList"] = "LockgateReversePlanList"
    data: list[ReversePlanData]


class FailoverPlanList(BaseModel):
    """Of several mirror topics."""

    kind: Literal["LockgateFailoverPlanList"] = "LockgateFailoverPlanList"
    data: list[FailoverPlanData]


class RestorePlanList(BaseModel):
    """Of several mirror topics."""

    kind: Literal["LockgateRestorePlanList"] = "LockgateRestorePlanList"
    data: list[RestorePlanData]
