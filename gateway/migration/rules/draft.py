"""The migration file of what was discovered: a draft, to be read by somebody who knows the applications. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import yaml

from gateway.migration.rules.file import APPLICATIONS, NAMES, Application, MigrationFile, Until, plain
from gateway.migration.rules.sets import Discovered, MoveSet, SetKind

_WORDS = {
    SetKind.STREAMS: "a Kafka Streams application: it must move as one",
    SetKind.TRANSACTIONAL: "tied by transactions: it must move as one",
    SetKind.CONNECT: "a Connect cluster: it must move as one",
    SetKind.PLAIN: "no transactions tie these topics together; they can move separately",
}


MANY: Final = 20
"""So many topics that nothing ties and nobody reads are one application."""
REST: Final = "rest"


def draft(found: Discovered, link: str) -> MigrationFile | None:
    """The file; None when the source has nothing to move.

    Nothing in it changes sides: each application goes `until: mirrored`, for somebody to say more.
    Sets without topics and groups (an idle transactional id) have nothing that a file can hold. Names with a `*`, which
    only groups can have, cannot be in it: they would be patterns (`left_out`).
    """
    holding = [one for one in found.sets if one.topics or any(map(_nameable, one.groups))]
    lonely = [one for one in holding if one.kind is SetKind.PLAIN and not one.groups]
    merged = {one.name for one in lonely} if len(lonely) > MANY else set[str]()
    kept = [one for one in holding if one.name not in merged][: APPLICATIONS - 1]
    names = {one.name for one in kept}
    applications = [_application(one, names) for one in kept]
    if merged:
        topics = sorted(name for one in lonely for name in one.topics)
        after = sorted({name for one in lonely for name in one.after} & names)
        rest = Application(name=_free(REST, names), topics=topics[:NAMES], after=after, until=Until.MIRRORED)
        applications.append(rest)
    return MigrationFile(migration=link, link=link, applications=applications) if applications else None


def left_out(found: Discovered, file: MigrationFile | None) -> list[str]:
    """What was found and is not in the file, one line each."""
    there = {name for one in (file.applications if file else ()) for name in (*one.topics, *one.groups)}
    names = sorted(name for one in found.sets for name in (*one.topics, *one.groups) if name not in there)
    return [f"{name}: a name with a '*' would be a pattern, or the file is full" for name in names[:50]]


def _application(one: MoveSet, kept: Collection[str]) -> Application:
    return Application(
        name=one.name,
        topics=list(one.topics)[:NAMES],
        groups=[name for name in one.groups if _nameable(name)][:NAMES],
        transactional_ids=[name for name in one.transactional_ids if _nameable(name)][:NAMES],
        together=one.binds,
        after=[name for name in one.after if name in kept],
        until=Until.MIRRORED,
    )


def _nameable(name: str) -> bool:
    return bool(name) and "*" not in name


def _free(name: str, taken: Collection[str]) -> str:
    return name if name not in taken else f"{name}-topics"


def draft_yaml(found: Discovered, file: MigrationFile) -> str:
    """The file as YAML, with what was found as comments."""
    by_name = {one.name: one for one in found.sets}
    lines = [
        "# yaml-language-server: $schema=migration.schema.json",
        "# Write that schema with: lockgate migration schema > migration.schema.json",
        f"# A draft of what was found on cluster {found.cluster_id or '(unknown)'}. Read it, change it, then:",
        "#   lockgate migration apply FILE --dry-run",
        "# `until: mirrored` copies, and changes nobody's side; `until: promoted` takes an application over.",
    ]
    document = plain(file)
    lines += _yaml({key: value for key, value in document.items() if key != "applications"})
    lines.append("applications:")
    for one in document["applications"]:
        lines += [f"  {line}" for line in _comments(by_name.get(one["name"]))]
        lines += [f"  {line}" for line in _yaml([one])]
    lines += ["", *(f"# Left out: {each}" for each in left_out(found, file)), "# Not known, and how to tell it:"]
    for each in found.not_known:
        lines += [f"# - {each.what}", f"#   {each.how_to_tell}"]
    return "\n".join(lines) + "\n"


def _yaml(value: Any) -> list[str]:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=False)
    return text.rstrip("\n").split("\n")


def _comments(one: MoveSet | None) -> Iterator[str]:
    if one is None:
        yield "# Topics that nothing ties to anything, and that no group reads"
        return
    yield f"# {one.name}: {_WORDS[one.kind]}"
    for tie in [tie for tie in one.ties if tie.binds][:20]:
        sure = " (likely)" if tie.likely else ""
        yield f"#   {tie.one.kind} {tie.one.name} - {tie.other.kind} {tie.other.name}: {tie.reason}{sure}"
