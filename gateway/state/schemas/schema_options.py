"""Readers of a link's options for schemas. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from gateway.state.name_filters import ALL_NAMES, NameFilters, parse_filters

ID_PLACES: Final = ("key", "value", "headers")
"""Where in a record ids are looked for that are written anew."""


class SchemaIds(StrEnum):
    """What ids schemas have on the target: FIXED: those of the source (mode IMPORT); TRANSLATE: the target's own."""

    FIXED = "fixed"
    TRANSLATE = "translate"


class SchemaVersions(StrEnum):
    """Which versions of a subject are copied."""

    ALL = "all"
    LATEST = "latest"


class SchemaGateMode(StrEnum):
    """What a promote does while ids that records have are not known to the target's registry."""

    WAIT = "wait"
    REFUSE = "refuse"
    OFF = "off"


def schema_gate(text: str) -> SchemaGateMode:
    """Raises ValueError for another word."""
    try:
        return SchemaGateMode(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of wait, refuse, off") from None


def schema_ids(text: str) -> SchemaIds:
    """Raises ValueError for another word."""
    try:
        return SchemaIds(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of fixed, translate") from None


def schema_versions(text: str) -> SchemaVersions:
    """Raises ValueError for another word."""
    try:
        return SchemaVersions(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of all, latest") from None


def subject_filters(text: str) -> NameFilters:
    """The subjects; every one without a filter. Raises ValueError, see `parse_filters`."""
    return parse_filters(text, "subjectFilters") if text else ALL_NAMES


def id_places(text: str) -> tuple[str, ...]:
    """Some of `ID_PLACES`, in their order. Raises ValueError for another word, or for none."""
    named = {name.strip() for name in text.split(",") if name.strip()}
    if not named or not named <= set(ID_PLACES):
        raise ValueError(f"{text!r} is not one or more of {', '.join(ID_PLACES)}")
    return tuple(name for name in ID_PLACES if name in named)
