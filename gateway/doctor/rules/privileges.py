"""Whether a principal may do on a cluster what a gateway does there: as the brokers' own authorizer says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gateway.doctor.rules.facts import RightsFacts, SeenCluster, Side
from gateway.doctor.rules.finding import DoctorFinding, bad, ok, warn
from gateway.doctor.rules.rights import (
    ALTER,
    CREATE,
    DESCRIBE,
    DESCRIBE_GROUP,
    LIST_GROUPS,
    NOT_TOLD,
    OWN,
    READ_FLEET,
    READ_GROUP,
    SOURCE,
    SOURCE_WRITE,
    NeededRight,
    may,
    missing,
)
from gateway.kafka.rules.names import some_of

_TOOLS: Final = {
    "READ": "Read",
    "WRITE": "Write",
    "CREATE": "Create",
    "DELETE": "Delete",
    "ALTER": "Alter",
    "DESCRIBE": "Describe",
    "DESCRIBE_CONFIGS": "DescribeConfigs",
    "ALTER_CONFIGS": "AlterConfigs",
}
"""As `kafka-acls --operation` calls them."""

_OURS: Final = "__lockgate"
_UNTOLD: Final = "look by kafka-acls --list, as somebody with Describe on the cluster, beside docs/operate/rights.md"

Lacking = dict[tuple[str, NeededRight], list[str]]
"""(`topic` or `group`, right) -> names."""


def check_rights(facts: SeenCluster) -> Iterator[DoctorFinding]:
    """What is missing, a line for each right; what is not told, a line for each question."""
    asked, rights = facts.asked, facts.rights
    principal = f"User:{facts.user or 'NAME'}"
    for question, why in rights.untold.items():
        yield warn("rights", facts.name, f"{question} are not told ({why})", _UNTOLD)
    fails, warns = _target(facts) if asked.side is Side.TARGET else _source(facts)
    for (kind, right), names in fails.items():
        yield bad("rights", facts.name, *_words(kind, right, names, principal))
    for (kind, right), names in warns.items():
        yield warn("rights", facts.name, *_words(kind, right, names, principal))
    for name, why in rights.transactional_ids.items():
        if why:
            option = _option("transactional-id", [name])
            fails.setdefault(("transactional id", OWN[1]), []).append(name)
            yield bad(
                "rights",
                facts.name,
                f"transactional id {name}: {why}",
                f"kafka-acls --add --allow-principal {principal} --operation Write {option}",
            )
    if not fails and not warns and _told(rights):
        yield ok("rights", facts.name, f"{_counted(facts)}: nothing is missing")


def _told(rights: RightsFacts) -> bool:
    return bool(rights.topics or rights.groups or rights.on_cluster != NOT_TOLD)


def _counted(facts: SeenCluster) -> str:
    topics, groups = len(facts.rights.topics), len(facts.rights.groups)
    return f"on the cluster, {topics} topic{'' if topics == 1 else 's'}, {groups} group{'' if groups == 1 else 's'}"


def _target(facts: SeenCluster) -> tuple[Lacking, Lacking]:
    fails: Lacking = {}
    warns: Lacking = {}
    asked, rights = facts.asked, facts.rights
    absent = {topic.name for topic in facts.own_topics if not topic.partitions and not topic.untold}
    creates = rights.on_cluster != NOT_TOLD and may(rights.on_cluster, CREATE)
    for name in asked.own_topics:
        bits = rights.topics.get(name)
        if bits is None:
            continue
        needed = (*OWN, CREATE) if name in absent and not creates else OWN
        _add(fails, "topic", [right for right in needed if not may(bits, right)], name)
    for name in asked.topics:
        bits = rights.topics.get(name)
        if bits is None:
            continue
        _add(fails, "topic", missing(bits, rights.topic_configs.get(name, {})), name)
        _add(warns, "topic", [] if may(bits, ALTER) else [ALTER], name)
    for name in (asked.fleet, *asked.groups):
        right = READ_FLEET if name == asked.fleet else READ_GROUP
        if name in rights.groups and not may(rights.groups[name], right):
            _add(fails, "group", [right], name)
    if rights.on_cluster != NOT_TOLD and not may(rights.on_cluster, DESCRIBE):
        _add(warns, "cluster", [DESCRIBE], "")
    return fails, warns


def _source(facts: SeenCluster) -> tuple[Lacking, Lacking]:
    fails: Lacking = {}
    asked, rights = facts.asked, facts.rights
    needed = (*SOURCE, SOURCE_WRITE) if asked.writes else SOURCE
    for name in asked.topics:
        bits = rights.topics.get(name)
        if bits is not None:
            _add(fails, "topic", [right for right in needed if not may(bits, right)], name)
    for name in asked.groups:
        bits = rights.groups.get(name)
        if bits is not None and not may(bits, DESCRIBE_GROUP):
            _add(fails, "group", [DESCRIBE_GROUP], name)
    if rights.on_cluster != NOT_TOLD and not may(rights.on_cluster, LIST_GROUPS):
        _add(fails, "cluster", [LIST_GROUPS], "")
    return fails, {}


def _add(found: Lacking, kind: str, rights: Sequence[NeededRight], name: str) -> None:
    for right in rights:
        found.setdefault((kind, right), []).append(name)


def _words(kind: str, right: NeededRight, names: Sequence[str], principal: str) -> tuple[str, str]:
    tool = _TOOLS[right.name]
    if kind == "cluster":
        where, option = "the cluster", "--cluster"
    else:
        where, option = f"{kind}{'' if len(names) == 1 else 's'} {some_of(names)}", _option(kind, names)
    return (
        f"{tool} is missing on {where}: {right.why}",
        f"kafka-acls --add --allow-principal {principal} --operation {tool} {option}",
    )


def _option(kind: str, names: Sequence[str]) -> str:
    """Lockgate's own are given all at once, by what their names begin with."""
    if all(name.startswith(_OURS) for name in names):
        return f"--{kind} {_OURS} --resource-pattern-type prefixed"
    return f"--{kind} {names[0]}" + (", and so for each" if len(names) > 1 else "")
