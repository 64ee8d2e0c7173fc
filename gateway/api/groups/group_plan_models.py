"""Body of what a promote or a demote of a mirror group would meet."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.groups.group_models import OffsetData
from gateway.operations.partners import GroupPlan


class GroupPlanData(BaseModel):
    """What an operation on a group would meet now. Nothing was changed."""

    kind: Literal["LockgateGroupPlan"] = "LockgateGroupPlan"
    operation: Literal["promote", "demote"]
    link_name: str
    group: str
    source_group: str
    state: str
    blockers: list[str] = Field(description="What it would be refused for; empty: it would begin.")
    waits_for: str = Field(description="What it would wait for first, for some 30 s; else it gives up.")
    note: str = Field(description="What to know of the offsets.")
    offsets: list[OffsetData] = Field(description="What would be carried over, when nothing is in the way.")

    @classmethod
    def of(cls, plan: GroupPlan, operation: Literal["promote", "demote"]) -> GroupPlanData:
        """From the plan."""
        record = plan.record
        return cls(
            operation=operation,
            link_name=record.link,
            group=record.group,
            source_group=record.source_name,
            state=record.state.value,
            blockers=[plan.blocker] if plan.blocker else [],
            waits_for=plan.waits_for,
            note=plan.note,
            offsets=[
                OffsetData(
                    topic=one.topic,
                    partition=one.partition,
                    source_offset=one.source_offset,
                    target_offset=one.target_offset,
                    rule=one.rule,
                )
                for one in plan.offsets
            ],
        )
