"""Readers of a link's options for ACL sync that are more than a word or a number: hosts, principals, filters. Pure.

Which of the source's ACLs a link copies is written as Confluent's links write it (`acl.filters`): a JSON object with
one array; an ACL is copied when one of its entries fits::

    {"aclFilters": [{"resourceFilter": {"resourceType": "topic", "patternType": "prefixed", "name": "app-"},
                     "accessFilter": {"principal": "User:alice", "operation": "any", "permissionType": "allow"}}]}

In `resourceFilter` there are `resourceType`, `patternType` and `name`; in `accessFilter` `principal`, `host`,
`operation` and `permissionType`. What is left out is any. `patternType` `match` with a name fits every pattern that is
about this name (KIP-290), any other only what is written in the very same way.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, TypeVar

from gateway.kafka.rules.acl import ANY_NAME, Acl, Operation, PatternType, Permission, ResourceType
from gateway.kafka.rules.principal_mapping import PrincipalMapping

ANY_HOST: Final = "*"
MAX_HOSTS: Final = 64
MAX_MAPPING: Final = 65_536
"""Characters of the rules for principals."""


def principal_rules(text: str) -> str:
    """Kafka's principal mapping rules, as they are given; they are applied to all of `User:NAME`.

    Raises:
        ValueError: a rule of no use, or too many.
    """
    if len(text) > MAX_MAPPING:
        raise ValueError(f"{text[:20]!r}... is longer than {MAX_MAPPING} characters")
    PrincipalMapping(text)
    return text


def hosts(text: str) -> tuple[str, ...]:
    """IP addresses between commas, or `*`; as brokers write them, which compare them as text.

    Raises:
        ValueError: another one, or too many.
    """
    found = tuple(dict.fromkeys(_host(host.strip()) for host in text.split(",") if host.strip()))
    if len(found) > MAX_HOSTS:
        raise ValueError(f"{len(found)} hosts, {MAX_HOSTS} are possible")
    return found


def _host(text: str) -> str:
    if text == ANY_HOST:
        return text
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address: ACLs know hosts by their addresses only") from None
    if isinstance(address, IPv6Address):
        return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))  # Java writes all of them
    return str(address)


KEY: Final = "aclFilters"
AT_MOST: Final = 1_000
"""Entries of one option."""

_RESOURCE: Final = frozenset({"resourceType", "patternType", "name"})
_ACCESS: Final = frozenset({"principal", "host", "operation", "permissionType"})
_ANY: Final = "ANY"
_MATCH: Final = "MATCH"

_Kind = TypeVar("_Kind", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """One entry; None is any. `match`: `name` is a resource's, and every pattern that is about it fits."""

    resource_type: ResourceType | None = None
    pattern_type: PatternType | None = None
    match: bool = False
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None

    def fits(self, acl: Acl) -> bool:
        """Whether the entry is about this ACL."""
        if self.name is not None and not (acl.covers(self.name) if self.match else acl.name == self.name):
            return False
        return (
            self.resource_type in (None, acl.resource_type)
            and self.pattern_type in (None, acl.pattern_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (None, acl.operation)
            and self.permission in (None, acl.permission)
        )


class _EntryIndex:
    """Entries by principal, then by name: those that have any stand under None."""

    def __init__(self, filters: Iterable[AclFilter]) -> None:
        self._exact: dict[tuple[str | None, str | None], list[AclFilter]] = {}
        self._match: dict[str | None, dict[str, list[AclFilter]]] = {}
        for one in filters:
            if one.match and one.name is not None:
                self._match.setdefault(one.principal, {}).setdefault(one.name, []).append(one)
            else:
                self._exact.setdefault((one.principal, one.name), []).append(one)
        self._names = {principal: sorted(by_name) for principal, by_name in self._match.items()}

    def candidates(self, acl: Acl) -> Iterator[AclFilter]:
        """Those that may be about it, and hardly any other."""
        for principal in (acl.principal, None):
            yield from self._exact.get((principal, acl.name), ())
            yield from self._exact.get((principal, None), ())
            by_name = self._match.get(principal, {})
            for name in self._covered(principal, acl) if acl.is_pattern else (acl.name,):
                yield from by_name.get(name, ())

    def _covered(self, principal: str | None, acl: Acl) -> Iterator[str]:
        names, beginning = self._names.get(principal, []), "" if acl.name == ANY_NAME else acl.name
        for at in range(bisect_left(names, beginning), len(names)):
            if not acl.covers(names[at]):
                return
            yield names[at]


@dataclass(frozen=True, slots=True)
class AclFilters:
    """All entries of one option; without any, no ACL is copied."""

    filters: tuple[AclFilter, ...] = ()
    _index: _EntryIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Entries are asked of every ACL of a cluster, so they are looked up."""
        object.__setattr__(self, "_index", _EntryIndex(self.filters))

    def passes(self, acl: Acl) -> bool:
        """Whether some entry fits."""
        return any(one.fits(acl) for one in self._index.candidates(acl))

    def resource_types(self) -> frozenset[ResourceType]:
        """The kinds of resources that may pass."""
        if any(one.resource_type is None for one in self.filters):
            return frozenset(ResourceType)
        return frozenset(one.resource_type for one in self.filters if one.resource_type is not None)


NO_ACLS: Final = AclFilters()


def parse_acl_filters(text: str) -> AclFilters:
    """Read the option's JSON.

    Raises:
        ValueError: not such JSON; one line that says which part.
    """
    if not text:
        return NO_ACLS
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"not JSON: {exc}") from None
    if not isinstance(body, dict) or set(body) != {KEY} or not isinstance(body[KEY], list):
        raise ValueError(f'must be a JSON object with one array, as in {{"{KEY}": [...]}}')
    if len(body[KEY]) > AT_MOST:
        raise ValueError(f"{KEY} has {len(body[KEY])} entries, {AT_MOST} are possible")
    return AclFilters(tuple(_filter(item, f"{KEY}[{index}]") for index, item in enumerate(body[KEY])))


def _filter(item: Any, where: str) -> AclFilter:
    if not isinstance(item, dict) or not item or not set(item) <= {"resourceFilter", "accessFilter"}:
        raise ValueError(f"{where}: must have resourceFilter and accessFilter and nothing else")
    resource = _part(item, "resourceFilter", _RESOURCE, where)
    access = _part(item, "accessFilter", _ACCESS, where)
    where_resource, where_access = f"{where}.resourceFilter", f"{where}.accessFilter"
    name, pattern = resource.get("name"), resource.get("patternType", _ANY)
    match = pattern.upper() == _MATCH
    if match and name is None:
        raise ValueError(f"{where_resource}: patternType match needs a name")
    return AclFilter(
        resource_type=_kind(ResourceType, resource, "resourceType", where_resource),
        pattern_type=None if match else _kind(PatternType, resource, "patternType", where_resource, _MATCH),
        match=match,
        name=name,
        principal=_principal(access.get("principal"), where_access),
        host=access.get("host"),
        operation=_kind(Operation, access, "operation", where_access),
        permission=_kind(Permission, access, "permissionType", where_access),
    )


def _part(item: Mapping[str, Any], name: str, known: frozenset[str], where: str) -> dict[str, str]:
    part = item.get(name, {})
    if not isinstance(part, dict):
        raise ValueError(f"{where}.{name}: must be an object")
    unknown = sorted(set(part) - known)
    if unknown:
        raise ValueError(f"{where}.{name}: {unknown[0]!r} is not one of {', '.join(sorted(known))}")
    for key, value in part.items():
        if not isinstance(value, str) or not value:
            raise ValueError(f"{where}.{name}: {key} must be a non-empty string")
    return part


def _principal(text: str | None, where: str) -> str | None:
    if text is not None and not all(text.partition(":")):
        raise ValueError(f"{where}: principal {text!r} is not of the form User:NAME")
    return text


def _kind(kind: type[_Kind], part: Mapping[str, str], key: str, where: str, *more: str) -> _Kind | None:
    """The value in any case, and with - for _; None for any."""
    text = part.get(key, _ANY)
    word = text.upper().replace("-", "_")
    if word == _ANY:
        return None
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(one.lower() for one in (_ANY, *more, *kind))
        raise ValueError(f"{where}: {key} {text!r} is not one of {known}") from None
