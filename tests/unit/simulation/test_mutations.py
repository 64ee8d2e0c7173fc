from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import gateway
from tests.simulation.mutations import mutations, patched
from tests.simulation.mutations.not_here import NOT_HERE, OPEN
from tests.simulation.plan import RunPlan

NAMES = list(mutations())


def shipped() -> dict[tuple[str, str], object]:
    """Every attribute of every module of the product, and of their classes."""
    found: dict[tuple[str, str], object] = {}
    for info in pkgutil.walk_packages(gateway.__path__, "gateway."):
        if not info.name.endswith("__main__"):
            module: ModuleType = importlib.import_module(info.name)
            for name, value in vars(module).items():
                found[info.name, name] = value
                if isinstance(value, type) and value.__module__ == info.name:
                    found.update({(f"{info.name}.{name}", key): each for key, each in vars(value).items()})
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_mutation_changes_the_product_and_is_taken_out_again(name):
    before = shipped()
    with patched(name):
        during = shipped()
        assert any(during.get(key) is not value for key, value in before.items())
    after = shipped()
    assert [key for key, value in before.items() if after.get(key) is not value] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_mutation_has_plans_that_can_be_kept(name):
    plans = mutations()[name].plans
    assert plans
    assert [RunPlan.from_json(plan.as_json()) for plan in plans] == list(plans)


def test_what_cannot_be_found_is_not_among_them():
    assert not set(NAMES) & (set(NOT_HERE) | set(OPEN))
    assert not set(OPEN) & set(NOT_HERE)


def test_a_mutation_that_there_is_not():
    with pytest.raises(KeyError), patched("no such"):
        pass


def test_nothing_is_changed_without_a_name():
    before = shipped()
    with patched(""):
        during = shipped()
        assert [key for key, value in before.items() if during.get(key) is not value] == []
