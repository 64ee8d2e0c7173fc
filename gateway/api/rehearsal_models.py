"""Bodies of rehearsals of promotes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.models import Body
from gateway.cutover.promote.rehearsal import Rehearsal
from gateway.cutover.write_pause.interface import Stall


class RehearsePromote(Body):
    """Which mirror topics, as one set, and how long their writes may be paused."""

    mirror_topic_names: list[str]
    bound_ms: int = Field(default=0, ge=0, description="Of the write pause; 0, or more than a promote's: that one.")


class StallData(BaseModel):
    """A client whose requests waited: from its first one to the last that was let go."""

    client_id: str
    address: str
    stall_ms: int

    @classmethod
    def of(cls, stall: Stall) -> StallData:
        """As the gateways saw it."""
        return cls(client_id=stall.client_id, address=stall.address, stall_ms=round(stall.seconds * 1000))


class RehearsalData(BaseModel):
    """What a rehearsal came to."""

    kind: Literal["LockgatePromoteRehearsal"] = "LockgatePromoteRehearsal"
    link_name: str
    mirror_topic_names: list[str]
    reached: bool = Field(description="It came to where a promote cuts over.")
    given_up: str = Field(description="Why it did not.")
    pause_ms: int | None = Field(description="For how long writes were paused; null: they were not.")
    bound_ms: int = Field(description="What the write pause was bounded by.")
    num_clients: int = Field(description="Clients whose requests waited.")
    stalls: list[StallData] = Field(description="Of the 100 that waited longest.")
    gateways_not_told: list[str] = Field(description="Gateways that did not say whose requests waited there.")

    @classmethod
    def of(cls, link: str, rehearsal: Rehearsal) -> RehearsalData:
        """Of one that is over."""
        pause = rehearsal.pause
        return cls(
            link_name=link,
            mirror_topic_names=list(rehearsal.topics),
            reached=not rehearsal.given_up,
            given_up=rehearsal.given_up,
            pause_ms=None if pause is None else round(pause.paused_s * 1000),
            bound_ms=round(rehearsal.bound_s * 1000),
            num_clients=0 if pause is None else pause.clients,
            stalls=[] if pause is None else [StallData.of(each) for each in pause.stalls],
            gateways_not_told=[] if pause is None else list(pause.untold),
        )


class RehearsalPlanData(BaseModel):
    """What would be rehearsed."""

    kind: Literal["LockgatePromoteRehearsalPlan"] = "LockgatePromoteRehearsalPlan"
    link_name: str
    mirror_topic_names: list[str]


class ApplicationRehearsal(BaseModel):
    """Of one application of a migration. `refused`: why nothing was begun; null then is the rehearsal."""

    application: str
    refused: str
    rehearsal: RehearsalData | None


class MigrationRehearsalData(BaseModel):
    """Of a migration's applications that are not promoted yet, one after the other."""

    kind: Literal["LockgateMigrationRehearsal"] = "LockgateMigrationRehearsal"
    migration: str
    applications: list[ApplicationRehearsal]
