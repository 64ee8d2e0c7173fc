"""What to make and what to delete on the target, and what to remember of it. Pure.

Theory of operation
-------------------
ACLs have no owner, so whose one is, only we can remember (`state/acls/acl_records.py`)::

    (nothing) --claim--> MAKING --the target has made it--> MADE --it is deleted--> (nothing)

* An ACL that is wanted and is on the target, of which nothing is remembered, is the target's own. It stays as it is,
  and nothing is remembered of it: so it is never deleted.
* MAKING is stored before the target is asked, for an ACL that was not there. Whoever leads next finds it: it is made
  once more if it is not there, and is the link's if it is. So a kill at any moment leaves no ACL behind that nobody
  remembers, and takes none over that was there before.
* One that the link has made and that is not wanted any more is deleted, and forgotten when the target says so.
* A MAKING that is not wanted any more and not there may come yet: a request whose answer was lost may be carried out
  later. It is remembered for `FORGET_S`, and deleted when it shows up.
* An ACL of ours that somebody has deleted is made again while it is wanted.

**Settled.** When a topic is promoted and has all of its ACLs, the target decides from then on: an operator who forbids
writes to the source's topic does not mean the target's. So the resource is left alone, whatever the source says, until
it is mirrored again; only a LITERAL ACL that stood in for a pattern goes when the pattern's own is there. The same is
so for a pattern of which all topics are promoted.

HELD is what the source grants and the target is not to have yet: it says nothing of what is on the target.

**Order.** What is made comes before what is deleted, so that nobody loses a right in between that he keeps. DENY is
made first and deleted last, so that nobody gains one. What the target refuses holds up what depends on it:
`rules/order.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from gateway.access.rules.transform import DesiredAcls
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.state.acls.acl_records import AclEntry, AclRecord, AclState

FORGET_S: Final = 120.0
OF_A_RESOURCE: Final = 2_000
"""ACLs of one resource that a link remembers: what a record may hold."""

Resource: TypeAlias = tuple[str, str, str]
"""Resource type, pattern type, name: the key of a record within its link."""

_CLAIMED: Final = (AclState.MAKING, AclState.MADE)
_WORDS: Final = tuple(frozenset(map(str, kind)) for kind in (ResourceType, PatternType, Operation, Permission))


class TooManyOfOne(ValueError):
    """A resource has more ACLs than a record holds. One line."""


@dataclass(frozen=True, slots=True)
class Changes:
    """`create` and `delete`: in this order. `remember`: what is known without asking the target; None is nothing.

    `own`: wanted ACLs that the target has of its own. `kept`: that the link has made, and that stay. `waiting`: MAKING
    ones that may come yet.
    """

    create: tuple[Acl, ...] = ()
    delete: tuple[Acl, ...] = ()
    remember: Mapping[Acl, AclState | None] = field(default_factory=dict)
    own: frozenset[Acl] = frozenset()
    kept: int = 0
    waiting: frozenset[Acl] = frozenset()

    @property
    def is_nothing(self) -> bool:
        """The target is as it is to be."""
        return not (self.create or self.delete or self.remember)


class _Next(NamedTuple):
    """Of one ACL. `remember` counts where `stores`."""

    create: bool = False
    delete: bool = False
    stores: bool = False
    remember: AclState | None = None
    own: bool = False
    kept: bool = False
    waits: bool = False


def changes(
    goal: DesiredAcls,
    present: Collection[Acl],
    remembered: Mapping[Acl, AclState],
    over: Collection[Acl] = (),
) -> Changes:
    """From what is wanted, what is on the target and what is remembered.

    Args:
        over: MAKING ones that were not there for so long that they do not come any more.
    """
    kept, found = 0, dict[Acl, _Next]()
    for acl in {*goal.acls, *goal.held, *remembered}:
        state = remembered.get(acl)
        if state is AclState.MADE and acl in goal.acls and acl in present:
            kept += 1  # of most, in most rounds
        else:
            found[acl] = _next(acl, goal, acl in present, state, acl in over)
    create = sorted((acl for acl, what in found.items() if what.create), key=_deny_first)
    delete = sorted((acl for acl, what in found.items() if what.delete), key=_deny_first, reverse=True)
    return Changes(
        create=tuple(create),
        delete=tuple(delete),
        remember={acl: what.remember for acl, what in found.items() if what.stores},
        own=frozenset(acl for acl, what in found.items() if what.own),
        kept=kept + sum(what.kept for what in found.values()),
        waiting=frozenset(acl for acl, what in found.items() if what.waits),
    )


def _next(acl: Acl, goal: DesiredAcls, there: bool, state: AclState | None, over: bool) -> _Next:
    if acl in goal.acls:
        return _wanted(there, state)
    rest = AclState.HELD if acl in goal.held else None
    if state not in _CLAIMED:
        return _Next(stores=state is not rest, remember=rest)
    if there:
        return _Next(delete=True)
    if state is AclState.MAKING and not over:
        return _Next(waits=True)
    return _Next(stores=True, remember=rest)


def _wanted(there: bool, state: AclState | None) -> _Next:
    if state in _CLAIMED:
        if not there:
            return _Next(create=True)
        return _Next(stores=state is AclState.MAKING, remember=AclState.MADE, kept=True)
    if not there:
        return _Next(create=True)
    return _Next(stores=state is AclState.HELD, remember=None, own=True)


def _deny_first(acl: Acl) -> tuple[bool, Acl]:
    return acl.permission is Permission.ALLOW, acl


def after_delete(acl: Acl, goal: DesiredAcls) -> AclState | None:
    """What is remembered of an ACL of ours that is gone."""
    return AclState.HELD if acl in goal.held else None


def remembered_of(records: Mapping[Resource, AclRecord], link_id: int) -> dict[Acl, AclState]:
    """What the records of a link say; those of another link that had its name say nothing."""
    return {
        _acl(record, entry): entry.state
        for record in records.values()
        if record.link_id == link_id
        for entry in record.entries
        if _is_known(record, entry)
    }


def records_after(
    link: str, link_id: int, records: Mapping[Resource, AclRecord], updates: Mapping[Acl, AclState | None]
) -> dict[Resource, AclRecord | None]:
    """The records that the updates change, as they are to be; None is no record.

    Raises:
        TooManyOfOne: a resource would have more than `OF_A_RESOURCE`.
    """
    by_resource: dict[Resource, dict[Acl, AclState | None]] = {}
    for acl, state in updates.items():
        by_resource.setdefault(resource_of(acl), {})[acl] = state
    found: dict[Resource, AclRecord | None] = {}
    for resource, changed in by_resource.items():
        old = records.get(resource)
        entries = {_key(entry): entry for entry in (old.entries if old and old.link_id == link_id else ())}
        for acl, state in changed.items():
            key = (acl.principal, acl.host, acl.operation.value, acl.permission.value)
            if state is None:
                entries.pop(key, None)
            else:
                entries[key] = AclEntry(*key, state)
        if len(entries) > OF_A_RESOURCE:
            raise TooManyOfOne(f"{' '.join(resource)} has {len(entries)} ACLs, {OF_A_RESOURCE} are possible")
        kind, pattern, name = resource
        record = AclRecord(
            link=link,
            link_id=link_id,
            resource_type=kind,
            pattern_type=pattern,
            name=name,
            entries=tuple(entries[key] for key in sorted(entries)),
            settled=old is not None and old.link_id == link_id and old.settled,
        )
        found[resource] = record if entries or record.settled else None
    return found


def settled_of(records: Mapping[Resource, AclRecord], link_id: int) -> frozenset[Resource]:
    """The resources that a link leaves alone."""
    return frozenset(key for key, record in records.items() if record.settled and record.link_id == link_id)


def records_settled(
    link: str, link_id: int, records: Mapping[Resource, AclRecord], resources: Collection[Resource], *, settled: bool
) -> dict[Resource, AclRecord | None]:
    """The records of these resources, as they are when they are left alone from now on, or followed again."""
    found: dict[Resource, AclRecord | None] = {}
    for resource in resources:
        old, (kind, pattern, name) = records.get(resource), resource
        if old is None or old.link_id != link_id:
            old = AclRecord(link=link, link_id=link_id, resource_type=kind, pattern_type=pattern, name=name)
        new = replace(old, settled=settled)
        found[resource] = new if new.entries or settled else None
    return found


def resource_of(acl: Acl) -> Resource:
    """The key of the record that it is in."""
    return acl.resource_type.value, acl.pattern_type.value, acl.name


def _key(entry: AclEntry) -> tuple[str, str, str, str]:
    return entry.principal, entry.host, entry.operation, entry.permission


def _acl(record: AclRecord, entry: AclEntry) -> Acl:
    return Acl(
        ResourceType(record.resource_type),
        PatternType(record.pattern_type),
        record.name,
        entry.principal,
        entry.host,
        Operation(entry.operation),
        Permission(entry.permission),
    )


def _is_known(record: AclRecord, entry: AclEntry) -> bool:
    """Of a newer version there may be kinds of which this one knows nothing; it leaves them as they are."""
    words = (record.resource_type, record.pattern_type, entry.operation, entry.permission)
    return all(word in known for word, known in zip(words, _WORDS, strict=True))
