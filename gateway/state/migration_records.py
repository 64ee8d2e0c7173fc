"""A migration as the state topic keeps it: what it is to come to, whether it goes on, and what was done for it so far.

What is to be done next is not kept: it follows from the world as it is (`migration/rules/resolve.py`). The journal is
for people and for the report; nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from gateway.state.records import LinkRecord

JOURNAL: Final = 1_000
"""Entries that are kept, the newest; how many went before them is counted."""


class MigrationState(StrEnum):
    """RUNNING: the leader carries it out. DONE: the file's end was reached; it is looked at no more."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    ABORTED = "ABORTED"
    DONE = "DONE"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Something that was done, or failed. `at_ms`: the wall clock of whoever led. `what`: a word such as APPLIED, or a
    step's kind. `names`: the topics and groups that it was about. `by`: who asked for it, '' for the leader itself.
    `detail`: one line. `pause_ms`: for how long writes were paused by it; -1 where none were, or it is not known."""

    at_ms: int
    what: str
    application: str = ""
    names: tuple[str, ...] = ()
    by: str = ""
    detail: str = ""
    pause_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRecord:
    """One migration. `file`: `migration/rules/file.py` `as_text`. `applied_by`: who applied that file.

    `link_id`: of the link when the file was applied, so that one that is made anew with its name is not taken for it;
    -1 in a record of an older version.

    `rehearsed`: by application, the wall clock's milliseconds when its promote was rehearsed last.
    `stopped_by`: the rule of its file that has PAUSED it, with value and bound; ''. `accepted`: by rule, the value with
    which somebody went on.
    `journal`: oldest first; `journal_dropped`: entries before its first one that are not kept.
    """

    name: str
    link: str
    file: str
    state: MigrationState = MigrationState.RUNNING
    state_since_ms: int = 0
    created_ms: int = 0
    applied_by: str = ""
    journal: tuple[JournalEntry, ...] = ()
    journal_dropped: int = 0
    rehearsed: Mapping[str, int] = field(default_factory=dict)
    stopped_by: str = ""
    accepted: Mapping[str, int] = field(default_factory=dict)
    link_id: int = -1

    def is_of(self, link: LinkRecord) -> bool:
        """The link that the file was applied for, not one that was made anew with its name."""
        return self.link == link.name and self.link_id in (-1, link.link_id)

    def noted(self, *entries: JournalEntry) -> MigrationRecord:
        """With these in its journal."""
        journal = self.journal + entries
        dropped = max(0, len(journal) - JOURNAL)
        return replace(self, journal=journal[dropped:], journal_dropped=self.journal_dropped + dropped)
