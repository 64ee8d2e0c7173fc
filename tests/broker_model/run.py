"""Sequences: made by a seed, run on both sides, compared step by step, and cut down to what shows a difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from tests.broker_model import steps_acls, steps_admin, steps_data, steps_groups, steps_transactions
from tests.broker_model.context import Context, Entry
from tests.broker_model.sides import ModelSide, Side, in_virtual_time
from tests.broker_model.steps import STEPS

_AMPLE_S = 1.5
STEP_MODULES = (steps_acls, steps_admin, steps_data, steps_groups, steps_transactions)
"""Modules whose import registers steps."""


class PlannedStep(NamedTuple):
    """A kind of step and the seed of its random numbers."""

    kind: str
    seed: int


Plan = Sequence[PlannedStep]
Trace = list[list[Entry]]
"""What was asked and answered in each step."""


@dataclass(frozen=True)
class Difference:
    """The first step whose answers differ."""

    plan: tuple[PlannedStep, ...]
    step: int
    real: list[Entry]
    model: list[Entry]

    @property
    def lacks_answers(self) -> bool:
        """The real side says nothing else, but less: a busy broker may not have answered yet."""
        return len(self.real) < len(self.model) and all(entry in self.model for entry in self.real)


def make_plan(seed: int, length: int) -> list[PlannedStep]:
    """A sequence: it begins with what others need."""
    rng = Random(seed)
    kinds = sorted(STEPS)
    weights = [STEPS[kind][1] for kind in kinds]
    first = ["create_topic", "create_topic", "init_producer_id", "init_transactional_id"]
    return [PlannedStep(kind, rng.getrandbits(32)) for kind in [*first, *rng.choices(kinds, weights, k=length)]]


async def run_plan(side: Side, kafka: str, prefix: str, plan: Plan) -> tuple[Trace, int]:
    """Run a sequence on one side: what was heard in each step, and how many requests were sent."""
    ctx = Context(side, kafka, prefix)
    trace: Trace = []
    try:
        for planned in plan:
            ctx.trace = []
            await STEPS[planned.kind][0](ctx, Random(planned.seed))
            for label, answer in await ctx.come_to_rest():
                steps_groups.heard(ctx, label, answer)
                ctx.note(label, answer)
            trace.append(ctx.trace)
        return trace, ctx.requests
    finally:
        await ctx.close()


def run_on_model(kafka: str, brokers: int, prefix: str, plan: Plan, settle_s: float | None = None) -> tuple[Trace, int]:
    """Run a sequence on a fresh model, in virtual time. `settle_s`: see `Side`; its own by default."""

    async def story(loop: Any) -> tuple[Trace, int]:
        side = ModelSide(loop, kafka, brokers)
        side.settle_s = side.settle_s if settle_s is None else settle_s
        await side.cluster.start()
        return await run_plan(side, kafka, prefix, plan)

    found: tuple[Trace, int] = in_virtual_time(story)
    return found


def first_difference(plan: Plan, real: Trace, model: Trace) -> Difference | None:
    """The first step whose answers differ, or None."""
    for at, (left, right) in enumerate(zip(real, model, strict=True)):
        if left != right:
            return Difference(tuple(plan[: at + 1]), at, left, right)
    return None


class Pair:
    """A real cluster and, for each sequence, a fresh model."""

    def __init__(self, real: Side, kafka: str, brokers: int, run_id: str) -> None:
        self._real = real
        self._kafka = kafka
        self._brokers = brokers
        self._run_id = run_id
        self._runs = 0
        self.requests = 0

    async def ask_real(self, plan: list[PlannedStep]) -> tuple[str, list[PlannedStep], Trace]:
        """Run a sequence on the real cluster under a name that it alone has: that name, the steps, the answers."""
        self._runs += 1
        prefix = f"{self._run_id}-{self._runs}-"
        real, requests = await run_plan(self._real, self._kafka, prefix, plan)
        self.requests += requests
        return prefix, plan, real

    async def compare(self, plan: Plan) -> Difference | None:
        """Run a sequence on both sides. Answers that the real side lacks count when ample time does not bring them."""
        found = await self._compare_once(plan)
        if found is None or not found.lacks_answers:
            return found
        hurried, self._real.settle_s = self._real.settle_s, _AMPLE_S
        try:
            return await self._compare_once(plan)
        finally:
            self._real.settle_s = hurried

    async def _compare_once(self, plan: Plan) -> Difference | None:
        prefix, _, real = await self.ask_real(list(plan))
        model, _ = await asyncio.get_running_loop().run_in_executor(
            None, run_on_model, self._kafka, self._brokers, prefix, plan, self._real.settle_s
        )
        return first_difference(plan, real, model)

    async def shrink(self, found: Difference, tries: int = 30) -> Difference:
        """Leave out steps as long as the last one still differs."""
        at = len(found.plan) - 2
        while at >= 0 and tries > 0:
            shorter = [*found.plan[:at], *found.plan[at + 1 :]]
            tries -= 1
            again = await self.compare(shorter)
            if again is not None and again.plan[-1].kind == found.plan[-1].kind:
                found = again
                at = min(at, len(found.plan) - 1)
            at -= 1
        return found
