"""What a run does, worked out from its seed alone: operations, faults at their steps, events, and who takes part."""

from tests.simulation.plan.as_one import AS_ONE_FROM, AS_ONE_STEPS
from tests.simulation.plan.by_seed import GIVEN_UP, RANDOM_FROM, plan, systematic, systematic_runs
from tests.simulation.plan.called_off import CALLED_OFF_AT
from tests.simulation.plan.kinds import EventKind, FaultKind, Operation
from tests.simulation.plan.pairs import BUILT_FIRST, JOINED, MORE_PAIRS, MORE_STEPS, PAIRS, STEPS
from tests.simulation.plan.run_plan import Act, Event, Fault, RunPlan, joined_topics
from tests.simulation.plan.topics import (
    AUTO,
    CHAINED,
    CROSSED,
    EAST,
    FANNED,
    GROUP,
    MENDED,
    NEWCOMER,
    NORTH,
    ORDERS,
    OWNED,
    OWNED_GROUP,
    PLAIN,
    SET,
    TOPICS,
)
from tests.simulation.plan.wider import FURTHER_FROM

__all__ = [
    "AS_ONE_FROM",
    "AS_ONE_STEPS",
    "AUTO",
    "BUILT_FIRST",
    "CALLED_OFF_AT",
    "CHAINED",
    "CROSSED",
    "EAST",
    "FANNED",
    "FURTHER_FROM",
    "GIVEN_UP",
    "GROUP",
    "JOINED",
    "MENDED",
    "MORE_PAIRS",
    "MORE_STEPS",
    "NEWCOMER",
    "NORTH",
    "ORDERS",
    "OWNED",
    "OWNED_GROUP",
    "PAIRS",
    "PLAIN",
    "RANDOM_FROM",
    "SET",
    "STEPS",
    "TOPICS",
    "Act",
    "Event",
    "EventKind",
    "Fault",
    "FaultKind",
    "Operation",
    "RunPlan",
    "joined_topics",
    "plan",
    "systematic",
    "systematic_runs",
]
