"""For how long mirrors back are kept after promotes, by migration files and links; and what of that goes into journals.

The file of a migration counts for the topics that it means, whoever has promoted them; the link for all others. Of
several migrations that mean one topic, the longest time counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from gateway.errors import ControlError
from gateway.migration.migrations import Migrations
from gateway.migration.rules.file import FileError, Meant, MigrationFile, of_text
from gateway.operations.records import Records
from gateway.state.link_config import parse
from gateway.state.migration_records import JournalEntry, MigrationRecord
from gateway.state.records import MirrorRecord
from gateway.state.store import StoreError

UNDO_OPEN = "UNDO_OPEN"
UNDO_OVER = "UNDO_OVER"
_log = structlog.get_logger("lockgate.control")


class _Kept(NamedTuple):
    """Of a file: for how long, and which topics it means."""

    keep_ms: int
    topics: Meant


def _kept(file: MigrationFile) -> _Kept:
    return _Kept(file.keep_ms, Meant((name, one.name) for one in file.applications for name in one.topics))


class KeepTimes:
    """What links and migrations ask for, as they are now."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._store = records.store
        self._files: dict[str, tuple[str, _Kept | None]] = {}

    def keep_ms(self, mirror: MirrorRecord) -> int:
        """For how long a mirror back of the topic is kept; 0: none begins by itself."""
        link = self._store.links.get(mirror.link)
        if link is None:
            return 0
        of_files = [file.keep_ms for _, file, _ in self._meaning(mirror)]
        return max(of_files) if of_files else parse(link.configs).failback_keep_ms

    def running(self, mirror: MirrorRecord) -> Sequence[str]:
        """Migrations that mean the topic and would promote it again by themselves, were it home."""
        return [record.name for record, _, _ in self._meaning(mirror) if record.state == "RUNNING"]

    def _meaning(self, mirror: MirrorRecord) -> Sequence[tuple[MigrationRecord, _Kept, str]]:
        """Migrations whose file means the topic, with the application that does."""
        found = []
        link = self._store.links.get(mirror.link)
        for record in self._store.migrations.values():
            is_its = link is not None and record.is_of(link)
            file = self._file(record) if is_its else None
            if file is None:
                continue
            if owner := file.topics.owner(mirror.source_topic):
                found.append((record, file, owner))
        self._files = {name: known for name, known in self._files.items() if name in self._store.migrations}
        return found

    def _file(self, record: MigrationRecord) -> _Kept | None:
        """None: a newer version has written one that this one cannot read."""
        text, file = self._files.get(record.name, ("", None))
        if text != record.file:
            try:
                file = _kept(of_text(record.file))
            except (FileError, ValueError):
                file = None
            self._files[record.name] = (record.file, file)
        return file


class UndoRetention(KeepTimes):
    """Of all links and migrations, with their journals."""

    def __init__(self, records: Records, migrations: Migrations) -> None:
        super().__init__(records)
        self._migrations = migrations

    async def told(self, mirror: MirrorRecord, what: str) -> None:
        """What became of the undo of a topic goes into the journals of its migrations."""
        until = datetime.fromtimestamp(mirror.cutover.undo_until_ms / 1000, UTC).isoformat(timespec="seconds")
        entry = UNDO_OPEN if what == "OPEN" else UNDO_OVER
        for record, _, application in self._meaning(mirror):
            noted = JournalEntry(
                self._records.now_ms(),
                entry,
                application=application,
                names=(mirror.source_topic,),
                detail=f"until {until}" if entry == UNDO_OPEN else f"the mirror back ends: it was kept until {until}",
            )
            try:
                await self._migrations.change(record, noted)
            except (ControlError, StoreError) as exc:
                _log.warning("migration journal not written", migration=record.name, reason=str(exc))
