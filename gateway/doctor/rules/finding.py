"""What `lockgate doctor` says: one finding for each thing that it has looked at, with a remedy unless all is well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is. WARN: it works, or cannot be told; FAIL: something does not work, or will not."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """`check`: what was looked at, one word. `what`: of whom (`target`, `source west`, `gateway`). `value`: what was
    found. `remedy`: what helps; '' where all is well, and nowhere else."""

    check: str
    level: Level
    what: str
    value: str
    remedy: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for trouble without a remedy, or a remedy without trouble."""
        if (self.level is Level.OK) != (not self.remedy):
            raise ValueError(f"{self.check} of {self.what}: a remedy belongs to what is not OK")


def ok(check: str, what: str, value: str) -> DoctorFinding:
    """All is well."""
    return DoctorFinding(check=check, level=Level.OK, what=what, value=value)


def warn(check: str, what: str, value: str, remedy: str) -> DoctorFinding:
    """To be looked at."""
    return DoctorFinding(check=check, level=Level.WARN, what=what, value=value, remedy=remedy)


def bad(check: str, what: str, value: str, remedy: str) -> DoctorFinding:
    """To be mended."""
    return DoctorFinding(check=check, level=Level.FAIL, what=what, value=value, remedy=remedy)


def worst(findings: Iterable[DoctorFinding]) -> Level:
    """The worst level; OK of none."""
    levels = {finding.level for finding in findings}
    return next((level for level in (Level.FAIL, Level.WARN) if level in levels), Level.OK)


def many(count: int, one: str) -> str:
    """A count with its noun: 1 broker, 3 brokers."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"
