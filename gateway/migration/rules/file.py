"""The migration file: what a migration is to come to, as people write it down, and its JSON Schema.

It says how the world is to be, not what is to be done: `lockgate migration apply` finds out what is missing. So it is
applied again after each change of it, and after anything that somebody did by hand.

All names are the source's. One that ends in `*` means every name that begins so. `until` says how far an application
goes; a first file may stop at `mirrored`, and a later one go on.

No name belongs to two files (`shared_name`). Two migrations that own one topic or group would each promote it by rules
of their own: a window of one, a set of the other. Patterns overlap where some name could be meant by both, whether it
is there or not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gateway.kafka.rules.names import Beginnings, bad_name
from gateway.state.link_config import duration_ms
from gateway.validation import one_line

APPLICATIONS: Final = 2_000
NAMES: Final = 10_000
"""Of topics, groups or transactional ids in one application."""

_CLOCK: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"

SCHEMA_ID: Final = "https://lockgate.dev/schemas/migration-1.json"


class FileError(ValueError):
    """The file cannot be used: one line with the key and what is wrong with it."""


class Part(BaseModel):
    """Unknown keys are errors; nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Until(StrEnum):
    """How far an application goes."""

    MIRRORED = "mirrored"
    GROUPS = "groups"
    PROMOTED = "promoted"


class Day(StrEnum):
    """Of the week, in the window's own time zone."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


class Window(Part):
    """When promotes may begin. One that ends before it begins ends on the next day."""

    days: list[Day] = Field(default_factory=lambda: list(Day), min_length=1, description="Days on which it begins.")
    begins: str = Field(alias="from", pattern=_CLOCK, description='Local time, in quotes: "22:00".')
    ends: str = Field(alias="to", pattern=_CLOCK, description="Local time; the same as `from` for a whole day.")
    zone: str = Field(default="UTC", description="Time zone, as Europe/Berlin.")

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @field_validator("begins", "ends", mode="before")
    @classmethod
    def _quoted(cls, clock: Any) -> Any:
        if isinstance(clock, int):  # YAML 1.1 takes 22:00 for a number in base 60
            raise ValueError(f'write the time in quotes, such as "22:00" (it was read as the number {clock})')
        return clock

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str) -> str:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError) as exc:
            raise ValueError(f"{zone!r} is no time zone of this machine, such as Europe/Berlin or UTC") from exc
        return zone


class Options(Part):
    """How an application is moved; see docs/guides/migration-file.md."""

    replication_factor: int = Field(
        default=0, ge=0, le=32_767, description="Of its topics on the target; 0: as the link says."
    )
    configs: dict[str, str] = Field(default_factory=dict, description="Of its topics on the target, not synced then.")
    start: str = Field(
        default="", description="Where its mirrors begin: earliest, latest, a time; '': as the link says."
    )
    idle_groups: bool = Field(
        default=False,
        description="Promote groups that have no members anywhere, too; else a member must wait at the gateway.",
    )
    min_readiness: int = Field(
        default=0,
        ge=0,
        le=100,
        description="Promote topics only from this readiness on. What blocks a promote always does.",
    )


Names = Annotated[list[str], Field(max_length=NAMES)]


class Application(Part):
    """Topics and groups that move together."""

    name: str = Field(description="Of letters, digits, '.', '_' and '-'.")
    topics: Names = Field(default_factory=list, description="Source topics; `orders-*` is every one that begins so.")
    groups: Names = Field(default_factory=list, description="Groups of the source, likewise.")
    transactional_ids: Names = Field(default_factory=list, description="Of its producers; they are watched, not moved.")
    together: bool = Field(
        default=False, description="Its topics and groups change sides in one step: transactions tie them."
    )
    after: list[str] = Field(default_factory=list, max_length=APPLICATIONS, description="Applications that go first.")
    until: Until = Field(default=Until.PROMOTED, description="How far it goes.")
    windows: list[Window] = Field(default_factory=list, max_length=64, description="None: at any time.")
    rehearsals: list[Window] = Field(
        default_factory=list, max_length=64, description="Its promote is rehearsed once in each of these windows."
    )
    options: Options = Options()

    @field_validator("name")
    @classmethod
    def _fits_a_path(cls, name: str) -> str:
        if problem := bad_name(name):
            raise ValueError(problem)
        return name

    @field_validator("topics", "groups", "transactional_ids")
    @classmethod
    def _patterns(cls, names: list[str]) -> list[str]:
        for name in names:
            if not name or "*" in name[:-1]:
                raise ValueError(f"{name!r}: a name, or a beginning with one '*' at its end")
        return names

    @model_validator(mode="after")
    def _moves_something(self) -> Self:
        if not self.topics and not self.groups:
            raise ValueError(f"application '{self.name}' has neither topics nor groups")
        return self


class StopWhen(Part):
    """Bounds of what is promoted; one that is exceeded stops the migration. Not named: not looked at."""

    target_lag: int | None = Field(
        default=None, ge=0, description="Records that a group of a promoted application is behind on the target."
    )
    late_writes: int | None = Field(
        default=None, ge=0, description="Records that came to the source behind cutovers, beside the gateway; in all."
    )
    client_errors_percent: float | None = Field(
        default=None,
        gt=0,
        le=100,
        strict=True,
        description="Errors among the answers to clients of what is promoted, in the last minute.",
    )


class MigrationFile(Part):
    """A migration."""

    migration: str = Field(description="Its name.")
    link: str = Field(description="The link whose source is migrated; it exists already.")
    applications: list[Application] = Field(min_length=1, max_length=APPLICATIONS)
    failback_keep: str = Field(
        default="24h",
        description="For how long after its promote a topic can be taken back: 30m, 24h, 7d; 0: not by itself.",
    )

    waves: Annotated[int, Field(ge=1, le=APPLICATIONS)] | list[list[str]] = Field(
        default=1,
        description="Promotes go in so many waves; or lists of applications, a wave each, those that are in none last.",
    )
    wave_rest: str = Field(default="0", description="How long it rests between two waves: 30m, 24h, 7d.")
    stop_when: StopWhen = StopWhen()

    @property
    def wave_rest_s(self) -> float:
        """`wave_rest` in seconds."""
        return duration_ms(self.wave_rest) / 1000

    @property
    def keep_ms(self) -> int:
        """`failback_keep` in milliseconds."""
        return duration_ms(self.failback_keep)

    @field_validator("failback_keep", "wave_rest", mode="before")
    @classmethod
    def _as_text(cls, keep: Any) -> Any:
        text = str(keep) if isinstance(keep, int) and not isinstance(keep, bool) else keep
        if isinstance(text, str):
            duration_ms(text)
        return text

    @field_validator("migration")
    @classmethod
    def _fits_a_path(cls, name: str) -> str:
        if problem := bad_name(name):
            raise ValueError(problem)
        return name

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        counted = Counter(one.name for one in self.applications)
        if twice := sorted(name for name, count in counted.items() if count > 1):
            raise ValueError(f"two applications are named '{twice[0]}'")
        _named_once(self.applications)
        ordered(self.applications)
        _waves_fit(self)
        return self


def _named_once(applications: Iterable[Application]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for one in applications:
        for kind, names in (("topic", one.topics), ("group", one.groups)):
            for name in names:
                owner = seen.setdefault((kind, name), one.name)
                if owner != one.name:
                    raise ValueError(f"{kind} '{name}' is in the applications '{owner}' and '{one.name}'")


def _waves_fit(file: MigrationFile) -> None:
    if isinstance(file.waves, int):
        return
    names = {one.name for one in file.applications}
    at: dict[str, int] = {}
    for number, wave in enumerate(file.waves):
        if not wave:
            raise ValueError(f"waves: wave {number + 1} names no application")
        for name in wave:
            if name not in names:
                raise ValueError(f"waves: wave {number + 1} names '{name}', which is no application of the file")
            if name in at:
                raise ValueError(f"waves: application '{name}' is named twice")
            at[name] = number
    last = len(file.waves)
    for one in file.applications:
        late = [name for name in one.after if at.get(name, last) > at.get(one.name, last)]
        if late:
            raise ValueError(f"waves: application '{one.name}' goes after '{late[0]}', which is in a later wave")


def ordered(applications: Sequence[Application]) -> list[Application]:
    """In the order of `after`, else as they stand. Raises ValueError for a circle, or a name that is none of them."""
    by_name = {one.name: one for one in applications}
    for one in applications:
        for name in one.after:
            if name not in by_name:
                raise ValueError(f"application '{one.name}' goes after '{name}', which is not in the file")
    waits, left = {one.name: len(set(one.after)) for one in applications}, dict(by_name)
    behind: dict[str, list[str]] = {}
    for one in applications:
        for name in set(one.after):
            behind.setdefault(name, []).append(one.name)
    place = {one.name: at for at, one in enumerate(applications)}
    done: list[Application] = []
    ready = [one.name for one in applications if not waits[one.name]]
    while ready:
        done += [left.pop(name) for name in ready]
        freed = []
        for name in (each for one in ready for each in behind.get(one, ())):
            waits[name] -= 1
            if not waits[name]:
                freed.append(name)
        ready = sorted(freed, key=place.__getitem__)
    if left:
        raise ValueError(f"applications wait for each other: {', '.join(sorted(left))}")
    return done


class Meant:
    """Which owner means a name: the one that names it, else the first one whose pattern means it.

    It is asked for every name of a cluster, so names are looked up: a thousand patterns cost what one does.
    """

    def __init__(self, meant: Iterable[tuple[str, str]]) -> None:
        """`meant`: names and patterns, each with its owner, in order."""
        listed = list(meant)
        self._named = {name: owner for name, owner in listed if not name.endswith("*")}
        self._patterns = Beginnings((name[:-1], owner) for name, owner in listed if name.endswith("*"))

    def owner(self, name: str) -> str:
        """'' for none."""
        return self._named.get(name) or self.by_pattern(name)

    def by_pattern(self, name: str) -> str:
        """The first one whose pattern means it; '' for none."""
        found = self._patterns.first_of(name)
        return "" if found is None else found[1]


def parsed(document: Any) -> MigrationFile:
    """The file of what YAML or JSON holds.

    Raises:
        FileError: one line with the key, and what is wrong with it.
    """
    if not isinstance(document, dict):
        raise FileError("a migration file holds a mapping with `migration`, `link` and `applications`")
    try:
        return MigrationFile.model_validate(document)
    except ValidationError as exc:
        raise FileError(one_line(exc)) from exc


def plain(file: MigrationFile) -> dict[str, Any]:
    """As YAML and JSON hold it; what is as by default is left out."""
    found: dict[str, Any] = file.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return found


def as_text(file: MigrationFile) -> str:
    """For a record: JSON that `of_text` reads, the same for the same file."""
    return json.dumps(plain(file), separators=(",", ":"), sort_keys=True)


def of_text(text: str) -> MigrationFile:
    """Of a record. Raises FileError: it was written by a version whose files are others."""
    return parsed(json.loads(text))


def schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors: completion and checks while one types."""
    made = MigrationFile.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, "title": "lockgate migration"}
    return {**made, **head}


def shared_name(one: MigrationFile, other: MigrationFile) -> str:
    """A name that both mean, with its kind, such as `topic 'orders'`; '' for none."""
    for kind in ("topic", "group"):
        if found := _shared(_names(one, kind), _names(other, kind)):
            return f"{kind} '{found}'"
    return ""


def _names(file: MigrationFile, kind: str) -> Sequence[str]:
    return [name for one in file.applications for name in (one.topics if kind == "topic" else one.groups)]


def _shared(names: Sequence[str], others: Sequence[str]) -> str:
    """Of two that meet the narrower one: a name, or a pattern that begins as the other one does."""
    plain = {name for name in names if not name.endswith("*")}
    for other in others:
        if other in plain:
            return other
    return _narrower(names, others) or _narrower(others, names)


def _narrower(names: Iterable[str], others: Iterable[str]) -> str:
    """The first of the others that a pattern of `names` means whole; '' for none."""
    patterns = Meant((name, name) for name in names if name.endswith("*"))
    return next((other for other in others if patterns.by_pattern(other.removesuffix("*"))), "")
