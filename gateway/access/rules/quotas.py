"""Which client quotas of a source are set on the target, and to what. Pure.

Theory of operation
-------------------
A quota is a number for an entity and a key, with no owner. Copying is a command, not a sync, and nothing is remembered:
so all that is known of a quota on the target is whether it is there, and whether it is what the source's is, times the
factor. What is there and is something else may be the target's own, and is left alone unless that is asked for. What
the source has not is never looked at.

Quotas are counted per broker (but for `controller_mutation_rate`): on a cluster with half as many brokers twice the
number is the same for clients. So there is a factor, for all keys or for one.

Behind a gateway clients come from its address. A quota of an address meets the gateway then: the default one, which is
for every address, throttles all clients together, and is copied only when asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.access.rules.transform import principal_on_target
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey, is_sound

MOST_QUOTAS: Final = 50_000
"""Quotas of a cluster that are looked at."""
_FRACTIONS: Final = ("request_percentage", "controller_mutation_rate")
_USER: Final = "User:"


class QuotaState(StrEnum):
    """Of one quota of the source. SET and REFUSED: what became of a MISSING or OVERWRITTEN one."""

    SAME = "SAME"
    MISSING = "MISSING"
    DIFFERS = "DIFFERS"
    OVERWRITE = "OVERWRITE"
    PRINCIPAL_NOT_MAPPED = "PRINCIPAL_NOT_MAPPED"
    SAME_NAME = "SAME_NAME"
    GATEWAY_ADDRESS = "GATEWAY_ADDRESS"
    NO_NUMBER = "NO_NUMBER"
    SET = "SET"
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True)
class QuotaOptions:
    """`factor`: of all keys; `factors`: of single ones instead. `overwrite`: set also what differs.

    `default_ip`: copy the quota of all addresses, too.
    """

    factor: float = 1.0
    factors: Mapping[str, float] = field(default_factory=dict)
    overwrite: bool = False
    default_ip: bool = False

    def of(self, key: str) -> float:
        """The factor of a key."""
        return self.factors.get(key, self.factor)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota. `target`: as it is named there, None where it has no name. `wanted`, `present`: numbers on the target;
    None: none."""

    source: QuotaKey
    target: QuotaKey | None
    value: float
    wanted: float | None
    present: float | None
    state: QuotaState
    detail: str = ""

    def became(self, state: QuotaState, detail: str = "") -> QuotaRow:
        """What came of it."""
        return QuotaRow(self.source, self.target, self.value, self.wanted, self.present, state, detail)


class TooManyQuotas(ValueError):
    """A cluster has more than `MOST_QUOTAS`. One line."""


def plan_quotas(
    source: Mapping[QuotaKey, float], target: Mapping[QuotaKey, float], mapping_rules: str, options: QuotaOptions
) -> list[QuotaRow]:
    """A row for each quota of the source, in order of entities.

    Raises:
        TooManyQuotas: on either side.
    """
    for where, quotas in (("source", source), ("target", target)):
        if len(quotas) > MOST_QUOTAS:
            raise TooManyQuotas(f"the {where} has {len(quotas)} client quotas; {MOST_QUOTAS} are possible")
    named = {key: _on_target(key, mapping_rules) for key in source}
    often = Counter(key for key in named.values() if key is not None)
    rows = []
    for key in sorted(source, key=lambda one: one.order):
        name, value = named[key], source[key]
        wanted = scaled(key.key, value, options.of(key.key))
        present = None if name is None else target.get(name)
        state, detail = _state(name, wanted, present, 0 if name is None else often[name], options)
        rows.append(QuotaRow(key, name, value, wanted, present, state, detail))
    return rows


def scaled(key: str, value: float, factor: float) -> float | None:
    """What the target gets: whole numbers but for the keys that have fractions, 1 at least. None: no number at all."""
    found = value * factor
    if not is_sound(found):
        return None
    return found if key in _FRACTIONS else float(max(1, round(found)))


def require_factors(options: QuotaOptions) -> None:
    """Raises ValueError, one line that names the factor, for one that is no number above 0."""
    for name, factor in (("factor", options.factor), *options.factors.items()):
        if not is_sound(factor):
            raise ValueError(f"{name}: {factor:g} is no number above 0")


def _on_target(key: QuotaKey, mapping_rules: str) -> QuotaKey | None:
    user = key.part(EntityType.USER)
    if user is None or user.name is None:
        return key
    found = principal_on_target(_USER + user.name, mapping_rules)
    if not found or not found.startswith(_USER):
        return None
    new = QuotaEntityPart(EntityType.USER, found.removeprefix(_USER))
    return key._replace(entity=tuple(new if part is user else part for part in key.entity))


def _state(
    name: QuotaKey | None, wanted: float | None, present: float | None, often: int, options: QuotaOptions
) -> tuple[QuotaState, str]:
    if name is None:
        return QuotaState.PRINCIPAL_NOT_MAPPED, "no rule of acl.sync.principal.mapping.rules gives it a user's name"
    if wanted is None:
        return QuotaState.NO_NUMBER, "brokers take numbers above 0 only"
    if often > 1:
        return QuotaState.SAME_NAME, f"{often} quotas of the source are this one on the target"
    if present is not None and math.isclose(present, wanted, rel_tol=1e-9):
        return QuotaState.SAME, ""
    if name.part(EntityType.IP) == QuotaEntityPart(EntityType.IP, None) and not options.default_ip:
        return QuotaState.GATEWAY_ADDRESS, "all clients of a gateway share its address: give gateways one of their own"
    if present is None:
        return QuotaState.MISSING, ""
    if options.overwrite:
        return QuotaState.OVERWRITE, ""
    return QuotaState.DIFFERS, "it may be the target's own, and stays; --overwrite sets it"


def notes(rows: list[QuotaRow]) -> list[str]:
    """What counts beside the rows."""
    found = []
    todo = [row.target for row in rows if row.target and row.state in (QuotaState.MISSING, QuotaState.OVERWRITE)]
    if any(all(part.name is None and part.kind is not EntityType.IP for part in key.entity) for key in todo):
        found.append("a default quota is the gateway's own, too, and slows mirrors down: give its principal its own")
    if any(key.part(EntityType.IP) for key in todo):
        found.append("behind the gateway clients have its address: a quota of a client's address does not meet them")
    return found
