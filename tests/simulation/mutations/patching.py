"""How a fault is put into the shipped code, and taken out again.

The code changes, and a fault that is not kept as the code is would find nothing, or itself: what it replaces must be
there, must be called in the run that finds it, and must not stumble over what the code has no more.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, Final

from tests.simulation.plan import RunPlan

_MISSING: Final = object()
_FAULTS: Final = (Path(__file__).parent, Path(__file__).parents[2] / "mutations")
"""Where faults are written down: an error there is of the fault, and none of the code that it is put into."""
_STUMBLES: Final = (AttributeError, NameError, TypeError, KeyError, IndexError, AssertionError)


class Patching:
    """Attributes that are replaced until `undo`. Each run of a mutation has one of its own.

    Attributes:
        unreached: functions that stand in for others, and were not called yet.
        broken: how one of them stumbled over the code that it is put into, '' when none has.
    """

    def __init__(self) -> None:
        self._undo = ExitStack()
        self.unreached: dict[str, None] = {}
        self.broken = ""

    def replace(self, owner: Any, name: str, value: Any, *, may_rest: bool = False) -> Any:
        """Set an attribute of a class or a module; returns what it was.

        Args:
            may_rest: a run may find the fault without this one being called.

        Raises:
            AttributeError: there is no such attribute: the mutation is to be kept as the code is.
        """
        before = getattr(owner, name)
        own = vars(owner).get(name, _MISSING)  # static methods and properties come back as they were
        setattr(owner, name, self._told_of(f"{owner.__name__.rpartition('.')[2]}.{name}", value, may_rest))
        self._undo.callback(_restore, owner, name, own)
        return before

    def by(self, fault: Callable[[], None], *attributes: tuple[Any, str]) -> None:
        """Have somebody else's fault replace these, and no others.

        Raises:
            AttributeError: it does not.
        """
        before = [getattr(owner, name) for owner, name in attributes]
        for owner, name in attributes:
            self._undo.callback(_restore, owner, name, vars(owner).get(name, _MISSING))
        fault()
        for (owner, name), value in zip(attributes, before, strict=True):
            now = vars(owner).get(name)
            if now is None or now is value:
                raise AttributeError(f"{fault.__name__} does not replace {owner.__name__}.{name}")
            setattr(owner, name, self._told_of(f"{owner.__name__.rpartition('.')[2]}.{name}", now, False))

    def _told_of(self, name: str, value: Any, may_rest: bool) -> Any:
        if isinstance(value, property):
            return property(self._told_of(name, value.fget, may_rest))
        if not isinstance(value, FunctionType):
            return value
        if not may_rest:
            self.unreached[name] = None
        if inspect.iscoroutinefunction(value):

            @functools.wraps(value)
            async def awaited(*args: Any, **named: Any) -> Any:
                self.unreached.pop(name, None)
                try:
                    return await value(*args, **named)
                except _STUMBLES as exc:
                    self._look_at(name, exc)
                    raise

            return awaited

        @functools.wraps(value)
        def called(*args: Any, **named: Any) -> Any:
            self.unreached.pop(name, None)
            try:
                return value(*args, **named)
            except _STUMBLES as exc:
                self._look_at(name, exc)
                raise

        return called

    def _look_at(self, name: str, exc: BaseException) -> None:
        """Whose error it is: of the code that is patched, or of the patch."""
        where = Path(_innermost(exc.__traceback__))
        if any(where.is_relative_to(faults) for faults in _FAULTS):
            self.broken = self.broken or f"{name}: {exc!r}"

    def undo(self) -> None:
        """All is as it was."""
        self._undo.close()


def _innermost(traceback: TracebackType | None) -> str:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return "" if traceback is None else traceback.tb_frame.f_code.co_filename


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
