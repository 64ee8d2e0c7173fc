"""The judge of simulated runs: a small migration that is right, then each class of fault in it, named."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.state.records import (
    GroupRecord,
    GroupState,
    MirrorDirection,
    MirrorError,
    MirrorFailback,
    MirrorMode,
    MirrorState,
    PartitionStart,
)
from tests.simulation.judge import Findings, Judge
from tests.simulation.judge.pipelines import judge_pipeline
from tests.support.brokers.two_clusters import Scene, a_whole_migration, found


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_run_without_a_fault_passes(scene: Scene) -> None:
    a_whole_migration(scene)
    verdict = scene.judge.verdict(clients=[SimpleNamespace(name="p", fatal="", revives=False, running=False)])
    assert verdict.passed, verdict.first
    assert (verdict.cutovers, verdict.moves, verdict.records) == (1, 1, 6)


def test_a_failback_both_ways_passes(scene: Scene) -> None:
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
    scene.change(state=MirrorState.ACTIVE, direction=MirrorDirection.FORWARD, failback_epoch=1, handed_over_at=(7,))
    scene.judge.look()
    scene.send()
    verdict = scene.judge.verdict()
    assert verdict.passed, verdict.first
    assert verdict.cutovers == 2


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


def test_a_record_after_cutover_that_nobody_was_told_of(scene: Scene) -> None:
    scene.recorder.write("invoke", "p", "send", [["send", "plain/0", "late"]], 99)
    a_whole_migration(scene)
    scene.source.append("plain", b"late")
    verdict = scene.judge.verdict()
    assert verdict.passed, verdict.first
    assert verdict.late == 1


def test_a_record_after_cutover_that_the_target_acknowledged(scene: Scene) -> None:
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


@pytest.mark.parametrize("answered", [True, False])
def test_a_number_that_is_the_sources_own_word_leaves_nothing_acknowledged_out(scene: Scene, answered: bool) -> None:
    scene.send()
    scene.send(scene.source)
    scene.promote(stopped_at=(1,), not_mirrored=(0,), source_answered=answered, producers=())
    verdict = scene.judge.verdict()
    assert verdict.passed is not answered
    if answered:
        assert "says that the source ends at 1" in found(verdict, "lost")


def test_what_a_failover_left_behind_is_written_again_and_comes_back(scene: Scene) -> None:
    """A client that had no answer sends it again; the source's topic is made anew as a copy of the target's."""
    scene.send()
    scene.source.append("plain", b"p:2")
    scene.promote(stopped_at=(1,), not_mirrored=(1,), producers=())
    assert scene.send(scene.target) == "p:2"
    scene.source.log("plain")[:] = scene.target.log("plain")
    scene.change(
        state=MirrorState.PENDING_RESTORE_MIRROR,
        direction=MirrorDirection.REVERSE,
        not_mirrored=(),
        stopped_at=(),
        stopped_copy_at=(),
    )
    scene.judge.look()
    scene.change(state=MirrorState.ACTIVE)
    scene.send()
    assert scene.judge.verdict().passed, scene.judge.verdict().first
    del scene.source.log("plain")[1]
    assert "'p:2'" in found(scene.judge.verdict(), "diverged")


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


def test_what_was_deleted_where_it_is_written_may_be_on_the_copy_or_not(scene: Scene) -> None:
    gone = [scene.send().encode(), scene.send().encode()]
    del scene.source.log("plain")[:]
    scene.source.starts["plain", 0] = 2
    scene.judge.deleted("plain/0", gone)
    assert scene.judge.verdict().passed, scene.judge.verdict().first
    scene.target.append("plain", b"p:9")
    assert "'p:9' at 2" in found(scene.judge.verdict(), "diverged")


# -- pipelines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "name"), [(["p:1", "p:2"], ""), (["p:1"], "lost"), (["p:1", "p:2", "p:1"], "duplicated")]
)
def test_a_pipeline_writes_each_record_once(outputs: list[str], name: str) -> None:
    held = {"source": {"plain/0": ["p:1"], "plain/1": ["p:2"]}, "target": {"out/0": [f"{v}|pipe:1" for v in outputs]}}
    findings = Findings()
    judge_pipeline(("plain", "out"), {"out": "target"}, held, "source", findings, 1.0)
    assert {each for each, count in findings.counts.items() if count} == ({name} if name else set())


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
    assert "written by producer 5 epoch 1 after 5/2" in found(scene.judge.verdict(), "broken")


def test_a_writer_that_fences_nobody(scene: Scene) -> None:
    scene.lead(epoch=1)
    assert "a writer of epoch 1 after one of 1" in found(scene.judge.verdict(), "broken")


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ({"pause_epoch": 3}, {"pause_epoch": 2}, "pause_epoch went from 3 back to 2"),
        ({"failback_epoch": 2}, {"failback_epoch": 1}, "failback_epoch went from 2 back to 1"),
        ({}, {"stopped_at": (1, 2)}, "stopped_at has 2 entries for 1 partitions"),
        ({}, {"handed_over_at": (1, 2, 3)}, "handed_over_at has 3 entries for 1 partitions"),
        ({}, {"handed_over_at": (1, 1), "handed_over_from": (1, 1)}, "handed_over_from has 2 entries"),
        ({}, {"state": MirrorState.STOPPED, "stopped_at": (0,)}, "it is STOPPED without producers"),
        ({}, {"state": MirrorState.STOPPED, "producers": ((),)}, "it is STOPPED without stopped_at"),
        ({"mode": MirrorMode.TRANSLATE}, {"mode": MirrorMode.PRESERVE}, "are said to be equal again"),
    ],
)
def test_records_that_cannot_be(scene: Scene, first: dict[str, Any], then: dict[str, Any], said: str) -> None:
    scene.change(**first)
    scene.change(**then)
    assert any(said in each for each in scene.judge.verdict().examples["broken"]), scene.judge.verdict().examples


@pytest.mark.parametrize(
    ("began", "origin", "said"),
    [((3,), (), "handed_over_from is empty"), ((1,), (1, 1), "handed_over_at has 1 entries, ..._from 2")],
)
def test_a_record_by_halves(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, began: tuple[int, ...], origin: tuple[int, ...], said: str
) -> None:
    """None can be built, unless a mutation takes that away."""
    monkeypatch.setattr(MirrorFailback, "__post_init__", lambda self: None)
    scene.change(mode=MirrorMode.TRANSLATE)
    failback = replace(scene.mirror.failback, handed_over_at=began, handed_over_from=origin)
    scene.store(replace(scene.mirror, failback=failback))
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


# -- several judges of a run --------------------------------------------------------------------------------------


def judge_of(scene: Scene, **options: Any) -> Judge:
    return Judge(scene.recorder, scene.source, scene.target, lambda: scene.now, **options)


def test_a_link_that_is_another_judges(scene: Scene) -> None:
    scene.change(state=MirrorState.FAILED, error=MirrorError.TARGET_DIVERGED)
    assert judge_of(scene, links=("other",)).verdict().passed
    found(judge_of(scene, links=("l", "other")).verdict(), "failed_topics")


def test_a_topic_whose_history_is_told_elsewhere_has_its_logs_compared_all_the_same(scene: Scene) -> None:
    scene.source.append("plain", b"by somebody of another history")
    scene.target.append("plain", b"by somebody of another history")
    assert not judge_of(scene).verdict().passed
    elsewhere = judge_of(scene, told=lambda topic: topic != "plain")
    assert elsewhere.verdict().passed
    scene.target.append("plain", b"not the source's")
    found(elsewhere.verdict(), "diverged")


def test_verdicts_of_several_judges_are_one(scene: Scene) -> None:
    scene.send()
    fine = judge_of(scene).verdict()
    scene.change(state=MirrorState.FAILED, error=MirrorError.TARGET_DIVERGED)
    wrong = judge_of(scene).verdict()
    both = fine.and_also(wrong)
    assert not both.passed
    assert both.first == wrong.first
    assert both.records == fine.records + wrong.records
    assert fine.and_also(fine).passed
