"""Bodies of /v3/migrations:check. A migration file goes in as text, and comes out as JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.migration.rules.file import MigrationFile, plain
from gateway.migration.rules.file_text import TextError


class MigrationText(BaseModel):
    """What somebody has written."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(description="The migration file, as YAML.")


class FileProblem(BaseModel):
    """What is wrong with a file."""

    line: int | None = Field(description="From 1; null: not known, or not about one line.")
    message: str


class MigrationFileCheck(BaseModel):
    """A migration file as it was read, or what is wrong with it."""

    kind: Literal["LockgateMigrationFileCheck"] = "LockgateMigrationFileCheck"
    file: dict[str, Any] | None = Field(
        description="As PUT /v3/migrations/{migration} takes it, without what is as by default; null: it has problems."
    )
    problems: list[FileProblem]
    more_problems: int = Field(description="How many there are besides.")

    @classmethod
    def of(cls, file: MigrationFile) -> MigrationFileCheck:
        """It can be applied."""
        return cls(file=plain(file), problems=[], more_problems=0)

    @classmethod
    def refused(cls, error: TextError) -> MigrationFileCheck:
        """It cannot be used."""
        found = [FileProblem(line=one.line, message=one.message) for one in error.problems]
        return cls(file=None, problems=found, more_problems=error.more)
