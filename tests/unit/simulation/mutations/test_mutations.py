from __future__ import annotations

import importlib
import pkgutil
from itertools import chain
from types import ModuleType

import pytest

import gateway
import protocol
from tests.simulation.mutations import mutations, patched
from tests.simulation.mutations.not_here import NOT_HERE, OPEN
from tests.simulation.mutations.patching import Patching
from tests.simulation.plan import RunPlan

NAMES = list(mutations())


def shipped() -> dict[tuple[str, str], object]:
    """Every attribute of every module of the product, and of their classes."""
    found: dict[tuple[str, str], object] = {}
    packages = (pkgutil.walk_packages(each.__path__, f"{each.__name__}.") for each in (gateway, protocol))
    for info in chain.from_iterable(packages):
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


# -- a mutation is to be kept as the code is ---------------------------------------------------------------------


class Shipped:
    """Stands for the product."""

    limit = 3

    def ask(self) -> int:
        return 1

    async def wait(self) -> int:
        return 2

    @property
    def warm(self) -> bool:
        return False


def test_what_is_not_there_is_not_replaced():
    with pytest.raises(AttributeError):
        Patching().replace(Shipped, "asks", lambda self: 2)


def test_what_stands_in_and_is_not_called_is_told():
    patching = Patching()
    patching.replace(Shipped, "limit", 4)
    patching.replace(Shipped, "ask", lambda self: 2)
    patching.replace(Shipped, "warm", property(lambda self: True))
    assert list(patching.unreached) == ["Shipped.ask", "Shipped.warm"]
    assert (Shipped().ask(), Shipped().warm, Shipped().limit) == (2, True, 4)
    assert (list(patching.unreached), patching.broken) == ([], "")
    patching.undo()
    assert (Shipped().ask(), Shipped().warm, Shipped().limit) == (1, False, 3)


def test_what_may_rest_need_not_be_called():
    patching = Patching()
    patching.replace(Shipped, "ask", lambda self: 2, may_rest=True)
    assert list(patching.unreached) == []
    patching.undo()


def test_a_patch_with_other_arguments_is_broken():
    patching = Patching()
    patching.replace(Shipped, "ask", lambda self, more: more)
    with pytest.raises(TypeError):
        Shipped().ask()
    patching.undo()
    assert patching.broken.startswith("Shipped.ask: TypeError")


async def test_an_error_of_the_code_that_is_patched_is_its_own():
    patching = Patching()

    async def wait(self: Shipped) -> int:
        raise KeyError("not in a module of mutations")

    patching.replace(Shipped, "wait", wait)
    with pytest.raises(KeyError):
        await Shipped().wait()
    patching.undo()
    assert (list(patching.unreached), patching.broken) == ([], "")


def test_a_fault_of_others_replaces_what_it_is_said_to():
    def fault() -> None:
        Shipped.ask = lambda self: 2  # type: ignore[method-assign]

    patching = Patching()
    patching.by(fault, (Shipped, "ask"))
    assert (list(patching.unreached), Shipped().ask()) == (["Shipped.ask"], 2)
    patching.undo()
    assert Shipped().ask() == 1

    with pytest.raises(AttributeError, match="does not replace Shipped.warm"):
        patching.by(fault, (Shipped, "ask"), (Shipped, "warm"))
    patching.undo()
    assert Shipped().ask() == 1
