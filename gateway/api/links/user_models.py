"""SCRAM users and client quotas as REST shows them. No answer has a secret, nor what is made of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Base64Bytes, BaseModel, Field

from gateway.access.quotas import QuotaPlan
from gateway.access.rules.not_copied import NotCopied, NotCopiedKind
from gateway.access.rules.quotas import QuotaOptions, QuotaRow, QuotaState
from gateway.access.rules.users import UserRow, UserState
from gateway.access.users import NewSecrets, UserPlan
from gateway.api.models import Body
from gateway.kafka.rules.quota import EntityType, QuotaKey
from gateway.kafka.rules.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    ScramCredential,
    ScramKey,
    ScramMechanism,
)

SHOWN = 1_000
"""Entries of one list; the counts say how many there are."""


class SaltedCredential(Body):
    """A credential that was salted where the password is. `name`: the user as the source knows it."""

    name: Annotated[str, Field(min_length=1, max_length=1_024)]
    mechanism: ScramMechanism
    iterations: Annotated[int, Field(ge=LEAST_ITERATIONS, le=MOST_ITERATIONS)]
    salt: Annotated[Base64Bytes, Field(min_length=16, max_length=256)]
    salted_password: Annotated[Base64Bytes, Field(min_length=32, max_length=64)]


class ApplyUsers(Body):
    """`secrets`: a reference with `*` for the user's name: `${file:/path:*}`, `${dir:/path:*}`, `${env:PREFIX_*}`.
    `credentials` count first. `users`: only these. `identity_token`: patterns of users that need none."""

    secrets: str = ""
    credentials: Annotated[list[SaltedCredential], Field(max_length=10_000, default_factory=list)]
    users: Annotated[list[str], Field(max_length=10_000, default_factory=list)]
    identity_token: Annotated[list[str], Field(max_length=100, default_factory=list)]

    def new_secrets(self) -> NewSecrets:
        """As the operation takes them."""
        keys = {ScramKey(one.name, one.mechanism): one for one in self.credentials}
        return NewSecrets(
            self.secrets,
            {key: ScramCredential(key, one.iterations, one.salt, one.salted_password) for key, one in keys.items()},
        )


class UserData(BaseModel):
    """One SCRAM credential of the source."""

    name: str
    target_name: str
    mechanism: ScramMechanism
    iterations: int
    state: UserState
    state_detail: str

    @classmethod
    def of(cls, row: UserRow) -> UserData:
        """From a row."""
        return cls(
            name=row.user,
            target_name=row.target_user,
            mechanism=row.mechanism,
            iterations=row.iterations,
            state=row.state,
            state_detail=row.detail,
        )


class NotCopiedData(BaseModel):
    """Something that no command copies. `source_value`, `target_value`: '' for nothing there."""

    kind: NotCopiedKind
    name: str
    source_value: str
    target_value: str
    detail: str

    @classmethod
    def of(cls, one: NotCopied) -> NotCopiedData:
        """From what was found."""
        return cls(kind=one.kind, name=one.name, source_value=one.source, target_value=one.target, detail=one.detail)


class UserPlanData(BaseModel):
    """The SCRAM users of a link's source, and what becomes of them. `data` ends after 1000 entries, `counts` do not.

    What is not PRESENT comes first. `not_copied`: in a plan only.
    """

    kind: Literal["KafkaLinkUserPlanData"] = "KafkaLinkUserPlanData"
    link_name: str
    counts: dict[str, int]
    data: list[UserData]
    not_copied: list[NotCopiedData]
    notes: list[str]

    @classmethod
    def of(cls, link: str, plan: UserPlan) -> UserPlanData:
        """From a plan, or what became of it."""
        first = sorted(plan.rows, key=lambda row: row.state is UserState.PRESENT)
        return cls(
            link_name=link,
            counts={state.value: plan.count(state) for state in UserState},
            data=[UserData.of(row) for row in first[:SHOWN]],
            not_copied=[NotCopiedData.of(one) for one in plan.not_copied],
            notes=list(plan.notes),
        )


class ApplyQuotas(Body):
    """`factor`: of all keys; `factors`: of single ones instead. `overwrite`: set also what the target has otherwise.
    `default_ip`: also the quota of all addresses."""

    factor: float = 1.0
    factors: Annotated[dict[str, float], Field(max_length=100, default_factory=dict)]
    overwrite: bool = False
    default_ip: bool = False

    def options(self) -> QuotaOptions:
        """As the operation takes them."""
        return QuotaOptions(self.factor, self.factors, self.overwrite, self.default_ip)


class EntityData(BaseModel):
    """A part of a quota's entity. `entity_name`: null is the default entity."""

    entity_type: EntityType
    entity_name: str | None


class QuotaData(BaseModel):
    """One quota of the source. `target_entity`: as it is on the target, empty where it has no name there.

    `value`: the source's; `target_value`: what is to be set, times the factor; `present_value`: what the target has.
    """

    entity: list[EntityData]
    target_entity: list[EntityData]
    key: str
    value: float
    target_value: float | None
    present_value: float | None
    state: QuotaState
    state_detail: str

    @classmethod
    def of(cls, row: QuotaRow) -> QuotaData:
        """From a row."""
        return cls(
            entity=_entity(row.source),
            target_entity=[] if row.target is None else _entity(row.target),
            key=row.source.key,
            value=row.value,
            target_value=row.wanted,
            present_value=row.present,
            state=row.state,
            state_detail=row.detail,
        )


def _entity(key: QuotaKey) -> list[EntityData]:
    return [EntityData(entity_type=part.kind, entity_name=part.name) for part in key.entity]


class QuotaPlanData(BaseModel):
    """The client quotas of a link's source beside the target's. `data` ends after 1000 entries, `counts` do not.

    What is not SAME comes first. `own_count`: quotas that only the target has.
    """

    kind: Literal["KafkaLinkQuotaPlanData"] = "KafkaLinkQuotaPlanData"
    link_name: str
    counts: dict[str, int]
    data: list[QuotaData]
    own_count: int
    notes: list[str]

    @classmethod
    def of(cls, link: str, plan: QuotaPlan) -> QuotaPlanData:
        """From a plan, or what became of it."""
        first = sorted(plan.rows, key=lambda row: row.state is QuotaState.SAME)
        return cls(
            link_name=link,
            counts={state.value: plan.count(state) for state in QuotaState},
            data=[QuotaData.of(row) for row in first[:SHOWN]],
            own_count=plan.own,
            notes=list(plan.notes),
        )


def factors_of(given: Sequence[str]) -> tuple[float, Mapping[str, float]]:
    """`2` and `KEY=2` as one factor for all and those of single keys. Raises ValueError naming what is none."""
    everything, single = 1.0, dict[str, float]()
    for text in given:
        name, sign, number = text.rpartition("=")
        try:
            factor = float(number)
        except ValueError:
            raise ValueError(f"factor: {text!r} is neither a number nor KEY=NUMBER") from None
        if sign:
            single[name] = factor
        else:
            everything = factor
    return everything, single
