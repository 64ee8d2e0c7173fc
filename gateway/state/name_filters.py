"""Filters over names of groups or topics, as Confluent's links write them (`consumer.offset.group.filters`). Pure.

A JSON object with one array::

    {"groupFilters": [{"name": "app-", "patternType": "PREFIXED", "filterType": "INCLUDE"},
                      {"name": "app-test", "patternType": "LITERAL", "filterType": "EXCLUDE"}]}

A name passes when an INCLUDE filter matches it and no EXCLUDE filter does; their order does not matter. The literal
name `*` matches every name.

Filters are asked of every topic, group or subject of a cluster, so they are looked up, and not gone through.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gateway.kafka.rules.names import Beginnings

_WILDCARD = "*"
_FIELDS = {"name", "patternType", "filterType"}


@dataclass(frozen=True, slots=True)
class NameFilter:
    """One filter. `prefixed`: `name` is what matching names begin with; `exclude`: matching names do not pass."""

    name: str
    prefixed: bool
    exclude: bool

    def __str__(self) -> str:
        """As it is written in the option."""
        pattern, kind = "PREFIXED" if self.prefixed else "LITERAL", "EXCLUDE" if self.exclude else "INCLUDE"
        return json.dumps({"name": self.name, "patternType": pattern, "filterType": kind})


class _ByName:
    """Filters by what they are about."""

    def __init__(self, filters: Iterable[NameFilter]) -> None:
        numbered = list(enumerate(filters))
        self._named: dict[str, tuple[int, NameFilter]] = {}
        for at, one in numbered:
            if not one.prefixed:
                self._named.setdefault(one.name, (at, one))
        self._beginnings = Beginnings((one.name, (at, one)) for at, one in numbered if one.prefixed)

    def first(self, name: str) -> NameFilter | None:
        """The first one that is about a name."""
        begins = self._beginnings.first_of(name)
        about = (self._named.get(name), self._named.get(_WILDCARD), None if begins is None else begins[1])
        found = min((one for one in about if one is not None), key=lambda one: one[0], default=None)
        return None if found is None else found[1]


@dataclass(frozen=True, slots=True)
class NameFilters:
    """All filters of one option; without any, no name passes."""

    filters: tuple[NameFilter, ...] = ()
    _excludes: _ByName = field(init=False, repr=False, compare=False)
    _includes: _ByName = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Both kinds are looked up for themselves: an EXCLUDE counts wherever it stands."""
        object.__setattr__(self, "_excludes", _ByName(one for one in self.filters if one.exclude))
        object.__setattr__(self, "_includes", _ByName(one for one in self.filters if not one.exclude))

    def passes(self, name: str) -> bool:
        """Whether some INCLUDE filter matches and no EXCLUDE filter does."""
        decisive = self.decisive(name)
        return decisive is not None and not decisive.exclude

    def decisive(self, name: str) -> NameFilter | None:
        """The filter that says whether the name passes: an EXCLUDE that matches, else an INCLUDE; None without one."""
        return self._excludes.first(name) or self._includes.first(name)

    def names(self, name: str) -> bool:
        """Whether an INCLUDE filter says this very name: LITERAL, and not by the wildcard."""
        return any(one.name == name and not one.prefixed and not one.exclude for one in self.filters)


ALL_NAMES = NameFilters((NameFilter(_WILDCARD, prefixed=False, exclude=False),))
NO_NAMES = NameFilters()


def parse_filters(text: str, key: str) -> NameFilters:
    """Read the option's JSON; `key` is the array's name, such as `groupFilters`.

    Raises:
        ValueError: not such JSON; the message says which part.
    """
    try:
        body = json.loads(text)
    except ValueError as exc:
        raise ValueError(f"not JSON: {exc}") from None
    if not isinstance(body, dict) or set(body) != {key} or not isinstance(body[key], list):
        raise ValueError(f'must be a JSON object with one array, as in {{"{key}": [...]}}')
    return NameFilters(tuple(_filter(item, f"{key}[{index}]") for index, item in enumerate(body[key])))


def _filter(item: Any, where: str) -> NameFilter:
    if not isinstance(item, dict) or set(item) != _FIELDS:
        raise ValueError(f"{where}: must have {', '.join(sorted(_FIELDS))} and nothing else")
    name, pattern, kind = item["name"], item["patternType"], item["filterType"]
    if not isinstance(name, str) or not name:
        raise ValueError(f"{where}: name must be a non-empty string")
    if pattern not in ("LITERAL", "PREFIXED"):
        raise ValueError(f"{where}: patternType {pattern!r} is not LITERAL or PREFIXED")
    if kind not in ("INCLUDE", "EXCLUDE"):
        raise ValueError(f"{where}: filterType {kind!r} is not INCLUDE or EXCLUDE")
    return NameFilter(name, pattern == "PREFIXED", kind == "EXCLUDE")
