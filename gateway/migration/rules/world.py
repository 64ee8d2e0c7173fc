"""The world as a migration sees it, under the source's names: plain values, read anew for each look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from gateway.migration.rules.client_errors import ClientErrors
from gateway.state.records import GroupState, MirrorState, Undo

_BEGINNING: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStanding:
    """A mirror topic.

    `mirror_topic`: its name on the target. `link`: whose it is. `lag`: records, None while it is not known. `reverse`:
    it is mirrored back, or on its way to that. `remark`: what it waits for, or why it FAILED. `written_on_target`:
    where clients' writes go, since `promoted_ms`; `late`: records that came to the source behind that, if `late_known`.
    `undo`: of its promote; `kept`: its mirror back has begun by itself, so it is promoted, and can go home until
    `undo_until_ms`. Times are of the wall clock.
    """

    mirror_topic: str
    state: MirrorState
    link: str
    lag: int | None = None
    reverse: bool = False
    remark: str = ""
    written_on_target: bool = False
    promoted_ms: int = 0
    late: int = 0
    late_known: bool = True
    undo: Undo = Undo.NONE
    undo_until_ms: int = 0

    @property
    def kept(self) -> bool:
        """It is mirrored back by itself."""
        return self.reverse and self.undo is not Undo.NONE

    @property
    def is_promoted(self) -> bool:
        """The target is written, and nobody is about to go back by hand."""
        return self.state is MirrorState.STOPPED or self.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStanding:
    """A mirror group. `members`: on the source, None while it is not known. `waiting`: members at its gate. `demoted`:
    somebody has sent it back. `session_timeout_s`: as members that wait say it, the longest; 0 when none does.
    `alive`: client id and host of those on the source whose process, as far as names tell, does not wait at its gate.
    `remark`: what it waits for. `target_lag`: records it is behind on the target, None while that is not known.
    `promoted_ms`: since when it is PROMOTED, wall clock; 0 while it is not."""

    group: str
    state: GroupState
    members: int | None = None
    waiting: int = 0
    alive: tuple[str, ...] = ()
    demoted: bool = False
    session_timeout_s: float = 0.0
    remark: str = ""
    target_lag: int | None = None
    promoted_ms: int = 0

    @property
    def is_promoted(self) -> bool:
        """It reads on the target."""
        return self.state is GroupState.PROMOTED


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that is looked at. Maps are by the source's names.

    `link_there`, `link_paused`, `auto_promote`: of the link, whose groups may be promoted by themselves.
    `source_topics`, `source_groups`: None while the source does not tell, for the reason in `source_trouble`.
    `readiness`: of each application, where it is asked for. `client_errors`: among the answers to clients of what is
    promoted, since the migration goes on; None while nobody was asked.
    """

    now: datetime = _BEGINNING
    link_there: bool = True
    link_paused: bool = False
    auto_promote: bool = False
    source_topics: frozenset[str] | None = frozenset()
    source_groups: frozenset[str] | None = frozenset()
    source_trouble: str = ""
    mirrors: Mapping[str, MirrorStanding] = field(default_factory=dict)
    groups: Mapping[str, GroupStanding] = field(default_factory=dict)
    readiness: Mapping[str, int] = field(default_factory=dict)
    client_errors: ClientErrors | None = None
