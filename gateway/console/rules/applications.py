"""Each application's way through the steps: how much of it is mirrored, moved, gated, promoted. Pure.

An application is one of a migration's file; what a link has without any migration is shown as one application of the
link's name. The steps are counts and no plan: what is done next, and why not now, is what `migration status` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Final

from gateway.console.rules.sections import Cell, Row, Rows
from gateway.console.rules.undo import of_application
from gateway.migration.rules.file import Application, FileError, Meant, MigrationFile, of_text
from gateway.state.views import StateViews
from gateway.telemetry.numbers import MigrationNumbers

LEVEL_MS: Final = 10_000
"""A copy that is behind by less than this is called level: its last record is on the way."""
_NAMES: Final = 500  # of its topics, of its groups


def applications(
    views: StateViews, topics: Rows, groups: Rows, migrations: Sequence[MigrationNumbers] = ()
) -> dict[str, Row]:
    """By `migration/application`; by `/link` of what is in no migration.

    `mirrored`, `moved`, `gated`, `groups_moved`, `promoted` are counts of `topics` and `groups`; `applications`: how
    many its migration has; `topic_names`, `group_names`: the first ones;
    `stopped_by`: the rule of its file that has paused it, with value and bound;
    `problem`: what holds it until a person mends it, or why its step was refused.
    """
    by_topic, by_group = _by_source(topics, "source_topic"), _by_source(groups, "source_group")
    numbers = {one.migration: one for one in migrations}
    found: dict[str, Row] = {}
    told: set[tuple[str, str, str]] = set()
    for record in views.migrations.values():
        file = _file(record.file)
        in_file = () if file is None else file.applications
        topics_of = _named([(one.name, one.topics) for one in in_file], by_topic.get(record.link, {}))
        groups_of = _named([(one.name, one.groups) for one in in_file], by_group.get(record.link, {}))
        for one in in_file:
            own_topics, own_groups = topics_of[one.name], groups_of[one.name]
            told |= {(record.link, "t", name) for name in own_topics}
            told |= {(record.link, "g", name) for name in own_groups}
            seen = numbers.get(record.name)
            row = _row(one, own_topics, own_groups)
            found[f"{record.name}/{one.name}"] = {
                **row,
                "migration": record.name,
                "state": record.state.value,
                "stopped_by": record.stopped_by,
                "applications": len(in_file),
                "link": record.link,
                "readiness": None if seen is None else seen.readiness.get(one.name),
                "problem": "" if seen is None else _problem(seen, one.name),
            }
    for link in views.links:
        rest_topics = {name: row for name, row in by_topic.get(link, {}).items() if (link, "t", name) not in told}
        rest_groups = {name: row for name, row in by_group.get(link, {}).items() if (link, "g", name) not in told}
        if rest_topics or rest_groups:
            row = _row(None, rest_topics, rest_groups)
            found[f"/{link}"] = {
                **row,
                "name": link,
                "migration": "",
                "state": "",
                "stopped_by": "",
                "applications": 1,
                "link": link,
                "readiness": None,
                "problem": "",
            }
    return found


def _problem(seen: MigrationNumbers, application: str) -> str:
    """The first thing that only a person can mend, or why a step was refused."""
    problems = (one.removeprefix(f"{application}: ") for one in seen.problems if one.startswith(f"{application}: "))
    refused = (f"refused: {why}" for step, why in seen.refused.items() if f" {application}: " in step)
    return next(chain(problems, refused), "")


@lru_cache(maxsize=64)
def _file(text: str) -> MigrationFile | None:
    """None: it was written by a version whose files are others."""
    try:
        return of_text(text)
    except (FileError, ValueError):
        return None


def _by_source(rows: Rows, field: str) -> dict[str, dict[str, Row]]:
    """Link -> name on the source -> row."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows.values():
        found.setdefault(str(row["link"]), {})[str(row[field])] = row
    return found


def _named(names: Sequence[tuple[str, Sequence[str]]], rows: Rows) -> dict[str, dict[str, Row | None]]:
    """Application -> its names -> row, None of one that is not mirrored yet. Patterns mean those that are."""
    found: dict[str, dict[str, Row | None]] = {
        application: {name: rows.get(name) for name in own if not name.endswith("*")} for application, own in names
    }
    meant = Meant((name, application) for application, own in names for name in own)
    for name, row in rows.items():
        if owner := meant.owner(name):
            found[owner][name] = row
    return found


def _row(
    one: Application | None, topics: Mapping[str, Row | None], groups: Mapping[str, Row | None]
) -> dict[str, Cell]:
    there = [row for row in topics.values() if row is not None]
    gated = [row for row in groups.values() if row is not None]
    return {
        "name": "" if one is None else one.name,
        "together": one is not None and one.together,
        "after": [] if one is None else list(one.after),
        "until": "promoted" if one is None else one.until.value,
        "topics": len(topics),
        "groups": len(groups),
        "mirrored": _count(there, _is_level),
        "moved": _count(there, _has_moved),
        "gated": _count(gated, lambda row: row["state"] == "PROMOTED" or bool(row["waiting"])),
        "waiting": sum(row["waiting"] for row in gated if isinstance(row["waiting"], int)),
        "members": sum(row["members"] for row in gated if isinstance(row["members"], int)),
        "groups_moved": _count(gated, lambda row: row["state"] == "PROMOTED"),
        "promoted": _count(there, lambda row: row["written_on"] == "target"),
        "trouble": _count(there, lambda row: row["state"] in ("FAILED", "LINK_FAILED", "SOURCE_UNAVAILABLE"))
        + _count(gated, lambda row: row["state"] == "FAILED"),
        "topic_names": [name if row is None else row["topic"] for name, row in islice(topics.items(), _NAMES)],
        "group_names": [name if row is None else row["group"] for name, row in islice(groups.items(), _NAMES)],
        **of_application(there),
    }


def _count(rows: Iterable[Row], holds: Callable[[Row], object]) -> int:
    return sum(bool(holds(row)) for row in rows)


def _is_level(row: Row) -> bool:
    lag_ms = row["lag_ms"]
    if row["written_on"] == "target":
        return True
    return row["lag"] is not None and (not row["lag"] or (isinstance(lag_ms, int) and lag_ms <= LEVEL_MS))


def _has_moved(row: Row) -> bool:
    """No record came beside the gateway for a minute: nobody writes to the source any more, as far as is seen."""
    return row["written_on"] == "target" or (row["lag"] is not None and not row["bypassed"])
