"""What a change of a record means to people: events of a timeline. Pure: two versions of a record in, events out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.console.rules.sections import Row
from gateway.state.gateway_records import GatewayRecord
from gateway.state.migration_records import JournalEntry, MigrationRecord
from gateway.state.mirror_states import shown
from gateway.state.records import GroupRecord, LinkRecord, MirrorRecord

_MIRROR = {
    "ACTIVE": "is mirrored",
    "PAUSED": "is paused",
    "PENDING_STOPPED": "is being promoted",
    "STOPPED": "is written on the target",
    "FAILED": "has FAILED",
    "SOURCE_UNAVAILABLE": "waits for its source",
    "PENDING_MIRROR": "is being created",
    "PENDING_SYNCHRONIZE": "is compared with the source, to be mirrored back",
    "PENDING_SETUP_FOR_RESTORE": "is created anew on the source",
    "PENDING_RESTORE_MIRROR": "fills the source anew",
}
_BACK = {
    "ACTIVE": "is mirrored back to the source",
    "PENDING_MIRROR": "is about to be mirrored back",
    "PENDING_STOPPED": "is failing back",
}
_GROUP = {
    "ACTIVE": "waits at its gate",
    "PENDING_PROMOTED": "is being promoted",
    "PROMOTED": "reads on the target",
    "FAILED": "was not promoted",
}
_OF_ALL = {
    "APPLIED": "{by} applied the file of {migration}",
    "PAUSED": "{by} paused {migration}",
    "RESUMED": "{by} resumed {migration}",
    "ABORTED": "{by} aborted {migration}",
    "DONE": "{migration} has come to the end of its file",
    "STOPPED_BY_RULE": "a rule of its file stopped {migration}",
}
_STEPS = {
    "CREATE_MIRROR": ("began to mirror {names}", "mirror {names}"),
    "DECLARE_GROUP": ("declared group {names}", "declare group {names}"),
    "PROMOTE_GROUP": ("promoted group {names} to the target", "promote group {names}"),
    "PROMOTE_TOPICS": ("promoted topics {names} to the target", "promote topics {names}"),
    "PROMOTE_TOGETHER": (
        "promoted topics and groups {names} to the target as one",
        "promote topics and groups {names}",
    ),
    "UNDO": ("took {names} back to the source", "take {names} back to the source"),
}
"""What was done, and what could not be."""
_PLURAL: Final = {"is": "are", "has": "have", "was": "were", "waits": "wait", "fills": "fill", "reads": "read"}
_PASSING: Final = ("PENDING_STOPPED", "PENDING_MIRROR", "PENDING_SYNCHRONIZE", "PENDING_SETUP_FOR_RESTORE")
_PASSING_GROUP: Final = ("PENDING_PROMOTED",)
_NAMES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`at_ms`: 0 where the record has no time. `kind`, `key`: of the row that it is about.

    `names`: objects that it is about, `link`: whose. `words`: what one says of several to which the same happened, ''
    where each is told alone. `passing`: it is on the way to something that is told, too. A page makes one line of one
    action by these.
    """

    at_ms: int
    kind: str
    key: str
    line: str
    detail: str = ""
    bad: bool = False
    link: str = ""
    application: str = ""
    names: tuple[str, ...] = ()
    words: str = ""
    passing: bool = False

    def row(self, at_ms: int) -> Row:
        """As the feed has it."""
        return {
            "at_ms": at_ms,
            "kind": self.kind,
            "key": self.key,
            "line": self.line,
            "detail": self.detail,
            "bad": self.bad,
            "link": self.link,
            "application": self.application,
            "names": list(self.names[:_NAMES]),
            "words": self.words,
            "passing": self.passing,
        }


def of_mirror(before: MirrorRecord | None, after: MirrorRecord | None) -> Iterator[Event]:
    """A mirror topic."""
    if after is None:
        if before is not None:
            key = f"{before.link}/{before.mirror_topic}"
            yield Event(at_ms=0, kind="topic", key=key, line=f"{before.mirror_topic} is no mirror topic any more")
        return
    state = shown(after)
    if before is not None and (shown(before), before.is_reverse) == (state, after.is_reverse):
        return
    words = {**_MIRROR, **_BACK} if after.is_reverse else _MIRROR
    done = words.get(state.value, f"is {state.value}")
    yield Event(
        at_ms=after.state_since_ms,
        kind="topic",
        key=f"{after.link}/{after.mirror_topic}",
        line=f"{after.mirror_topic} {done}",
        detail=after.error_message if state == "FAILED" else "",
        bad=state == "FAILED",
        link=after.link,
        names=(after.mirror_topic,),
        words=_plural(done),
        passing=state.value in _PASSING,
    )


def of_group(before: GroupRecord | None, after: GroupRecord | None) -> Iterator[Event]:
    """A mirror group."""
    if after is None or (before is not None and before.state is after.state):
        return
    done = _GROUP.get(after.state.value, f"is {after.state.value}")
    yield Event(
        at_ms=after.state_since_ms,
        kind="group",
        key=f"{after.link}/{after.group}",
        line=f"group {after.group} {done}",
        detail=after.error_message or after.note,
        bad=after.state.value == "FAILED",
        link=after.link,
        names=(after.group,),
        words=_plural(done),
        passing=after.state.value in _PASSING_GROUP,
    )


def of_link(before: LinkRecord | None, after: LinkRecord | None) -> Iterator[Event]:
    """A link."""
    if after is None:
        if before is not None:
            yield Event(at_ms=0, kind="link", key=before.name, line=f"link {before.name} was deleted")
    elif before is None:
        where = after.client.get("bootstrap.servers", "")
        yield Event(
            at_ms=after.created_ms, kind="link", key=after.name, line=f"link {after.name} was created", detail=where
        )
    elif before.configs != after.configs:
        names = {**before.configs, **after.configs}
        changed = sorted(name for name in names if before.configs.get(name) != after.configs.get(name))
        yield Event(
            at_ms=0,
            kind="link",
            key=after.name,
            line=f"configs of link {after.name} changed",
            detail=", ".join(changed),
        )


def of_gateway(before: GatewayRecord | None, after: GatewayRecord | None) -> Iterator[Event]:
    """A gateway, by its process."""
    if after is None:
        if before is not None:
            yield Event(at_ms=0, kind="gateway", key=before.name, line=f"gateway {before.name} has left the fleet")
    elif before is None or before.incarnation != after.incarnation:
        joined = f"gateway {after.name} has joined the fleet"
        yield Event(at_ms=after.since_ms, kind="gateway", key=after.name, line=joined)


def of_journal(before: MigrationRecord | None, after: MigrationRecord) -> Iterator[Event]:
    """What was written down of a migration since."""
    seen = 0 if before is None else before.journal_dropped + len(before.journal)
    for entry in after.journal[max(0, seen - after.journal_dropped) :]:
        paused = "" if entry.pause_ms < 0 else f"writes were paused for {entry.pause_ms} ms"
        yield Event(
            at_ms=entry.at_ms,
            kind="application",
            key=f"{after.name}/{entry.application}",
            line=sentence(after.name, entry),
            detail="; ".join(part for part in (entry.detail, paused) if part),
            bad=entry.what.endswith("_REFUSED") or entry.what == "STOPPED_BY_RULE",
            link=after.link,
            application=entry.application,
            names=entry.names,
        )


def _plural(words: str) -> str:
    first, _, rest = words.partition(" ")
    return f"{_PLURAL.get(first, first)} {rest}"


def sentence(migration: str, entry: JournalEntry) -> str:
    """Who did what with what. Without a person it was the migration itself."""
    names = ", ".join(entry.names[:3]) + (f" and {len(entry.names) - 3} more" if len(entry.names) > 3 else "")
    of = f" of application {entry.application}" if entry.application else ""
    if entry.what in _OF_ALL:
        return _OF_ALL[entry.what].format(by=entry.by or "somebody", migration=f"migration {migration}")
    actor = f"{entry.by} (migration {migration})" if entry.by else f"migration {migration}"
    step = entry.what.removesuffix("_REFUSED")
    if step not in _STEPS:
        said = entry.what.lower().replace("_", " ")
        return f"{actor}: {said}{f' {names}' if names else ''}{of}"
    done, refused = _STEPS[step]
    words = done if step == entry.what else f"could not {refused}"
    return f"{actor} {words.format(names=f'{names}{of}')}"
