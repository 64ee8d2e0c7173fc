"""Calls promotes off that people or migrations have begun. A migration that would promote the topics again is PAUSED
first: what was called off comes back when somebody asks for it, and not before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.migration.migrations import Migrations
from gateway.operations.records import Records
from gateway.state.migration_records import JournalEntry, MigrationState
from gateway.state.records import MirrorRecord
from gateway.topics.mirrors import Mirrors, MirrorView

CALLED_OFF: Final = "PROMOTE_CALLED_OFF"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledOff:
    """`mirrors`: all that go back. `paused`: migrations that were RUNNING, and would promote them again."""

    mirrors: Sequence[MirrorView]
    paused: Sequence[str]


class PromoteCallOffs:
    """Of all links. `claimed`: migrations that would promote a topic."""

    def __init__(
        self,
        *,
        records: Records,
        migrations: Migrations,
        mirrors: Mirrors,
        claimed: Callable[[MirrorRecord], Sequence[str]],
    ) -> None:
        self._records = records
        self._migrations = migrations
        self._mirrors = mirrors
        self._claimed = claimed

    async def call_off(self, link: str, topics: Sequence[str], by: str, *, validate_only: bool = False) -> CalledOff:
        """Call off the promotes of these topics, with all of their sets; returns when they are back.

        Args:
            by: who asks, for the journal.
            validate_only: nothing is changed; what would go back.

        Raises:
            BadRequest, NotFound, Conflict, TargetUnreachable: see `Mirrors.call_off`. One that has cut over behind the
                first look leaves its migration PAUSED.
        """
        going = await self._mirrors.call_off(link, topics, validate_only=True)
        forward = [view.record for view in going if not view.record.is_reverse]
        named = sorted({name for record in forward for name in self._claimed(record)})
        if validate_only:
            return CalledOff(mirrors=going, paused=named)
        names = tuple(view.record.mirror_topic for view in going)
        for name in named:
            entry = JournalEntry(self._records.now_ms(), CALLED_OFF, names=names, by=by)
            await self._migrations.change(self._migrations.record(name), entry, MigrationState.PAUSED)
        return CalledOff(mirrors=await self._mirrors.call_off(link, topics), paused=named)
