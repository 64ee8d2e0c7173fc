"""The migration file of what was discovered: a draft, to be read by somebody who knows the applications. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from gateway.migration.rules.file import Application, MigrationFile, plain
from gateway.migration.rules.sets import Discovered, Found, SetKind

_WORDS = {
    SetKind.STREAMS: "a Kafka Streams application: it must move as one",
    SetKind.TRANSACTIONAL: "tied by transactions: it must move as one",
    SetKind.CONNECT: "a Connect cluster: it must move as one",
    SetKind.PLAIN: "nothing binds it: it may be split",
}


def draft(found: Discovered, link: str) -> MigrationFile | None:
    """The file; None when the source has nothing to move. Sets without topics and groups (an idle transactional id)
    have nothing that a file can hold."""
    holding = [one for one in found.sets if one.topics or one.groups]
    kept = {one.name for one in holding}
    applications = [
        Application(
            name=one.name,
            topics=list(one.topics),
            groups=list(one.groups),
            transactional_ids=list(one.transactional_ids),
            together=one.binds,
            after=[name for name in one.after if name in kept],
        )
        for one in holding
    ]
    return MigrationFile(migration=link, link=link, applications=applications) if applications else None


def draft_yaml(found: Discovered, file: MigrationFile) -> str:
    """The file as YAML, with what was found as comments."""
    by_name = {one.name: one for one in found.sets}
    lines = [
        "# yaml-language-server: $schema=migration.schema.json",
        "# Write that schema with: lockgate migration schema > migration.schema.json",
        f"# A draft of what was found on cluster {found.cluster_id or '(unknown)'}. Read it, change it, then:",
        "#   lockgate migration apply FILE --dry-run",
    ]
    document = plain(file)
    lines += _yaml({key: value for key, value in document.items() if key != "applications"})
    lines.append("applications:")
    for one in document["applications"]:
        lines += [f"  {line}" for line in _comments(by_name[one["name"]])]
        lines += [f"  {line}" for line in _yaml([one])]
    lines += ["", "# Not known, and how to tell it:"]
    for each in found.not_known:
        lines += [f"# - {each.what}", f"#   {each.how_to_tell}"]
    return "\n".join(lines) + "\n"


def _yaml(value: Any) -> list[str]:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=False)
    return text.rstrip("\n").split("\n")


def _comments(one: Found) -> Iterator[str]:
    yield f"# {one.name}: {_WORDS[one.kind]}"
    for tie in [tie for tie in one.ties if tie.binds][:20]:
        sure = " (likely)" if tie.likely else ""
        yield f"#   {tie.one.kind} {tie.one.name} - {tie.other.kind} {tie.other.name}: {tie.reason}{sure}"
