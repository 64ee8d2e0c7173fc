"""What a link remembers of the schemas that it copies: one record for each subject of the target.

It is the id map between both registries, and it tells what the link has made from what the target had before.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """One version of the subject on the source, and what it is on the target.

    `own`: the target had it before, so it is never deleted. `deleted`: it was soft-deleted on the target.
    """

    version: int
    id: int
    target_version: int
    target_id: int
    own: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRecord:
    """A subject of a link. `subject` may hold any character.

    `link_id`: of the link that made it; another link of the same name knows nothing of it. `level`: the compatibility
    level that the link has set on the target, '' for none. `imports`: the link has set the subject's mode to IMPORT.
    `promoted`: the target's clients register there; the source's versions are not followed any more. `own`: the target
    had the subject before the link came to it, so its level is the target's.
    """

    link: str
    link_id: int
    subject: str
    entries: tuple[SchemaEntry, ...] = ()
    level: str = ""
    imports: bool = False
    promoted: bool = False
    own: bool = False
