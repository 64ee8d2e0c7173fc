"""Names that two migration files both mean. Pure.

Two migrations that own one topic or group would each promote it by rules of their own: a window of one, a set of the
other. Patterns overlap where some name could be meant by both, whether it is there or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.migration.rules.file import MigrationFile


def shared_name(one: MigrationFile, other: MigrationFile) -> str:
    """A name that both mean, with its kind, such as `topic 'orders'`; '' for none."""
    for kind in ("topic", "group"):
        if found := _shared(_names(one, kind), _names(other, kind)):
            return f"{kind} '{found}'"
    return ""


def _names(file: MigrationFile, kind: str) -> Sequence[str]:
    return [name for one in file.applications for name in (one.topics if kind == "topic" else one.groups)]


def _shared(names: Sequence[str], others: Sequence[str]) -> str:
    plain = {name for name in names if not name.endswith("*")}
    for other in others:
        if other in plain:
            return other
    patterns = [name for name in names if name.endswith("*")]
    other_patterns = [name for name in others if name.endswith("*")]
    return next(
        (found for a in patterns for b in others if (found := _in_both(a, b))),
        next((found for b in other_patterns for a in plain if (found := _in_both(b, a))), ""),
    )


def _in_both(pattern: str, name: str) -> str:
    """The narrower of a pattern and another name, or pattern, if they meet."""
    beginning, bare = pattern[:-1], name.removesuffix("*")
    if bare.startswith(beginning):
        return name
    return pattern if name.endswith("*") and beginning.startswith(bare) else ""
