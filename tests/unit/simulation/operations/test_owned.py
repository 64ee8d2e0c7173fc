"""A topic whose owner goes on as if nobody migrated it: alone, and with what he did once that found something."""

from __future__ import annotations

import pytest

from tests.simulation.mutations.lives import Event, EventKind, Operation, brief, life
from tests.simulation.plan.owner_acts import BY_LINK, LIVES, TRANSACTIONS, owned_life
from tests.simulation.recorder import SOURCE, TARGET
from tests.simulation.world import simulate

pytestmark = pytest.mark.slow

_O = Operation
_K = EventKind


def lived(*operations: Operation, how: str = "", pause_s: float = 1.0, events: tuple[Event, ...] = ()) -> str:
    acts = (*life(_O.CREATE), *owned_life(*operations, how=how, pause_s=pause_s))
    outcome = simulate(brief(acts, events=events))
    assert not outcome.failure, outcome.why
    return "\n".join(map(str, outcome.story))


@pytest.mark.parametrize("operations", LIVES, ids=lambda each: str(each[-1]))
def test_a_life_of_it(operations):
    lived(*operations)


@pytest.mark.parametrize("operations", LIVES[:2], ids=lambda each: str(each[-1]))
def test_a_life_of_it_with_transactions(operations):
    lived(*operations, how=TRANSACTIONS)


def test_a_link_that_is_deleted_behind_a_failback():
    lived(_O.OWN, _O.PROMOTE, _O.REVERSE, _O.FAILBACK, _O.PROMOTE, _O.MADE_AGAIN, how=BY_LINK, pause_s=3.0)


@pytest.mark.parametrize(
    ("life_of", "event", "what"),
    [
        (0, Event(_K.OWNER_DELETES_TOPIC, 62, "stop_mirror", 0.0, 2.0, TARGET), "TARGET_TOPIC_MAY_BE_DELETED"),
        (0, Event(_K.OWNER_ADDS, 63, "begin", 0.0, 2.0, SOURCE), "on the target, too"),
        (0, Event(_K.OWNER_ADDS, 62, "persist_stopped", 0.0, 2.0, SOURCE), "has 3 partitions on the source"),
        (
            0,
            Event(_K.OWNER_DELETES_TOPIC, 64, "persist_stopped", 0.0, 2.0, TARGET),
            "FAILED TARGET_TOPIC_MAY_BE_DELETED",
        ),
        (0, Event(_K.OWNER_DELETES_GROUP, 61, "mark_promoted", 0.0, 2.0, TARGET), "is deleted on the target"),
        (0, Event(_K.OWNER_DELETES_GROUP, 65, "check_members", 0.0, 2.0, TARGET), "--reset-offsets"),
        (1, Event(_K.OWNER_DELETES_TOPIC, 64, "carry_out", 0.0, 2.0, TARGET), "owned is deleted on the target"),
        (1, Event(_K.OWNER_DELETES_RECORDS, 61, "pause_writes", 0.0, 2.0, TARGET), "owned begins at"),
        (1, Event(_K.OWNER_ALTERS, 61, "restore_configs", 0.0, 2.0, TARGET), "owned gets"),
    ],
)
def test_what_its_owner_does_to_it(life_of, event, what):
    assert what in lived(*LIVES[life_of], events=(event,))
