"""ACLs and rights as REST shows them. Fields of an ACL are named as in Kafka's REST API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import BaseModel

from gateway.access.acl_round import AclError
from gateway.access.acl_sync import AclPlan
from gateway.access.check import Access
from gateway.access.rules.compare import AccessRow
from gateway.access.rules.order import BlockedAcl
from gateway.access.rules.transform import AclReason, LeftOutAcl
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.operations.link_tasks import TaskErrorCode, TaskState

SHOWN: Final = 1_000
"""Entries of one list of a plan; the counts say how many there are."""


class AclData(BaseModel):
    """One ACL."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @classmethod
    def of(cls, acl: Acl) -> AclData:
        """From an ACL."""
        return cls(
            resource_type=acl.resource_type,
            resource_name=acl.name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission=acl.permission,
        )


class LeftOutData(BaseModel):
    """An ACL of the source that is not on the target, and why."""

    acl: AclData
    reason: AclReason
    reason_detail: str

    @classmethod
    def of(cls, one: LeftOutAcl) -> LeftOutData:
        """From what a round says."""
        return cls(acl=AclData.of(one.acl), reason=one.reason, reason_detail=one.detail)


class WaitingAclData(BaseModel):
    """A change that waits until another ACL is made or deleted. `is_delete`: else the ACL is to be made."""

    acl: AclData
    is_delete: bool
    behind: AclData
    reason_detail: str

    @classmethod
    def of(cls, one: BlockedAcl) -> WaitingAclData:
        """From what a round has left to a later one."""
        behind = AclData.of(one.behind)
        return cls(acl=AclData.of(one.acl), is_delete=one.is_delete, behind=behind, reason_detail=one.detail)


class AclErrorData(BaseModel):
    """An ACL that the target refused to make or to delete. `error_time_ms`: when last."""

    acl: AclData
    error_code: TaskErrorCode
    error_message: str
    error_time_ms: int

    @classmethod
    def of(cls, one: AclError) -> AclErrorData:
        """From what a round has met."""
        return cls(acl=AclData.of(one.acl), error_code=one.code, error_message=one.message, error_time_ms=one.at_ms)


class AclPlanData(BaseModel):
    """What the next round of a link's ACL sync would do. Lists end after 1000 entries, counts say how many there are.

    `acl_sync_enabled`: false: what it would do if it copied every ACL. `create`, `delete`: in this order. `own`: wanted
    ones that the target has of its own, which are left as they are. `unchanged_count`: that the link has made, and
    follows; those of promoted topics are the target's to decide. `waiting`: what the last round did not do yet, because
    the target has not made or deleted another one.
    """

    kind: Literal["KafkaLinkAclPlanData"] = "KafkaLinkAclPlanData"
    link_name: str
    acl_sync_enabled: bool
    state: TaskState
    create: list[AclData]
    create_count: int
    delete: list[AclData]
    delete_count: int
    own: list[AclData]
    own_count: int
    unchanged_count: int
    left_out: list[LeftOutData]
    left_out_count: int
    waiting: list[WaitingAclData]
    waiting_count: int
    errors: list[AclErrorData]

    @classmethod
    def of(cls, link: str, plan: AclPlan) -> AclPlanData:
        """From a plan."""
        return cls(
            link_name=link,
            acl_sync_enabled=plan.enabled,
            state=plan.task.state,
            create=_shown(plan.create),
            create_count=len(plan.create),
            delete=_shown(plan.delete),
            delete_count=len(plan.delete),
            own=_shown(plan.own),
            own_count=len(plan.own),
            unchanged_count=plan.kept,
            left_out=[LeftOutData.of(one) for one in plan.left_out[:SHOWN]],
            left_out_count=len(plan.left_out),
            waiting=[WaitingAclData.of(one) for one in plan.waiting[:SHOWN]],
            waiting_count=len(plan.waiting),
            errors=[AclErrorData.of(one) for one in plan.errors],
        )


def _shown(acls: Sequence[Acl]) -> list[AclData]:
    return [AclData.of(acl) for acl in acls[:SHOWN]]


class RightData(BaseModel):
    """One operation on one resource, and where it is allowed.

    `reason`: why it is as it is through the gateway, '' where the target's ACLs say it.
    """

    resource_type: ResourceType
    pattern_type: PatternType
    source_name: str
    target_name: str
    operation: Operation
    source_allowed: bool
    target_allowed: bool
    gateway_allowed: bool
    differs: bool
    reason: str

    @classmethod
    def of(cls, row: AccessRow) -> RightData:
        """From a comparison."""
        return cls(
            resource_type=row.resource_type,
            pattern_type=row.pattern_type,
            source_name=row.source_name,
            target_name=row.target_name,
            operation=row.operation,
            source_allowed=row.source,
            target_allowed=row.target,
            gateway_allowed=row.gateway,
            differs=row.differs,
            reason=row.reason,
        )


class AccessData(BaseModel):
    """What a principal may do on the source, on the target, and through the gateway.

    `principal_name`: on the source. `target_principal_name`: '' when it has no name there. `host`: of a client that
    comes to the clusters themselves.
    """

    kind: Literal["KafkaAccessData"] = "KafkaAccessData"
    link_name: str
    principal_name: str
    target_principal_name: str
    host: str
    differences: int
    notes: list[str]
    data: list[RightData]

    @classmethod
    def of(cls, link: str, access: Access) -> AccessData:
        """From a check."""
        return cls(
            link_name=link,
            principal_name=access.principal,
            target_principal_name=access.target_principal,
            host=access.host,
            differences=access.differences,
            notes=list(access.notes),
            data=[RightData.of(row) for row in access.rows],
        )
