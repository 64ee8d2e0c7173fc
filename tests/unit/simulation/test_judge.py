"""The judge of simulated runs: a small migration that is right, then each class of fault in it, named."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.domain.records import (
    GroupRecord,
    GroupState,
    MirrorDirection,
    MirrorError,
    MirrorMode,
    MirrorState,
    PartitionStart,
)
from tests.simulation.judge import Verdict
from tests.support.two_clusters import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()


def a_whole_migration(scene: Scene) -> None:
    """Three records over the source, a group that moves, a promote, three records over the target."""
    for _ in range(3):
        scene.send()
    scene.read("m-source", scene.source, 0, 2)
    scene.recorder.write("ok", "m-source", "revoke", ["plain/0"])
    scene.promote_group(2, 2)
    scene.recorder.write("ok", "m-target", "assign", ["plain/0"])
    scene.read("m-target", scene.target, 2, 3)
    scene.promote()
    for _ in range(3):
        scene.send(scene.target)
    scene.read("m-target", scene.target, 3, 6)


def found(verdict: Verdict, name: str) -> str:
    """The first example of a class, which must be the only one with a fault but for those that follow from it."""
    assert verdict.counts[name], f"{name} was not found: {verdict.numbers()} {verdict.first}"
    return verdict.examples[name][0]


def test_a_run_without_a_fault_passes(scene: Scene) -> None:
    a_whole_migration(scene)
    verdict = scene.judge.verdict(clients=[SimpleNamespace(name="p", fatal="", revives=False, running=False)])
    assert verdict.passed, verdict.first
    assert (verdict.flips, verdict.moves, verdict.records) == (1, 1, 6)


def test_a_way_back_and_home_passes(scene: Scene) -> None:
    a_whole_migration(scene)
    scene.change(
        state=MirrorState.PENDING_MIRROR,
        direction=MirrorDirection.REVERSE,
        handed_over_at=(3,),
        stopped_at=(),
        stopped_copy_at=(),
    )
    for record in scene.target.log("plain")[3:]:
        scene.source.log("plain").append(record)
    scene.change(state=MirrorState.ACTIVE)
    scene.send()
    scene.judge.look()
    scene.change(state=MirrorState.PENDING_STOPPED)
    scene.change(state=MirrorState.ACTIVE, direction=MirrorDirection.FORWARD, generation=1, handed_over_at=(7,))
    scene.judge.look()
    scene.send()
    verdict = scene.judge.verdict()
    assert verdict.passed, verdict.first
    assert verdict.flips == 2


# -- records ----------------------------------------------------------------------------------------------------


def test_lost_behind_the_cutover(scene: Scene) -> None:
    a_whole_migration(scene)
    del scene.target.log("plain")[4]
    example = found(scene.judge.verdict(), "lost")
    assert "p:5" in example
    assert "plain/0" in example
    assert "[t=" in example


def test_lost_before_the_cutover_is_told_with_its_offset(scene: Scene) -> None:
    scene.send()
    scene.send(scene.source)
    scene.promote()
    example = found(scene.judge.verdict(), "diverged")
    assert example.startswith("plain/0: 1 records before the cutover at 2 are on the source only")
    assert "'p:2' at 1" in example
    assert scene.judge.findings.counts["lost"]


def test_never_copied_in_the_middle(scene: Scene) -> None:
    for _ in range(5):
        scene.send()
    del scene.target.log("plain")[1:3]
    example = found(scene.judge.verdict(), "diverged")
    assert "2 records are missing on the target before 'p:4' at 3: 'p:2' at 1, 'p:3' at 2" in example


def test_duplicated(scene: Scene) -> None:
    scene.send()
    scene.promote()
    scene.send(scene.target, scene.target)
    assert "'p:2' of plain/0 at offsets 1 and 2" in found(scene.judge.verdict(), "duplicated")


def test_what_a_library_sends_again_under_a_new_epoch_is_no_duplicate(scene: Scene) -> None:
    scene.send()
    scene.promote()
    scene.recorder.sent_again("plain/0", [scene.send(scene.target, scene.target)])
    assert scene.judge.verdict().passed


def test_reordered(scene: Scene) -> None:
    for _ in range(3):
        scene.send()
    scene.promote()
    for side in (scene.source, scene.target):
        log = side.log("plain")
        log[0], log[1] = replace(log[1], offset=0), replace(log[0], offset=1)
    assert "p sent 'p:1', then 'p:2'" in found(scene.judge.verdict(), "reordered")


@pytest.mark.parametrize(
    ("field", "value"),
    [("key", b"k"), ("timestamp", 1), ("headers", (("h", b"1"),))],
    ids=["key", "timestamp", "headers"],
)
def test_a_copy_that_is_not_the_same(scene: Scene, field: str, value: Any) -> None:
    scene.send()
    log = scene.target.log("plain")
    log[0] = replace(log[0], **{field: value})
    assert f"'p:1' at 0 has {field}" in found(scene.judge.verdict(), "diverged")


def test_another_offset_where_offsets_are_preserved(scene: Scene) -> None:
    scene.send()
    scene.send()
    log = scene.target.log("plain")
    log[1] = replace(log[1], offset=4)
    assert "'p:2' at 1 is at 4 on the target" in found(scene.judge.verdict(), "diverged")


def test_a_record_that_nobody_sent(scene: Scene) -> None:
    scene.send()
    scene.target.append("plain", b"padding?")
    example = found(scene.judge.verdict(), "diverged")
    assert "'padding?' at 1, which the source does not have" in example


def test_what_one_replica_acknowledged_may_be_lost_with_it_if_leaders_were_lost(scene: Scene) -> None:
    scene.send()
    scene.send(end="ok")
    scene.recorder.weak.add(("p", 2))
    for side in (scene.source, scene.target):
        del side.log("plain")[1]
    assert scene.judge.verdict(lossy=True).passed
    assert "'p:2' of plain/0" in found(scene.judge.verdict(), "lost")


# -- transactions -----------------------------------------------------------------------------------------------


@pytest.fixture
def two_topics(scene: Scene) -> Scene:
    for side in (scene.source, scene.target):
        side.create("other")
    scene.store(replace(scene.mirror, mirror_topic="other", source_topic="other", mirror_id=2))
    return scene


@pytest.mark.parametrize("end", ["ok", "unknown"])
def test_torn(two_topics: Scene, end: str) -> None:
    source, target = two_topics.source, two_topics.target
    values = {"plain/0": ["a"], "other/0": ["b", "c"]}
    two_topics.transact(end, (source, "plain", 1), (source, "other", 2), (target, "plain", 1), values=values)
    example = found(two_topics.judge.verdict(), "torn")
    assert "transaction of p on the target: 1 of 3 records are there, 'b' of other/0 is not" in example


def test_an_aborted_transaction_that_can_be_read(two_topics: Scene) -> None:
    both = two_topics.source, two_topics.target
    two_topics.transact("fail", *((side, "plain", 1) for side in both), values={"plain/0": ["a"]})
    assert "'a' of plain/0" in found(two_topics.judge.verdict(), "torn")


def test_transactions_that_are_whole_are_not_torn(two_topics: Scene) -> None:
    values = {"plain/0": ["a"], "other/0": ["b", "c"]}
    both = two_topics.source, two_topics.target
    for side in both:
        side.append("plain", b"aborted", aborted=True)
    two_topics.transact("ok", *((side, t, 2) for side in both for t in ("plain", "other")), values=values)
    two_topics.transact("fail", values={"plain/0": ["x"]})
    two_topics.transact("unknown", values={"plain/0": ["y"], "other/0": ["z"]})
    assert two_topics.judge.verdict().passed, two_topics.judge.verdict().first


# -- sides ------------------------------------------------------------------------------------------------------


def test_gated_read(scene: Scene) -> None:
    scene.send()
    scene.read("m-target", scene.target, 0, 1)
    assert "m-target of group g read plain/0 on target" in found(scene.judge.verdict(), "gated_reads")


def test_split_write(scene: Scene) -> None:
    a_whole_migration(scene)
    scene.judge.look()
    scene.send(scene.source)
    example = found(scene.judge.verdict(), "split_writes")
    assert "'p:7' of plain/0 was written on source only" in example


def test_a_record_on_both_sides_behind_the_cutover(scene: Scene) -> None:
    a_whole_migration(scene)
    late = scene.target.log("plain")[4].value
    scene.source.append("plain", late)
    example = found(scene.judge.verdict(), "split_writes")
    assert "'p:5' is on the source at 3, behind the cutover, and on the target, too, at 4" in example


def test_a_late_record_that_nobody_was_told_of(scene: Scene) -> None:
    scene.recorder.write("invoke", "p", "send", [["send", "plain/0", "late"]], 99)
    a_whole_migration(scene)
    scene.source.append("plain", b"late")
    verdict = scene.judge.verdict()
    assert verdict.passed, verdict.first
    assert verdict.late == 1


def test_a_late_record_that_the_target_acknowledged(scene: Scene) -> None:
    a_whole_migration(scene)
    late = scene.send(scene.target, offset=6)
    scene.source.append("plain", late.encode())
    verdict = scene.judge.verdict()
    assert verdict.passed, verdict.first
    assert verdict.late == 1


def test_an_unanswered_write_that_was_sent_to_the_source_behind_the_cutover(scene: Scene) -> None:
    a_whole_migration(scene)
    scene.send(scene.source, end="unknown")
    assert "'p:7' of plain/0 was written on source only" in found(scene.judge.verdict(), "split_writes")


# -- offsets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target_offset", "said"),
    [(1, "1 records again, from 'p:2' at 1 on"), (3, "1 records left out, from 'p:3' at 2 on")],
    ids=["too low", "too high"],
)
def test_an_offset_carried_over_wrongly(scene: Scene, target_offset: int, said: str) -> None:
    for _ in range(4):
        scene.send()
    scene.read("m-source", scene.source, 0, 2)
    scene.promote_group(2, target_offset)
    example = found(scene.judge.verdict(), "wrong_offsets")
    assert example.startswith(f"group g, plain/0: offset 2 was carried over as {target_offset}: {said}")


def test_an_older_commit_carried_over(scene: Scene) -> None:
    for _ in range(4):
        scene.send()
    scene.read("m-source", scene.source, 0, 3)
    scene.promote_group(2, 2)
    assert "the group committed 3 on the source, 2 was carried over" in found(scene.judge.verdict(), "wrong_offsets")


def test_a_commit_that_was_not_carried_over(scene: Scene) -> None:
    scene.send()
    scene.read("m-source", scene.source, 0, 1)
    scene.judge.look()
    scene.store(GroupRecord(link="l", group="g", state=GroupState.PROMOTED))
    scene.judge.look()
    assert "committed 1 on the source, nothing was carried" in found(scene.judge.verdict(), "wrong_offsets")


def test_consumed_to_the_end(scene: Scene) -> None:
    scene.send()
    scene.read("m-source", scene.source, 0, 1)
    scene.promote_group(1, 1)
    assert scene.judge.verdict().passed, scene.judge.verdict().first


def translated(scene: Scene) -> None:
    """Records at 0, 2, 3 of the source (a marker at 1); 0, 1, 2 of the target."""
    scene.change(mode=MirrorMode.TRANSLATE, starts=(PartitionStart(0, -1),))
    scene.send()
    scene.source.append("plain", None, control=True)
    scene.send()
    scene.send()


def test_a_map_that_is_right(scene: Scene) -> None:
    translated(scene)
    scene.promise(1, 2, (2, 1))
    scene.read("m-source", scene.source, 0, 1)
    scene.promote_group(1, 1)
    assert scene.judge.verdict().passed, scene.judge.verdict().first


def test_a_map_that_is_wrong(scene: Scene) -> None:
    translated(scene)
    scene.promise(1, 1, (2, 1))
    scene.promise(2, 1, (4, 2))
    example = found(scene.judge.verdict(), "wrong_offsets")
    assert "'p:3' at 2 of the copy" in example or "'p:2' at 1 of the copy" in example


def test_a_promise_that_another_appender_kept(scene: Scene) -> None:
    translated(scene)
    scene.promise(1, 2, (2, 1))
    scene.promise(1, 1, (3, 1), writer=8, kept=False)
    assert scene.judge.verdict().passed, scene.judge.verdict().first


# -- states -----------------------------------------------------------------------------------------------------


def test_failed_topic(scene: Scene) -> None:
    scene.change(state=MirrorState.FAILED, error=MirrorError.TARGET_DIVERGED, error_message="at 5")
    assert "plain: FAILED: TARGET_DIVERGED at 5" in found(scene.judge.verdict(), "failed_topics")


def test_a_topic_that_failed_once_is_not_forgotten(scene: Scene) -> None:
    scene.change(state=MirrorState.FAILED, error=MirrorError.TARGET_DIVERGED)
    scene.judge.look()
    scene.change(state=MirrorState.STOPPED, stopped_at=(0,), not_mirrored=(0,))
    found(scene.judge.verdict(), "failed_topics")


def test_failed_group(scene: Scene) -> None:
    scene.store(GroupRecord(link="l", group="g", state=GroupState.FAILED, error_message="no"))
    assert "group g: no" in found(scene.judge.verdict(), "failed_topics")


@pytest.mark.parametrize(
    "state", [MirrorState.PENDING_STOPPED, MirrorState.PENDING_SYNCHRONIZE, MirrorState.SOURCE_UNAVAILABLE]
)
def test_stuck_in_a_state(scene: Scene, state: MirrorState) -> None:
    scene.change(state=state)
    assert f"plain: it is {state} at rest" in found(scene.judge.verdict(), "stuck")


def test_stuck_behind(scene: Scene) -> None:
    scene.send()
    scene.send(scene.source)
    assert "the mirror is 1 records behind at rest, from 'p:2' at 1 on" in found(scene.judge.verdict(), "stuck")
    assert scene.judge.verdict(at_rest=False).counts["stuck"] == 1


def test_stuck_client_and_operation(scene: Scene) -> None:
    clients = [
        SimpleNamespace(name="a", fatal="", revives=False, running=True),
        SimpleNamespace(name="b", fatal="PRODUCER_FENCED", revives=False, running=False),
        SimpleNamespace(name="c", fatal="PRODUCER_FENCED", revives=True, running=False),
    ]
    verdict = scene.judge.verdict(clients=clients, stuck=["promote of plain"])
    assert verdict.counts["stuck"] == 3
    assert verdict.examples["stuck"][0].startswith("run: promote of plain [t=")


# -- failover, retention ----------------------------------------------------------------------------------------


def test_a_failover_leaves_behind_what_it_says_and_nothing_else(scene: Scene) -> None:
    scene.send()
    scene.send(scene.source)
    scene.promote(stopped_at=(1,), not_mirrored=(1,), producers=())
    scene.send(scene.target)
    assert scene.judge.verdict().passed, scene.judge.verdict().first
    del scene.target.log("plain")[1]
    assert "p:3" in found(scene.judge.verdict(), "lost")


def test_a_write_to_the_source_behind_a_failover(scene: Scene) -> None:
    scene.send()
    scene.promote(stopped_at=(1,), not_mirrored=(0,), producers=())
    scene.send(scene.source)
    scene.send(scene.target)
    assert "p:2" in found(scene.judge.verdict(), "lost")
    assert scene.judge.findings.counts["split_writes"]


def test_what_retention_took_is_not_missed(scene: Scene) -> None:
    for _ in range(5):
        scene.send()
    for side, count in ((scene.source, 1), (scene.target, 3)):
        del side.log("plain")[:count]
        side.starts["plain", 0] = count
    assert scene.judge.verdict().passed, scene.judge.verdict().first


def test_a_topic_of_the_target_alone(scene: Scene) -> None:
    scene.target.create("new")
    scene.recorder.write("invoke", "p", "send", [["send", "new/0", "n"]], 77)
    scene.target.append("new", b"n")
    scene.recorder.write("ok", "p", "send", [["send", "new/0", [0, "n"]]], 77)
    assert scene.judge.verdict().passed, scene.judge.verdict().first


# -- the state topic --------------------------------------------------------------------------------------------


def test_two_writers_at_a_time(scene: Scene) -> None:
    scene.lead()
    scene.store(scene.mirror, epoch=1)
    assert "written by producer 5 epoch 1 in the term of 5/2" in found(scene.judge.verdict(), "broken")


def test_a_writer_that_fences_nobody(scene: Scene) -> None:
    scene.lead(epoch=1)
    assert "a writer of epoch 1 after one of 1" in found(scene.judge.verdict(), "broken")


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ({"fence_epoch": 3}, {"fence_epoch": 2}, "fence_epoch went from 3 back to 2"),
        ({"generation": 2}, {"generation": 1}, "generation went from 2 back to 1"),
        ({}, {"stopped_at": (1, 2)}, "stopped_at has 2 entries for 1 partitions"),
        ({}, {"handed_over_at": (1, 2, 3)}, "handed_over_at has 3 entries for 1 partitions"),
        ({}, {"handed_over_at": (1,), "handed_over_from": (1, 1)}, "handed_over_from has 2 entries"),
        ({}, {"state": MirrorState.STOPPED, "stopped_at": (0,)}, "it is STOPPED without producers"),
        ({}, {"state": MirrorState.STOPPED, "producers": ((),)}, "it is STOPPED without stopped_at"),
        ({"mode": MirrorMode.TRANSLATE}, {"mode": MirrorMode.PRESERVE}, "are said to be equal again"),
        (
            {"mode": MirrorMode.TRANSLATE},
            {"handed_over_at": (3,)},
            "its offsets are translated, and handed_over_from is empty",
        ),
    ],
)
def test_records_that_cannot_be(scene: Scene, first: dict[str, Any], then: dict[str, Any], said: str) -> None:
    scene.change(**first)
    scene.change(**then)
    assert any(said in each for each in scene.judge.verdict().examples["broken"]), scene.judge.verdict().examples


def test_a_history_that_is_none(scene: Scene) -> None:
    scene.recorder.write("ok", "p", "send", [["send", "plain/0", [0, "x"]]], 3)
    assert "history, line" in found(scene.judge.verdict(), "broken")


def test_compacted_logs_may_have_gaps_but_end_alike(scene: Scene) -> None:
    scene.change(compacted=True, mode=MirrorMode.TRANSLATE, starts=(PartitionStart(0, -1),))
    for key in (b"a", b"b", b"a"):
        scene.send(key=key)
    del scene.target.log("plain")[0]
    assert scene.judge.verdict().passed, scene.judge.verdict().first
    scene.source.append("plain", b"p:9", key=b"b")
    assert "key b'b' ends as 'p:9' at 3" in found(scene.judge.verdict(), "diverged")
