"""A client quota as a value (KIP-13, KIP-124, KIP-546, KIP-599, KIP-612), with its names on the wire. Pure.

A quota is one number under a key, for an entity: a user, a client-id, both together, or an address. An entity without a
name is that of all that have no quota of their own. What a cluster keeps is a map from (entity, key) to a number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, NamedTuple


class EntityType(StrEnum):
    """What a quota is about, as brokers call it."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


DEFAULT: Final = "<default>"
"""How the entity without a name is shown, as Kafka's own tools do: whoever has no quota of its own."""


class QuotaEntityPart(NamedTuple):
    """Of an entity. `name`: None is the default entity."""

    kind: EntityType
    name: str | None

    def __str__(self) -> str:
        return f"{self.kind} {DEFAULT if self.name is None else self.name}"


class QuotaKey(NamedTuple):
    """`entity`: parts in the order of `EntityType`. `key`: as Kafka calls the limit, `producer_byte_rate`."""

    entity: tuple[QuotaEntityPart, ...]
    key: str

    def part(self, kind: EntityType) -> QuotaEntityPart | None:
        """Of this type."""
        return next((part for part in self.entity if part.kind is kind), None)

    @property
    def words(self) -> str:
        """For people: `user alice, client-id app: producer_byte_rate`."""
        return f"{', '.join(map(str, self.entity))}: {self.key}"

    @property
    def order(self) -> tuple[Any, ...]:
        """To sort by."""
        return tuple((part.kind, part.name is not None, part.name or "") for part in self.entity), self.key


def entity_of(parts: Iterable[tuple[str, str | None]]) -> tuple[QuotaEntityPart, ...] | None:
    """An entity of what a broker tells; None for one of a kind that this version does not know."""
    found = list(parts)
    if any(kind not in frozenset(map(str, EntityType)) for kind, _ in found):
        return None
    order = list(EntityType)
    return tuple(
        sorted(
            (QuotaEntityPart(EntityType(kind), name) for kind, name in found), key=lambda part: order.index(part.kind)
        )
    )


def is_sound(value: float) -> bool:
    """A number that a broker takes for a quota: above 0."""
    return math.isfinite(value) and value > 0
