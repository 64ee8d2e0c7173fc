"""The kinds of steps: functions of the context and of random numbers of their own, so that any can be left out.

A step that has nothing to work on does nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from tests.broker_model.context import Context, ProducerInfo, TopicInfo

Step = Callable[[Context, Random], Awaitable[None]]

STEPS: Final[dict[str, tuple[Step, int]]] = {}
"""Step and weight by name."""


def step(weight: int) -> Callable[[Step], Step]:
    """Register a kind of step."""

    def register(function: Step) -> Step:
        STEPS[function.__name__] = (function, weight)
        return function

    return register


def a_topic(ctx: Context, rng: Random, unknown: float = 0.05) -> TopicInfo | None:
    """A topic of the sequence, sometimes one that does not exist."""
    if rng.random() < unknown:
        return TopicInfo(f"{ctx.prefix}none", 1)
    if not ctx.topics:
        return None
    return ctx.topics[rng.choice(sorted(ctx.topics))]


def a_partition(rng: Random, topic: TopicInfo, unknown: float = 0.03) -> int:
    """A partition of it, sometimes one that it does not have."""
    return topic.partitions + 3 if rng.random() < unknown else rng.randrange(topic.partitions)


def a_producer(ctx: Context, rng: Random, transactional: bool) -> ProducerInfo | None:
    """A producer that was given its id before."""
    found = [each for each in ctx.producers if (each.transactional_id is not None) == transactional]
    return rng.choice(found) if found else None
