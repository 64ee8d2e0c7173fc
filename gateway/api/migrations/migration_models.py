"""Bodies of /v3/migrations. Names are the source's."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from gateway.console.rules.events import sentence
from gateway.migration.migrations import MigrationView
from gateway.migration.rules.client_errors import GROUP, WINDOW_S, AnswerCount, ClientErrors, Name
from gateway.migration.rules.file import Until, plain
from gateway.migration.rules.resolve import ApplicationPlan, MigrationStepKind, PlannedStep, Stage
from gateway.migration.rules.undo import UndoStanding
from gateway.migration.undo import Undone
from gateway.state.migration_records import JournalEntry, MigrationRecord, MigrationState
from protocol.errors import error_name


class StepData(BaseModel):
    """Something that is left to be done."""

    kind: MigrationStepKind
    topics: list[str]
    groups: list[str]
    waits_for: str = Field(description="Why it is not done now; empty: it is under way, or about to be.")

    @classmethod
    def of(cls, step: PlannedStep) -> StepData:
        """From the plan."""
        return cls(kind=step.kind, topics=list(step.topics), groups=list(step.groups), waits_for=step.waits_for)


class UndoStandingData(BaseModel):
    """Whether the promotes of an application can be taken back."""

    promoted: int = Field(description="Topics that are written on the target.")
    open: int = Field(description="Topics of them that are mirrored back, so that they can go home.")
    over: int = Field(description="Topics whose time is over.")
    refused: int = Field(description="Topics that could not be mirrored back.")
    until_time_ms: int | None = Field(
        description="Until when, the first of them; null: without an end, or none is open."
    )
    records_at_risk: int | None = Field(description="Records that the source does not have yet; null: not known.")
    late_records: int | None = Field(
        default=0,
        description="Records that somebody wrote to the source beside the gateway; with any, an undo is refused. "
        "null: not measured since the present leader leads; an undo measures them.",
    )

    @classmethod
    def of(cls, found: UndoStanding) -> UndoStandingData:
        """From the view."""
        return cls(
            promoted=found.promoted,
            open=found.open,
            over=found.over,
            refused=found.refused,
            until_time_ms=found.until_ms or None,
            records_at_risk=found.at_risk,
            late_records=found.late,
        )


class ApplicationData(BaseModel):
    """One application, as of now."""

    name: str
    stage: Stage
    until: Until
    together: bool
    topics: list[str]
    groups: list[str]
    steps: list[StepData] = Field(description="What is left, up to `until`.")
    steps_beyond: int = Field(description="How many steps would be left beyond that.")
    problems: list[str] = Field(description="What only a person can mend.")
    undo: UndoStandingData | None = Field(
        default=None, description="Null: nothing is promoted, or no undo was asked for."
    )

    @classmethod
    def of(cls, plan: ApplicationPlan, undo: UndoStanding | None) -> ApplicationData:
        """From the plan."""
        return cls(
            name=plan.application.name,
            stage=plan.stage,
            until=plan.application.until,
            together=plan.application.together,
            topics=list(plan.topics),
            groups=list(plan.groups),
            steps=[StepData.of(step) for step in plan.steps],
            steps_beyond=plan.beyond,
            problems=list(plan.problems),
            undo=None if undo is None else UndoStandingData.of(undo),
        )


class JournalData(BaseModel):
    """Something that was done, or refused. `pause_ms`: null where no writes were paused, or it is not known.

    `line`: the same as a sentence.
    """

    time_ms: int
    line: str
    what: str
    application: str
    names: list[str]
    by: str
    detail: str
    pause_ms: int | None

    @classmethod
    def of(cls, migration: str, entry: JournalEntry) -> JournalData:
        """From the record of a migration."""
        return cls(
            time_ms=entry.at_ms,
            line=sentence(migration, entry),
            what=entry.what,
            application=entry.application,
            names=list(entry.names),
            by=entry.by,
            detail=entry.detail,
            pause_ms=None if entry.pause_ms < 0 else entry.pause_ms,
        )


class FailingData(BaseModel):
    """A topic or a group whose clients get errors, as clients of the gateway name it."""

    kind: Literal["topic", "group"]
    name: str
    percent: float | None = Field(description="Of its answers, 0 to 100; null: too few were looked at.")
    answers_looked_at: int
    errors_seen: int
    error: str = Field(description="The most frequent one, by Kafka's name.")
    client_id: str = Field(description="Of a client that got it; empty: not known.")

    @classmethod
    def of(cls, name: Name, count: AnswerCount) -> FailingData:
        """From what was seen."""
        first = count.errors[0] if count.errors else None
        return cls(
            kind="group" if name.kind == GROUP else "topic",
            name=name.name,
            percent=_rounded(count.percent),
            answers_looked_at=count.samples,
            errors_seen=count.failures,
            error="" if first is None else error_name(first.code),
            client_id="" if first is None else first.client,
        )


class ClientErrorsData(BaseModel):
    """Errors among the answers to clients of what is promoted, since the migration was applied, stopped or resumed."""

    percent: float | None = Field(description="Of all answers, 0 to 100; null: too few were looked at.")
    answers_looked_at: int
    errors_seen: int
    window_s: float = Field(description="How far back answers count.")
    failing: list[FailingData] = Field(description="Where the errors are, at most ten, those with most first.")
    unheard_gateways: list[str] = Field(description="Which have not told what they have seen.")

    @classmethod
    def of(cls, found: ClientErrors) -> ClientErrorsData:
        """From the view."""
        total = found.total
        return cls(
            percent=_rounded(total.percent),
            answers_looked_at=total.samples,
            errors_seen=total.failures,
            window_s=WINDOW_S,
            failing=[FailingData.of(*one) for one in found.failing[:10]],
            unheard_gateways=list(found.unheard),
        )


def _rounded(percent: float | None) -> float | None:
    return None if percent is None else round(percent, 2)


class MigrationData(BaseModel):
    """A migration, and what is left of it."""

    kind: Literal["LockgateMigration"] = "LockgateMigration"
    migration: str
    link_name: str
    state: MigrationState
    stopped_by: str = Field(default="", description="The rule of its file that has PAUSED it, with value and bound.")
    state_time_ms: int
    created_time_ms: int
    applied_by: str
    done: bool = Field(description="Nothing is left, as of now.")
    problems: list[str]
    applications: list[ApplicationData]
    running: list[str] = Field(description="Steps that are under way.")
    failures: dict[str, str] = Field(description="Steps that were refused, and are tried again.")
    client_errors: ClientErrorsData | None = Field(
        default=None, description="Null: its file has no client_errors_percent, or no gateway was asked yet."
    )
    journal: list[JournalData]
    journal_dropped: int = Field(description="Entries before the first one, which are not kept.")
    file: dict[str, Any]

    @classmethod
    def of(cls, view: MigrationView) -> MigrationData:
        """From the view."""
        record = view.record
        return cls(
            migration=record.name,
            link_name=record.link,
            state=record.state,
            stopped_by=record.stopped_by,
            state_time_ms=record.state_since_ms,
            created_time_ms=record.created_ms,
            applied_by=record.applied_by,
            done=view.plan.is_done,
            problems=list(view.plan.problems),
            applications=[
                ApplicationData.of(one, view.undo.get(one.application.name)) for one in view.plan.applications
            ],
            running=list(view.running),
            failures=dict(view.failures),
            client_errors=None if view.client_errors is None else ClientErrorsData.of(view.client_errors),
            journal=[JournalData.of(record.name, entry) for entry in record.journal],
            journal_dropped=record.journal_dropped,
            file=plain(view.file),
        )


class MigrationUndoData(BaseModel):
    """What goes home of a migration, or would, by names of the target; topics go on behind the answer."""

    kind: Literal["LockgateMigrationUndo"] = "LockgateMigrationUndo"
    link_name: str
    mirror_topic_names: list[str]
    groups: list[str] = Field(description="Groups that change sides with the topics.")
    demoted_groups: list[str] = Field(description="Groups that are demoted, before the topics.")
    migration: MigrationData

    @classmethod
    def of(cls, done: Undone) -> MigrationUndoData:
        """From what was begun."""
        return cls(
            link_name=done.view.record.link,
            mirror_topic_names=list(done.home.topics),
            groups=list(done.home.groups),
            demoted_groups=list(done.home.demoted),
            migration=MigrationData.of(done.view),
        )


class MigrationItem(BaseModel):
    """A migration in a list."""

    migration: str
    link_name: str
    state: MigrationState
    state_time_ms: int
    applied_by: str

    @classmethod
    def of(cls, record: MigrationRecord) -> MigrationItem:
        """From the record."""
        return cls(
            migration=record.name,
            link_name=record.link,
            state=record.state,
            state_time_ms=record.state_since_ms,
            applied_by=record.applied_by,
        )


class MigrationList(BaseModel):
    """All migrations, by name."""

    kind: Literal["LockgateMigrationList"] = "LockgateMigrationList"
    data: list[MigrationItem]
