"""Whoever writes to the source while its topic is mirrored back: what may come of it, and what must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.state.records import (
    MirrorCutover,
    MirrorDirection,
    MirrorError,
    MirrorFailback,
    MirrorRecord,
    MirrorState,
    PartitionStart,
)
from tests.simulation.judge.excused import Excused
from tests.simulation.judge.late_writers import ends_rightly, untold, wrong_answer
from tests.simulation.kafka.judged import ModelRecord
from tests.simulation.mutations.lives import Event, EventKind, Operation, brief, life
from tests.simulation.recorder import SOURCE, TARGET, Recorder
from tests.simulation.world import simulate

BACK = MirrorRecord(
    link="l",
    source_topic="t",
    mirror_topic="t",
    mirror_id=7,
    state=MirrorState.FAILED,
    failback=MirrorFailback(direction=MirrorDirection.REVERSE),
    error=MirrorError.TARGET_DIVERGED,
    starts=(PartitionStart(0, 0),),
    cutover=MirrorCutover(stopped_at=(10,), stopped_copy_at=(10,)),
    readable=True,
)
LEFT = {0: 3}
SAID = "3 records were written to topic t on the source beside the gateway (3 in partition 0 from offset 12 on)"


class Source:
    """With these records, by offset."""

    def __init__(self, records: dict[int, bytes]) -> None:
        self._records = records

    def records(self, topic: str, partition: int, committed_only: bool = False) -> list[Any]:
        return [
            ModelRecord(offset, None, value, (), 0, -1, -1, -1, False, False, False)
            for offset, value in self._records.items()
        ]


def is_nobodys(value: bytes | None) -> bool:
    return value is not None and value.startswith(b"forgotten:")


def ends(records: dict[int, bytes], **changes: Any) -> Any:
    return ends_rightly(replace(BACK, **changes), Source(records), is_nobodys)  # type: ignore[arg-type]


def test_a_mirror_back_may_fail_by_what_somebody_wrote_behind_the_cutover():
    assert ends({11: b"ours", 12: b"forgotten:0", 13: b"forgotten:1"}) == {0: 12}


@pytest.mark.parametrize(
    "changes",
    [
        {"state": MirrorState.ACTIVE},
        {"failback": MirrorFailback()},
        {"error": MirrorError.TARGET_REJECTED},
        {"error": MirrorError.INTERNAL_ERROR},
    ],
)
def test_it_may_be_nothing_else(changes):
    assert ends({12: b"forgotten:0"}, **changes) == {}


def test_nothing_is_excused_where_nobody_wrote_behind_the_cutover():
    assert ends({12: b"ours"}) == {}
    assert ends({9: b"forgotten:0"}) == {}


def test_a_mirror_that_failed_by_them_tells_how_many_there_are():
    assert list(untold(BACK, {"records_after_cutover": {"0": 3}}, LEFT)) == []
    (what,) = untold(BACK, {"records_after_cutover": {}}, LEFT)
    assert "tells of 0" in what
    (what,) = untold(BACK, {"records_after_cutover": {"0": 4}}, LEFT)
    assert "tells of 4" in what


@pytest.mark.parametrize("state", [MirrorState.ACTIVE, MirrorState.FAILED])
def test_who_asks_for_the_way_home_is_refused_with_the_numbers(state):
    asked = replace(BACK, state=state)
    assert list(wrong_answer(asked, LEFT, 409, {"message": SAID})) == []
    assert list(wrong_answer(asked, {}, 200, [])) == []
    (what,) = wrong_answer(asked, LEFT, 202, [])
    assert "would go home" in what
    found = list(wrong_answer(asked, LEFT, 409, {"message": "it has FAILED"}))
    assert len(found) == 2, "the number and the partition"


def test_behind_them_the_source_is_nobodys_copy_until_it_is_made_anew():
    excused = Excused(Recorder(lambda: 0.0), {})
    excused.nobodys("forgotten")
    log = [(11, "ours:0"), (12, "forgotten:0"), (13, "ours:1")]
    assert excused.known(SOURCE, "t/0", log) == [(11, "ours:0"), (13, "ours:1")]
    excused.broken_off("t/0", 12)
    assert excused.is_broken_off("t")
    assert excused.known(SOURCE, "t/0", log) == [(11, "ours:0")]
    assert excused.known(TARGET, "t/0", log) == log, "where it is written nothing is excused"
    excused.made_anew("t", 5.0)
    assert not excused.is_broken_off("t")
    assert excused.known(SOURCE, "t/0", log, at=4.0) == [(11, "ours:0")]
    assert excused.known(SOURCE, "t/0", log, at=6.0) == [(11, "ours:0"), (13, "ours:1")]


_OVER = Operation.CREATE, Operation.GROUP_PROMOTE, Operation.PROMOTE, Operation.REVERSE, Operation.REBALANCE


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), (Operation.RESTORE, Operation.FAILBACK)], ids=["stays", "restored"])
def test_a_life_with_one_comes_to_a_good_end(more):
    """Clients of the gateways miss nothing; with a restore, which asks before it deletes, the topic goes home."""
    late = Event(EventKind.WRITER_STAYS, 3, "", 1.5, 1.0)
    outcome = simulate(brief(life(*_OVER, *more, pause_s=2.0), events=[late]))
    assert not outcome.failure, outcome.why
    assert any("forgotten writes" in line.what for line in outcome.story)
