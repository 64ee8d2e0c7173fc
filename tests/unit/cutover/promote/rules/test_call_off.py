"""Which promotes can be called off, and what goes back with them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.cutover.promote.rules.call_off import goes_back
from gateway.errors import Conflict
from gateway.state.promote_sets import called_off, is_called_off
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, Undo
from tests.support.control.mirror_records import mirror_record

S = MirrorState


def mirror(topic: str, state: MirrorState = S.PENDING_STOPPED, **values: Any) -> MirrorRecord:
    return mirror_record(link="west", source_topic=topic, mirror_topic=topic, mirror_id=1, state=state, **values)


def test_a_set_goes_back_as_one_whichever_of_it_is_named() -> None:
    together = ("orders", "payments", "group/billing")
    mirrors = [mirror(name, promoted_with=together) for name in together[:2]]
    other = mirror("clicks", promoted_with=("clicks",))
    assert goes_back(mirrors[1:], [*mirrors, other], {}) == ("payments", "orders")
    assert goes_back([mirrors[0], other], [*mirrors, other], {}) == ("orders", "clicks", "payments")


def test_one_that_has_no_record_yet_goes_back_with_its_set() -> None:
    orders, payments = mirror("orders", S.ACTIVE), mirror("payments", S.ACTIVE)
    assert goes_back([orders], [orders, payments], {"orders": ("orders", "payments")}) == ("orders", "payments")


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (mirror("orders", S.ACTIVE), "is not being promoted: it is ACTIVE, and written on the source"),
        (mirror("orders", S.PENDING_MIRROR), "is not being promoted: it is PENDING_MIRROR, and written on the source"),
        (
            mirror("orders", S.STOPPED),
            r"is promoted already, and written on the target \(STOPPED\); .*lockgate mirror reverse orders --link west",
        ),
        (
            mirror("orders", S.ACTIVE, direction=MirrorDirection.REVERSE, undo=Undo.OPEN),
            r"is promoted already, and written on the target \(ACTIVE\); .*lockgate mirror undo orders --link west",
        ),
        (mirror("orders", S.STOPPED, undo_until_ms=7), ".*to go back: lockgate mirror undo orders"),
    ],
)
def test_what_is_not_being_promoted_is_told_and_nothing_goes_back(record: MirrorRecord, why: str) -> None:
    pending = mirror("payments", promoted_with=("payments",))
    with pytest.raises(Conflict, match=f"mirror topic 'orders' {why}"):
        goes_back([pending, record], [pending, record], {})


def test_one_that_was_asked_for_and_has_cut_over_is_promoted_already() -> None:
    stopped = mirror("orders", S.STOPPED)
    with pytest.raises(Conflict, match="is promoted already"):
        goes_back([stopped], [stopped], {"orders": ("orders",)})


@pytest.mark.parametrize("names", [("orders", "payments"), ()])
def test_the_record_says_so_until_it_is_back(names: tuple[str, ...]) -> None:
    record = mirror("orders", promoted_with=names)
    assert not is_called_off(record)
    assert is_called_off(called_off(record))
    assert set(names or ("orders",)) < set(called_off(record).cutover.promoted_with)
