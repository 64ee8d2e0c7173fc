"""What may come of a topic whose owner goes on as if nobody migrated it, and what must hold instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.state.records import (
    MirrorDirection,
    MirrorError,
    MirrorFailback,
    MirrorRecord,
    MirrorState,
    PartitionStart,
)
from tests.simulation.judge.excused import Excused
from tests.simulation.judge.history import Write
from tests.simulation.judge.owners import answered_after, has_settled, wrong_end, wrong_partitions
from tests.simulation.recorder import SOURCE, TARGET, Recorder

ACTIVE = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=7, starts=(PartitionStart(0, 0),) * 2, readable=True
)
BACK = replace(ACTIVE, failback=MirrorFailback(direction=MirrorDirection.REVERSE))


def failed(error: MirrorError, message: str = "it is so", of: MirrorRecord = ACTIVE) -> MirrorRecord:
    return replace(of, state=MirrorState.FAILED, error=error, error_message=message)


def test_a_topic_that_is_deleted_settles_when_its_mirror_says_so():
    assert not has_settled(ACTIVE, {SOURCE})
    assert not has_settled(replace(ACTIVE, state=MirrorState.PENDING_STOPPED), {TARGET})
    assert has_settled(failed(MirrorError.SOURCE_TOPIC_MAY_BE_DELETED), {SOURCE})
    assert has_settled(None, {SOURCE})
    assert has_settled(ACTIVE, ())


@pytest.mark.parametrize(
    ("mirror", "deleted"),
    [
        (failed(MirrorError.SOURCE_TOPIC_MAY_BE_DELETED), SOURCE),
        (failed(MirrorError.TARGET_TOPIC_MAY_BE_DELETED), TARGET),
        (failed(MirrorError.SOURCE_TOPIC_MAY_BE_DELETED, of=BACK), TARGET),
        (failed(MirrorError.TARGET_TOPIC_MAY_BE_DELETED, of=BACK), SOURCE),
        (failed(MirrorError.INTERNAL_ERROR, "topic t does not exist any more"), TARGET),
        (replace(ACTIVE, state=MirrorState.STOPPED), SOURCE),
    ],
)
def test_it_may_end_so(mirror, deleted):
    assert list(wrong_end(mirror, {deleted})) == []


@pytest.mark.parametrize(
    ("mirror", "deleted", "what"),
    [
        (ACTIVE, SOURCE, "it is ACTIVE"),
        (replace(ACTIVE, state=MirrorState.PENDING_STOPPED), TARGET, "it is PENDING_STOPPED"),
        (failed(MirrorError.TARGET_TOPIC_MAY_BE_DELETED), SOURCE, "not with SOURCE_TOPIC_MAY_BE_DELETED"),
        (failed(MirrorError.SOURCE_TOPIC_MAY_BE_DELETED, of=BACK), SOURCE, "not with TARGET_TOPIC_MAY_BE_DELETED"),
        (failed(MirrorError.INTERNAL_ERROR), TARGET, "INTERNAL_ERROR"),
        (failed(MirrorError.SOURCE_TOPIC_MAY_BE_DELETED, ""), SOURCE, "does not say why"),
    ],
)
def test_and_not_so(mirror, deleted, what):
    (found,) = wrong_end(mirror, {deleted})
    assert what in found


def test_nobody_but_its_owner_adds_partitions_where_it_is_written():
    both, stopped = {SOURCE: 2, TARGET: 2}, replace(ACTIVE, state=MirrorState.STOPPED)
    assert list(wrong_partitions(ACTIVE, both, both)) == []
    assert list(wrong_partitions(stopped, {SOURCE: 3, TARGET: 2}, {SOURCE: 3, TARGET: 2})) == []
    (what,) = wrong_partitions(stopped, {SOURCE: 3, TARGET: 2}, {SOURCE: 3, TARGET: 3})
    assert "3 partitions on the target, which clients write" in what
    (what, _) = wrong_partitions(ACTIVE, both, {SOURCE: 1, TARGET: 2})
    assert "1 partitions on the source" in what


def test_a_mirror_follows_partitions():
    owned = {SOURCE: 3, TARGET: 3}
    found = list(wrong_partitions(ACTIVE, owned, {SOURCE: 3, TARGET: 2}))
    assert len(found) == 2, "the copy and the mirror lack one"
    assert list(wrong_partitions(replace(ACTIVE, starts=ACTIVE.starts[:1] * 3), owned, owned)) == []


def test_behind_the_deletion_no_write_is_answered_nor_found_anywhere_else():
    writes = {
        "a": Write(1.0, "ok", 5),
        "b": Write(9.0, "unknown"),
        "c": Write(9.0, "ok", 6),
        "d": Write(9.0, "unknown"),
    }
    found = dict(answered_after(writes, 5.0, ["a", "d"]))
    assert list(found) == ["lost", "split_writes"]
    assert "'c'" in found["lost"]
    assert "'d'" in found["split_writes"]


def test_the_history_of_a_topic_ends_with_it():
    excused = Excused(Recorder(lambda: 0.0), {})
    sent = {"type": "ok", "process": "p", "f": "send", "time": int(3e9), "value": [["send", "t/0", [4, "p:0"]]]}
    read = {"type": "ok", "process": "r", "f": "poll", "time": int(6e9), "value": [["poll", {}]]}
    assert excused.excusing(sent, {}) == sent
    excused.topic_gone("t", 5.0)
    assert excused.excusing(sent, {})["type"] == "unknown"
    assert excused.excusing({**sent, "time": int(7e9)}, {})["type"] == "ok", "what is told behind that is judged"
    assert excused.excusing({**sent, "value": [["send", "u/0", [4, "p:0"]]]}, {})["type"] == "ok"
    assert excused.is_of_gone(read)
    assert not excused.is_of_gone({**read, "time": int(4e9)})
    assert not excused.is_of_gone(sent)
