"""Which ACLs the target is to have, from the source's ACLs and the states of mirror topics. Pure.

Theory of operation ------------------- Two steps. `granted` says what an ACL of the source is called on the target: the
principal by the link's mapping rules, topics and groups by the link's prefix. What cannot be said there is left out,
with the reason. `desired_acls` says what of it the target is to have now.

**A mirror topic has one writer**, the mirror. Who may change it at the brokers, beside the gateways, can break it: a
record of somebody else makes it FAIL, and deleting it loses the copy. A gateway's client needs the same rights, since a
gateway asks the target whether a client may write. What tells both apart is the host: brokers see the gateway's
address. So while a topic is not promoted an ALLOW of WRITE, DELETE, ALTER, ALTER_CONFIGS or ALL

* is narrowed to the hosts of `acl.sync.write.hosts`, which are the gateways' addresses: one ACL for each. One that is
  for a single host already is kept when that host is among them: it never comes to be for more than it was;
* is held back without such hosts; with `*` among them it is copied as it is;
* leaves what it implies and what changes nothing, for all hosts: ALL leaves READ, CREATE, DESCRIBE and
  DESCRIBE_CONFIGS, WRITE leaves DESCRIBE.

When the topic is promoted, the ACL is copied as it is. That the source grants more is remembered (`held`), so that a
failover, which has no source to ask, gives it as well.

**A pattern** (PREFIXED, or the LITERAL name `*`) is copied as it is once it is about a promoted topic of the link and
about no mirror topic that is not promoted. Before that, every promoted topic that it is about gets a LITERAL ACL of its
own.

A topic that the link does not mirror counts as one that it may mirror any moment.

DENY is always copied as it is: it takes nothing away from the mirror, and giving it late would give too much.

**The gateways' own topics** hold what must not be read by clients. An ALLOW on a pattern that is about them, too, is
left out, unless `acl.sync.own.topics.enable` says otherwise. What names them alone is never copied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from gateway.kafka.rules.acl import ANY_NAME, Acl, AclsByName, Operation, PatternType, Permission, ResourceType
from gateway.kafka.rules.names import bad_name
from gateway.kafka.rules.principal_mapping import NoMatchingRule, PrincipalMapping
from gateway.state.acls.acl_options import ANY_HOST
from gateway.state.link_config import ACL_OWN_TOPICS, ACL_PRINCIPALS, LinkConfig

AT_MOST: Final = 50_000
"""ACLs of one link, read or wanted."""

OWN: Final = "__lockgate"
"""What the names of the gateways' own topics, groups and transactional ids begin with."""

_NAMED: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
_LEAVES: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    Operation.ALL: (Operation.READ, Operation.CREATE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    Operation.WRITE: (Operation.DESCRIBE,),
    Operation.DELETE: (Operation.DESCRIBE,),
    Operation.ALTER: (Operation.DESCRIBE,),
    Operation.ALTER_CONFIGS: (Operation.DESCRIBE_CONFIGS,),
}
"""What changes a mirror topic, and what else is in it or implied by it."""


class TooManyAcls(ValueError):
    """There are more than this is made for. One line, with the remedy."""


class AclReason(StrEnum):
    """Why an ACL of the source is not on the target, or not as it is there."""

    UNTIL_PROMOTED = "UNTIL_PROMOTED"
    OWN_NAME = "OWN_NAME"
    OWN_TOPICS = "OWN_TOPICS"
    PRINCIPAL_NOT_MAPPED = "PRINCIPAL_NOT_MAPPED"
    NOT_TRANSFERABLE = "NOT_TRANSFERABLE"
    BAD_NAME = "BAD_NAME"


class LeftOutAcl(NamedTuple):
    """An ACL of the source that is not copied. `detail`: the reason in words, with the remedy."""

    acl: Acl
    reason: AclReason
    detail: str


@dataclass(frozen=True, slots=True)
class Granted:
    """What the source grants, as it is called on the target."""

    acls: frozenset[Acl]
    left_out: tuple[LeftOutAcl, ...] = ()


@dataclass(frozen=True, slots=True)
class DesiredAcls:
    """What the target is to have now; `held`: what it is to have once topics are promoted, and not yet."""

    acls: frozenset[Acl]
    held: frozenset[Acl] = frozenset()


class Patterns:
    """Of these ACLs, those on patterns."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        by_right: dict[tuple[str, ...], list[Acl]] = {}
        for acl in acls:
            if acl.is_pattern:
                by_right.setdefault(_right(acl), []).append(acl)
        self._by_right = {right: AclsByName(some) for right, some in by_right.items()}

    def say(self, acl: Acl) -> bool:
        """Whether one of them gives, or denies, what a LITERAL ACL does."""
        patterns = None if acl.is_pattern else self._by_right.get(_right(acl))
        return patterns is not None and any(patterns.about(acl.name))


def _right(acl: Acl) -> tuple[str, ...]:
    """What it gives or denies, to whom: all of it but the names."""
    return acl.resource_type, acl.principal, acl.host, acl.operation, acl.permission


class Topics:
    """The mirror topics of the target. `mirrored`: of any link, not promoted; `promoted`: of this link."""

    def __init__(self, mirrored: Iterable[str] = (), promoted: Iterable[str] = ()) -> None:
        self._mirrored = sorted(mirrored)
        self._promoted = sorted(promoted)
        self._as_set = frozenset(self._promoted)
        self._mirrored_set = frozenset(self._mirrored)

    def are_free(self, acl: Acl) -> bool:
        """Whether all that the ACL is about may be changed by clients."""
        if not acl.is_pattern:
            return acl.name in self._as_set
        return bool(self.promoted_of(acl)) and not _covered(self._mirrored, acl)

    def are_mirrored(self, kind: str, pattern: str, name: str) -> bool:
        """Whether a resource of this name is a mirror topic that is not promoted, or a pattern that is about one."""
        if kind != ResourceType.TOPIC:
            return False
        if pattern == PatternType.PREFIXED:
            first = bisect_left(self._mirrored, name)
            return first < len(self._mirrored) and self._mirrored[first].startswith(name)
        return bool(self._mirrored) if name == ANY_NAME else name in self._mirrored_set

    def is_promoted(self, acl: Acl) -> bool:
        """Whether it names a promoted topic."""
        return acl.resource_type is ResourceType.TOPIC and not acl.is_pattern and acl.name in self._as_set

    def promoted_of(self, acl: Acl) -> Sequence[str]:
        """The promoted topics that a pattern is about."""
        return _covered(self._promoted, acl)


def _covered(names: Sequence[str], acl: Acl) -> Sequence[str]:
    """Of names in order, those that a pattern is about."""
    if acl.pattern_type is PatternType.LITERAL:
        return names
    first = bisect_left(names, acl.name)
    last = bisect_left(names, True, first, key=lambda name: not name.startswith(acl.name))
    return names[first:last]


def passing(source: Iterable[Acl], config: LinkConfig) -> list[Acl]:
    """The ACLs that the link's filters are about, in order.

    Raises:
        TooManyAcls: more than `AT_MOST`.
    """
    found = sorted(acl for acl in source if config.acl_filters.passes(acl))
    if len(found) > AT_MOST:
        raise TooManyAcls(f"the source has {len(found)} ACLs that acl.filters include, {AT_MOST} are possible")
    return found


def granted(source: Iterable[Acl], config: LinkConfig) -> Granted:
    """What the source grants, under the target's names. `source`: what passes the filters."""
    acls: set[Acl] = set()
    left_out: list[LeftOutAcl] = []
    for acl in source:
        found = _on_target(acl, config)
        if isinstance(found, LeftOutAcl):
            left_out.append(found)
        else:
            acls.add(found)
    return Granted(frozenset(acls), tuple(left_out))


def stand_in(
    remembered: Collection[Acl], held: Collection[Acl], topics: Topics, write_hosts: Collection[str]
) -> Granted:
    """What the source grants, by what is remembered of it.

    What was made in the place of something that is held back is no grant of its own: it goes when its topic fails over,
    and is not narrowed once more.

    Args:
        held: of the remembered ones, those that are held back.
    """
    known, kept, patterns = frozenset(remembered), frozenset(held), Patterns(held)
    made = {acl for acl in known if topics.is_promoted(acl) and patterns.say(acl)}
    for acl in kept:
        made |= known & _for_all_topics(acl, write_hosts)
    return Granted(known - (made - kept))


def desired_acls(grants: Collection[Acl], topics: Topics, write_hosts: Collection[str]) -> DesiredAcls:
    """What of the grants the target is to have now.

    Raises:
        TooManyAcls: more than `AT_MOST`.
    """
    acls: set[Acl] = set()
    held: set[Acl] = set()
    for acl in grants:
        if not _changes_topics(acl) or ANY_HOST in write_hosts or topics.are_free(acl):
            acls.add(acl)
            continue
        narrowed = _narrowed(acl, topics, write_hosts)
        if acl not in narrowed:
            held.add(acl)
        acls.update(narrowed)
        if len(acls) > AT_MOST:
            raise TooManyAcls(
                f"the target would get more than {AT_MOST} ACLs of this link: patterns are written out for each "
                "promoted topic; promote the rest of their topics, or name fewer in acl.filters"
            )
    return DesiredAcls(frozenset(acls), frozenset(held - acls))


def _changes_topics(acl: Acl) -> bool:
    is_change = acl.resource_type is ResourceType.TOPIC and acl.operation in _LEAVES
    return is_change and acl.permission is Permission.ALLOW


def _narrowed(acl: Acl, topics: Topics, write_hosts: Collection[str]) -> set[Acl]:
    found = _for_all_topics(acl, write_hosts)
    if acl.is_pattern:
        literal = acl._replace(pattern_type=PatternType.LITERAL)
        found |= {literal._replace(name=topic) for topic in topics.promoted_of(acl)}
    return found


def _for_all_topics(acl: Acl, write_hosts: Collection[str]) -> set[Acl]:
    """What is left of it for the topics that are not promoted."""
    found = {acl._replace(operation=operation) for operation in _LEAVES[acl.operation]}
    if acl.host == ANY_HOST:
        found |= {acl._replace(host=host) for host in write_hosts}
    elif acl.host in write_hosts:
        found.add(acl)
    return found


def _on_target(acl: Acl, config: LinkConfig) -> Acl | LeftOutAcl:
    if acl.resource_type is ResourceType.DELEGATION_TOKEN:
        return LeftOutAcl(acl, AclReason.NOT_TRANSFERABLE, "the target has other delegation tokens")
    found, principal = acl, principal_on_target(acl.principal, config.acl_principals)
    if principal is None:
        return _not_mapped(acl, acl.principal)
    if principal != acl.principal:
        found = found._replace(principal=principal)
    if acl.resource_type is ResourceType.USER and not acl.is_pattern:
        user = principal_on_target(acl.name, config.acl_principals)
        if user is None:
            return _not_mapped(acl, acl.name)
        found = found._replace(name=user)
    found = _prefixed(found, config)
    return _why_not(acl, found, config) or found


def _not_mapped(acl: Acl, principal: str) -> LeftOutAcl:
    return LeftOutAcl(acl, AclReason.PRINCIPAL_NOT_MAPPED, f"no rule of {ACL_PRINCIPALS} is about {principal!r}")


def _why_not(acl: Acl, found: Acl, config: LinkConfig) -> LeftOutAcl | None:
    if found.resource_type in _NAMED and found.name.startswith(OWN):
        return LeftOutAcl(acl, AclReason.OWN_NAME, f"names that begin with {OWN} are the gateways' own on the target")
    if found.resource_type is not ResourceType.TOPIC:
        return None
    if not found.is_pattern and (problem := bad_name(found.name)):
        return LeftOutAcl(acl, AclReason.BAD_NAME, f"its topic's name on the target: {problem}")
    if found.permission is Permission.ALLOW and found.covers(OWN) and not config.acl_own_topics:
        detail = f"it is about the gateways' own topics ({OWN}...), too; {ACL_OWN_TOPICS}=true copies it nevertheless"
        return LeftOutAcl(acl, AclReason.OWN_TOPICS, detail)
    return None


def _prefixed(acl: Acl, config: LinkConfig) -> Acl:
    """With the names that the link gives to topics and groups: every name becomes every name with the prefix."""
    is_topic = acl.resource_type is ResourceType.TOPIC
    if not config.prefix or not (is_topic or (acl.resource_type is ResourceType.GROUP and config.prefix_groups)):
        return acl
    if acl.pattern_type is PatternType.LITERAL and acl.name == ANY_NAME:
        return acl._replace(pattern_type=PatternType.PREFIXED, name=config.prefix)
    return acl._replace(name=config.prefix + acl.name)


@lru_cache(maxsize=4_096)
def principal_on_target(principal: str, rules: str) -> str | None:
    """What a principal of the source is called on the target; None when no rule is about it.

    `User:*`, which is everybody, stays what it is. What a rule makes of a principal is one: `User:` is put before a
    bare name.
    """
    if principal == "User:*":
        return principal
    try:
        found = _mapping(rules).name(principal)
    except NoMatchingRule:
        return None
    if not found:
        return None
    return found if all(found.partition(":")) else f"User:{found}"


@lru_cache(maxsize=64)
def _mapping(rules: str) -> PrincipalMapping:
    return PrincipalMapping(rules)
