"""How a fault is put into the shipped code, and taken out again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tests.simulation.plan import RunPlan

_MISSING = object()


class Patching:
    """Attributes that are replaced until `undo`. Each run of a mutation has one of its own."""

    def __init__(self) -> None:
        self._undo = ExitStack()

    def replace(self, owner: Any, name: str, value: Any) -> Any:
        """Set an attribute of a class or a module; returns what it was.

        Raises:
            AttributeError: there is no such attribute: the mutation is to be kept as the code is.
        """
        before = getattr(owner, name)
        own = vars(owner).get(name, _MISSING)  # static methods and properties come back as they were
        setattr(owner, name, value)
        self._undo.callback(_restore, owner, name, own)
        return before

    def keep(self, *attributes: tuple[Any, str]) -> None:
        """Somebody else replaces these: have them come back."""
        for owner, name in attributes:
            self.replace(owner, name, getattr(owner, name))

    def undo(self) -> None:
        """All is as it was."""
        self._undo.close()


def _restore(owner: Any, name: str, own: Any) -> None:
    if own is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, own)


Patch = Callable[[Patching], None]


@dataclass(frozen=True)
class Mutation:
    """A fault. `plans`: runs of which at least one must find it, the likeliest first; all of them pass without it."""

    name: str
    patch: Patch
    plans: tuple[RunPlan, ...]
