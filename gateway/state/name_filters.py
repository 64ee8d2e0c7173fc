"""Filters over names of groups or topics, as Confluent's links write them (`consumer.offset.group.filters`). Pure.

A JSON object with one array::

    {"groupFilters": [{"name": "app-", "patternType": "PREFIXED", "filterType": "INCLUDE"},
                      {"name": "app-test", "patternType": "LITERAL", "filterType": "EXCLUDE"}]}

A name passes when an INCLUDE filter matches it and no EXCLUDE filter does; their order does not matter. The literal
name `*` matches every name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_WILDCARD = "*"
_FIELDS = {"name", "patternType", "filterType"}


@dataclass(frozen=True, slots=True)
class NameFilter:
    """One filter. `prefixed`: `name` is what matching names begin with; `exclude`: matching names do not pass."""

    name: str
    prefixed: bool
    exclude: bool

    def matches(self, name: str) -> bool:
        """Whether the filter is about this name."""
        if self.prefixed:
            return name.startswith(self.name)
        return self.name in (_WILDCARD, name)

    def __str__(self) -> str:
        """As it is written in the option."""
        pattern, kind = "PREFIXED" if self.prefixed else "LITERAL", "EXCLUDE" if self.exclude else "INCLUDE"
        return json.dumps({"name": self.name, "patternType": pattern, "filterType": kind})


@dataclass(frozen=True, slots=True)
class NameFilters:
    """All filters of one option; without any, no name passes."""

    filters: tuple[NameFilter, ...] = ()

    def passes(self, name: str) -> bool:
        """Whether some INCLUDE filter matches and no EXCLUDE filter does."""
        decisive = self.decisive(name)
        return decisive is not None and not decisive.exclude

    def decisive(self, name: str) -> NameFilter | None:
        """The filter that says whether the name passes: an EXCLUDE that matches, else an INCLUDE; None without one."""
        about = [one for one in self.filters if one.matches(name)]
        return next((one for one in about if one.exclude), about[0] if about else None)

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
