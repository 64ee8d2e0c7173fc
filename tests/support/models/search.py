"""Breadth-first search of every state that a world can come to. The shortest way to a violation is in its message."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, Protocol, Self, TypeVar


class Violation(AssertionError):
    """The world is in a state that must not be."""


class World(Protocol):
    """One state of a world."""

    def clone(self) -> Self: ...

    def key(self) -> Hashable:
        """Two worlds with the same key have the same future."""

    def events(self) -> Iterator[tuple[str, Callable[[Self], None]]]:
        """Everything that may happen next."""

    def check(self) -> None:
        """Raises Violation."""

    @property
    def ending(self) -> str:
        """What the world came to, or '' while something is still to be done."""


class Step(Protocol):
    """What a resolver says is to be done."""

    @property
    def kind(self) -> Hashable: ...


class Run(Protocol):
    """One state of a world in which a resolver's steps are taken, and interrupted. `ended`: how the run ended, or ''.

    `happen`: lets what `events` names happen; raises what must not be.
    """

    ended: str

    def clone(self) -> Self: ...

    def key(self) -> Hashable: ...

    def events(self) -> Iterator[str]: ...

    def happen(self, event: str) -> None: ...

    def step(self) -> Step: ...


W = TypeVar("W", bound=World)


class Found(NamedTuple):
    """How many states there are, and how often each ending was found."""

    states: int
    endings: Counter[str]


class Explored(NamedTuple):
    """How runs ended, which kinds of steps were met, and how many states there are."""

    ended: set[str]
    kinds: set[Hashable]
    states: int


class _RunWorld:
    """A run as `search` wants it. `kinds`: of the steps that were met, for all of them."""

    __slots__ = ("_kinds", "_run")

    def __init__(self, run: Run, kinds: set[Hashable]) -> None:
        self._run, self._kinds = run, kinds

    def clone(self) -> _RunWorld:
        return _RunWorld(self._run.clone(), self._kinds)

    def key(self) -> Hashable:
        return self._run.key()

    def events(self) -> Iterator[tuple[str, Callable[[_RunWorld], None]]]:
        if not self._run.ended:
            self._kinds.add(self._run.step().kind)
        for name in self._run.events():
            yield name, lambda world, name=name: world._run.happen(name)  # type: ignore[misc]

    def check(self) -> None:
        """`happen` has looked."""

    @property
    def ending(self) -> str:
        return self._run.ended


def explore(run: Run) -> Explored:
    """Every state that a run can come to, whatever interrupts it where. Raises as `search`."""
    kinds: set[Hashable] = set()
    found = search(_RunWorld(run, kinds))
    return Explored(set(found.endings), kinds, found.states)


def search(world: W, *, at_most: int = 5_000_000) -> Found:
    """Visit every state.

    Raises:
        Violation: a state that must not be, or one from which no ending can be reached; with the way to it.
        MemoryError: there are more states than `at_most`.
    """
    enabled = gc.isenabled()
    gc.disable()  # worlds are not cyclic, and there are many
    try:
        return _search(world, at_most)
    finally:
        if enabled:
            gc.enable()


def _search(world: World, at_most: int) -> Found:
    first = world.key()
    parents: dict[Hashable, tuple[Hashable, str]] = {first: (None, "start")}
    before: dict[Hashable, list[Hashable]] = {}
    endings: Counter[str] = Counter()
    ended = []
    queue = deque([(world, first)])
    while queue:
        at, key = queue.popleft()
        if at.ending:
            endings[at.ending] += 1
            ended.append(key)
        for name, event in at.events():
            after = at.clone()
            try:
                event(after)
                after.check()
            except Exception as exc:
                raise Violation(f"{exc!r}\n{_period(parents, key, name)}") from exc
            found = after.key()
            before.setdefault(found, []).append(key)
            if found not in parents:
                parents[found] = (key, name)
                queue.append((after, found))
        if len(parents) > at_most:
            raise MemoryError(f"more than {at_most} states")
    _all_end(parents, before, ended)
    return Found(len(parents), endings)


def _all_end(
    parents: dict[Hashable, tuple[Hashable, str]], before: dict[Hashable, list[Hashable]], ended: list[Hashable]
) -> None:
    reached = set(ended)
    while ended:
        for key in before.get(ended.pop(), ()):
            if key not in reached:
                reached.add(key)
                ended.append(key)
    stuck = next((key for key in parents if key not in reached), None)
    if stuck is not None:
        raise Violation(f"no ending can be reached\n{_period(parents, stuck, '')}")


def _period(parents: dict[Hashable, tuple[Hashable, str]], key: Hashable, last: str) -> str:
    steps = [last] if last else []
    while key is not None:
        key, name = parents[key]
        steps.append(name)
    return "\n".join(f"  {name}" for name in reversed(steps))
