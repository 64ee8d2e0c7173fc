"""Bodies of readiness. Names are the source's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from gateway.migration.rules.readiness import Code, Finding, Readiness, Weight


class FindingData(BaseModel):
    """Something that is missing. `points`: what it costs."""

    code: Code
    weight: Weight
    points: int
    reason: str
    remedy: str
    names: list[str]

    @classmethod
    def of(cls, one: Finding) -> FindingData:
        """From the judgement."""
        return cls(
            code=one.code,
            weight=one.weight,
            points=one.points,
            reason=one.reason,
            remedy=one.remedy,
            names=list(one.names),
        )


class ApplicationReadiness(BaseModel):
    """One application."""

    application: str
    score: int = Field(description="0 to 100; at most 40 while something blocks a promote.")
    findings: list[FindingData]

    @classmethod
    def of(cls, one: Readiness) -> ApplicationReadiness:
        """From the judgement."""
        return cls(
            application=one.application, score=one.score, findings=[FindingData.of(each) for each in one.findings]
        )


class ReadinessData(BaseModel):
    """How ready applications are to be promoted. Nothing was changed."""

    kind: Literal["LockgateReadiness"] = "LockgateReadiness"
    link_name: str
    score: int = Field(description="Of the application that is least ready; 100 when there is none.")
    applications: list[ApplicationReadiness]

    @classmethod
    def of(cls, link: str, judged: Sequence[Readiness]) -> ReadinessData:
        """From the judgement."""
        return cls(
            link_name=link,
            score=min((one.score for one in judged), default=100),
            applications=[ApplicationReadiness.of(one) for one in judged],
        )
