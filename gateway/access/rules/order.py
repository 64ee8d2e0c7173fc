"""Which changes of ACLs wait for others. Pure.

A cluster may refuse any one entry, or not answer for it. What it does to one entry must neither give a right that the
others were to keep, nor take one away that others were to give. So four steps follow each other, each decided from
what became of the ones before it, entry by entry:

1. DENYs are made.
2. An ALLOW is made unless a DENY that is to take some of it away is not there.
3. An ALLOW is deleted unless an ALLOW that is to give the same, or more or less of it, is not there.
4. A DENY is deleted unless a DENY that is to take its place is not there, or an ALLOW that it keeps from having effect
   is to be deleted and still there.

Two entries concern each other when there is a resource, a principal and a host that both are about. The rest goes its
way: one refused entry holds up no other team's. A wait ends when the entry in the way is made, or is not wanted any
more; each round decides anew.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from gateway.access.rules.rights import EVERYBODY, OPERATIONS, implied_by
from gateway.kafka.rules.acl import ANY_NAME, Acl, Operation, PatternType, Permission


class BlockedAcl(NamedTuple):
    """A change that waits. `is_delete`: else the ACL is to be made. `behind`: the entry that is in its way."""

    acl: Acl
    is_delete: bool
    behind: Acl

    @property
    def detail(self) -> str:
        """Why, in one line."""
        if not self.is_delete:
            return f"it would give what this one denies, which is not made yet: {self.behind}"
        if self.acl.permission is self.behind.permission:
            return f"what comes in its place is not made yet: {self.behind}"
        return f"without it this one has effect, which is not deleted yet: {self.behind}"


class AclStep(NamedTuple):
    """`go`: in the order in which they were given."""

    go: list[Acl]
    waiting: list[BlockedAcl]


def denies(acls: Iterable[Acl]) -> list[Acl]:
    """Those that deny."""
    return [acl for acl in acls if acl.permission is Permission.DENY]


def allows(acls: Iterable[Acl]) -> list[Acl]:
    """Those that allow."""
    return [acl for acl in acls if acl.permission is Permission.ALLOW]


def allows_to_make(acls: Sequence[Acl], not_made: Collection[Acl]) -> AclStep:
    """Step 2. `not_made`: what was to be made, and is not known to be there."""
    return _step(allows(acls), _Entries(denies(not_made)), is_delete=False)


def allows_to_delete(acls: Sequence[Acl], not_made: Collection[Acl]) -> AclStep:
    """Step 3."""
    return _step(allows(acls), _Entries(allows(not_made)), is_delete=True)


def denies_to_delete(acls: Sequence[Acl], not_made: Collection[Acl], not_deleted: Collection[Acl]) -> AclStep:
    """Step 4. `not_deleted`: what was to be deleted, and is not known to be gone."""
    return _step(denies(acls), _Entries([*denies(not_made), *allows(not_deleted)]), is_delete=True)


def _step(acls: Iterable[Acl], in_the_way: _Entries, *, is_delete: bool) -> AclStep:
    step = AclStep([], [])
    for acl in acls:
        behind = in_the_way.first(acl)
        if behind is None:
            step.go.append(acl)
        else:
            step.waiting.append(BlockedAcl(acl, is_delete, behind))
    return step


class _Names:
    """Entries of one resource type and principal, found by the names that they are about."""

    def __init__(self) -> None:
        self._literal: dict[str, list[Acl]] = {}
        self._prefixed: dict[str, list[Acl]] = {}
        self._all: list[Acl] = []  # of the LITERAL name `*`
        self._sorted: tuple[list[str], list[str]] = [], []

    def add(self, acl: Acl) -> None:
        if acl.pattern_type is PatternType.LITERAL and acl.name == ANY_NAME:
            self._all.append(acl)
            return
        is_prefix = acl.pattern_type is PatternType.PREFIXED
        by_name = self._prefixed if is_prefix else self._literal
        if acl.name not in by_name:
            insort(self._sorted[is_prefix], acl.name)
        by_name.setdefault(acl.name, []).append(acl)

    def about(self, acl: Acl) -> Iterator[Acl]:
        """Those that are about a name which `acl` is about, too."""
        yield from self._all
        name = acl.name
        if acl.pattern_type is PatternType.PREFIXED:
            yield from self._below(name, self._literal, self._sorted[False])
            yield from self._below(name, self._prefixed, self._sorted[True])
        elif name == ANY_NAME:
            yield from (one for by_name in (self._literal, self._prefixed) for some in by_name.values() for one in some)
            return
        else:
            yield from self._literal.get(name, ())
        if self._prefixed:
            is_prefix = acl.pattern_type is PatternType.PREFIXED  # which `_below` has given itself
            for length in range(len(name) + (not is_prefix)):
                yield from self._prefixed.get(name[:length], ())

    @staticmethod
    def _below(prefix: str, by_name: dict[str, list[Acl]], names: Sequence[str]) -> Iterator[Acl]:
        for index in range(bisect_left(names, prefix), len(names)):
            if not names[index].startswith(prefix):
                return
            yield from by_name[names[index]]


class _Entries:
    """Entries that may be in the way of others."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._by_kind: dict[str, dict[str, _Names]] = {}
        for acl in acls:
            self._by_kind.setdefault(acl.resource_type, {}).setdefault(acl.principal, _Names()).add(acl)

    def first(self, acl: Acl) -> Acl | None:
        """The first one that concerns `acl`; None when none does."""
        by_principal = self._by_kind.get(acl.resource_type)
        if by_principal is None:
            return None
        who = by_principal if acl.principal == EVERYBODY else {acl.principal, EVERYBODY}
        return next(
            (
                one
                for principal in who
                if principal in by_principal
                for one in by_principal[principal].about(acl)
                if _concern_each_other(one, acl)
            ),
            None,
        )


def _concern_each_other(one: Acl, other: Acl) -> bool:
    """Whether both are about a host and an operation; resource and principal are known to be in common."""
    if one == other or not (one.host == other.host or ANY_NAME in (one.host, other.host)):
        return False
    if one.permission is other.permission:
        same = _gives if one.permission is Permission.ALLOW else _denies
        return one.operation in same(other) or other.operation in same(one)
    allow, deny = (one, other) if one.permission is Permission.ALLOW else (other, one)
    return bool(_gives(allow) & _denies(deny))


def _gives(acl: Acl) -> frozenset[Operation]:
    """What an ALLOW allows: an operation implies others."""
    if acl.operation is Operation.ALL:
        return _EVERY
    return frozenset({acl.operation, *implied_by(acl.operation)})


def _denies(acl: Acl) -> frozenset[Operation]:
    """What a DENY denies: itself alone, or all."""
    return _EVERY if acl.operation is Operation.ALL else frozenset({acl.operation})


_EVERY: Final = frozenset({Operation.ALL, *(operation for some in OPERATIONS.values() for operation in some)})
