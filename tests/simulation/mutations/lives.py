"""Short lives for mutations: as few operations as it takes, and only the clients that they need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from tests.simulation.mutations.patching import Mutation, Patch
from tests.simulation.plan import GROUP, PLAIN, SET, Act, Event, EventKind, Fault, FaultKind, Operation, RunPlan, plan

_TOPICS: Final = {
    Operation.PROMOTE_SET: SET,
    Operation.FAILBACK_SET: SET,
    Operation.GROUP_PROMOTE: (),
    Operation.DEMOTE: (),
    Operation.REBALANCE: (),
    Operation.RESTART: (),
}


def life(*operations: Operation | tuple[Operation, tuple[str, ...]], pause_s: float = 0.5) -> tuple[Act, ...]:
    """The operations in their order; of topic `plain`, or of the set where they are for sets."""
    acts = []
    for number, each in enumerate(operations):
        operation, topics = each if isinstance(each, tuple) else (each, _TOPICS.get(each, PLAIN))
        group = GROUP if operation in (Operation.GROUP_PROMOTE, Operation.DEMOTE) else ""
        acts.append(Act(number, operation, topics, group, pause_s))
    return tuple(acts)


def brief(
    acts: Iterable[Act], *, faults: Iterable[Fault] = (), events: Iterable[Event] = (), seed: int = 1, **options: Any
) -> RunPlan:
    """A run of such a life. Seeds from 0 to 99,999 name systematic runs: these are told from them by their notes."""
    options.setdefault("notes", "a mutation's")
    return RunPlan(seed, acts=tuple(acts), faults=tuple(faults), events=tuple(events), brief=True, **options)


def again(run: RunPlan, times: int) -> tuple[RunPlan, ...]:
    """The same with other dice: delays, clients and batches differ."""
    return tuple(replace(run, seed=run.seed + number) for number in range(times))


def sought(name: str, patch: Patch, acts: Iterable[Act], *, runs: int, **options: Any) -> Mutation:
    """A fault that one short life should find, tried with so many dice. `options`: as `brief`'s."""
    return Mutation(name, patch, again(brief(acts, **options), runs))


def seeds(*numbers: int) -> tuple[RunPlan, ...]:
    """Ordinary runs."""
    return tuple(plan(number) for number in numbers)


__all__ = ["Event", "EventKind", "Fault", "FaultKind", "Operation", "again", "brief", "life", "seeds", "sought"]
