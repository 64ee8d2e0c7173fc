"""Client quotas of the target behind `apply`, whatever is refused and whatever others set meanwhile: judged anew here.

Each case is a seed, which its test's name tells.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import pytest

from gateway.access import quotas as module
from gateway.access.quotas import Quotas
from gateway.access.rules.quotas import QuotaOptions
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey

USERS: Final = [f"u{index}" for index in range(12)]
KEYS: Final = ("producer_byte_rate", "request_percentage")
IN_A_REQUEST: Final = 3
"""So that there are several."""
Held = Mapping[QuotaKey, float]


def wrong_quotas(
    source: Held, before: Held, after: Held, refused: Collection[str], theirs: Held, options: QuotaOptions
) -> Iterator[str]:
    """A line for each that is not as it is to be.

    Args:
        refused: users of whom the target takes no quota.
        theirs: what others have set since it was asked for, which was not there before.
    """
    for key in {*source, *before, *theirs, *after}:
        here, there = source.get(key), theirs.get(key, before.get(key))
        wanted = None if here is None else _scaled(key, here, options)
        if wanted is None or any(part.name in refused for part in key.entity):
            expected = there
        else:
            expected = wanted if there is None or options.overwrite else there
        if after.get(key) != expected:
            yield f"{key.words} is {after.get(key)} and not {expected}: source {here}, target {there}"


def _scaled(key: QuotaKey, value: float, options: QuotaOptions) -> float:
    return value * options.factor if key.key == "request_percentage" else float(max(1, round(value * options.factor)))


def _some(dice: random.Random, often: float) -> dict[QuotaKey, float]:
    keys = [QuotaKey((QuotaEntityPart(EntityType.USER, user),), key) for user in USERS for key in KEYS]
    return {key: float(dice.randint(1, 5)) for key in keys if dice.random() < often}


@pytest.mark.parametrize("seed", range(40))
async def test_the_target_has_what_it_is_to_have(plane: Any, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    dice = random.Random(f"quotas/{seed}")
    monkeypatch.setattr(module, "IN_A_REQUEST", IN_A_REQUEST)
    await plane.with_link()
    target, quotas = plane.target, plane.service.quotas
    assert isinstance(quotas, Quotas)
    options = QuotaOptions(factor=dice.choice((0.5, 1.0, 3.0)), overwrite=dice.random() < 0.4)
    plane.source.quotas_there, target.quotas_there = _some(dice, 0.7), _some(dice, 0.3)
    target.refused_users = {user for user in USERS if dice.random() < 0.3}
    source, before, theirs = dict(plane.source.quotas_there), dict(target.quotas_there), {}
    shipped = target.set_quotas

    async def and_others(wanted: Held) -> Any:
        """Somebody sets one behind each request, that is not there."""
        answer = await shipped(wanted)
        free = [key for key in _some(dice, 0.3) if key not in target.quotas_there]
        if free and not options.overwrite:
            theirs[free[0]] = target.quotas_there[free[0]] = 99.0
        return answer

    monkeypatch.setattr(target, "set_quotas", and_others)
    await quotas.apply("l", options)
    assert not list(wrong_quotas(source, before, target.quotas_there, target.refused_users, theirs, options))
    assert plane.source.quotas_there == source
    assert all(len(request) <= IN_A_REQUEST for request in target.quota_requests)
    target.refused_users, since = set(), dict(target.quotas_there)
    monkeypatch.setattr(target, "set_quotas", shipped)
    await quotas.apply("l", options)
    assert not list(wrong_quotas(source, since, target.quotas_there, (), {}, options))
