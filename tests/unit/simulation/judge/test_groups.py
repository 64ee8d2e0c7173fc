"""The judge of simulated runs: where groups go on, what they commit, and the maps that say it."""

from __future__ import annotations

import pytest

from gateway.state.records import (
    CarriedOffset,
    GroupRecord,
    GroupState,
    MirrorMode,
    PartitionStart,
)
from gateway.state.topic import TOPIC
from tests.simulation.fleet.looks import Look
from tests.support.brokers.two_clusters import Scene, a_whole_migration, found


@pytest.fixture
def scene() -> Scene:
    return Scene()


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


def failed_over(scene: Scene, offset: int, note: str) -> None:
    """Four records, three of them read and committed on the source; then the group goes on from `offset`."""
    for _ in range(4):
        scene.send()
    scene.read("m-source", scene.source, 0, 3)
    scene.recorder.write("ok", "m-source", "revoke", ["plain/0"])
    scene.now += 10
    scene.judge.look()
    carried = (CarriedOffset("plain", 0, offset, offset),)
    scene.store(GroupRecord(link="l", group="g", state=GroupState.PROMOTED, offsets=carried, note=note))
    scene.judge.look()
    scene.recorder.write("ok", "m-target", "assign", ["plain/0"])


def test_a_group_that_was_failed_over_reads_again_from_where_it_is_told_to(scene: Scene) -> None:
    failed_over(scene, 1, "failed over: offsets as the source had them 30 s before")
    scene.read("m-target", scene.target, 1, 4)
    assert scene.judge.verdict().passed, scene.judge.verdict().first


def test_a_group_that_was_failed_over_and_goes_on_elsewhere(scene: Scene) -> None:
    failed_over(scene, 1, "failed over: offsets as the source had them 30 s before")
    scene.read("m-target", scene.target, 2, 4)
    assert "began at offset 2, 1 records after what was committed" in found(scene.judge.verdict(), "wrong_offsets")


def test_a_failover_with_offsets_older_than_it_says(scene: Scene) -> None:
    failed_over(scene, 1, "failed over: offsets as the source had them 2 s before")
    scene.read("m-target", scene.target, 1, 4)
    assert "3 was committed long before" in found(scene.judge.verdict(), "wrong_offsets")


@pytest.mark.parametrize(("joins_before_s", "excused"), [(-1.0, True), (0.1, True), (1.0, False)])
def test_a_member_that_joins_on_the_source_behind_the_last_look(
    scene: Scene, joins_before_s: float, excused: bool
) -> None:
    a_whole_migration(scene)
    stored, seen = (op for op in scene.recorder.ops if op["f"] == "move")
    opened = {"side": "source", "group": "g", "reset": "earliest"}
    joined_at = stored["time"] - int(joins_before_s * 1e9)
    at = scene.recorder.ops.index(seen) + 1 if joins_before_s < 0 else scene.recorder.ops.index(stored)
    for f, value in (("assign", ["plain/0"]), ("open", opened)):
        op = {"type": "ok", "process": "visitor", "f": f, "time": joined_at, "value": value}
        scene.recorder.ops.insert(at, op)
    scene.recorder.sides["visitor"] = "source"
    scene.read("visitor", scene.source, 2, 3)
    assert bool(scene.judge.verdict().counts["gated_reads"]) != excused


@pytest.mark.parametrize(("joins_before_s", "excused"), [(0.1, True), (1.0, False)])
def test_a_member_behind_the_last_look_of_a_promote_that_can_be_read_much_later(
    scene: Scene, joins_before_s: float, excused: bool
) -> None:
    """Until the record was stored the promote could see who comes; when it can be read says nothing."""
    for _ in range(4):
        scene.send()
    scene.read("m-source", scene.source, 0, 3)
    scene.recorder.write("ok", "m-source", "revoke", ["plain/0"])
    scene.now += 10
    scene.store(GroupRecord(link="l", group="g"))
    scene.judge.look()
    stored_at = scene.now + 2
    scene.now = stored_at - joins_before_s
    scene.recorder.opened("visitor", "source", group="g", reset="earliest")
    scene.recorder.write("ok", "visitor", "assign", ["plain/0"])
    scene.now = stored_at
    scene.judge.look()
    scene.source.groups["g"] = {("plain", 0): 4}
    scene.target.stable[TOPIC, 0] = scene.target.end(TOPIC)
    scene.store(GroupRecord(link="l", group="g", state=GroupState.PROMOTED, offsets=(CarriedOffset("plain", 0, 3, 3),)))
    for _ in range(5):
        scene.judge.look()
        scene.now += 1
    del scene.target.stable[TOPIC, 0]
    scene.judge.look()
    scene.read("visitor", scene.source, 3, 4)
    verdict = scene.judge.verdict()
    assert bool(verdict.counts["wrong_offsets"]) != excused
    assert bool(verdict.counts["gated_reads"]) != excused


@pytest.mark.parametrize(
    ("looked_before_s", "joins_before_s", "excused"),
    [(0.8, 0.6, True), (0.8, 0.9, False), (0.0, 0.1, False), (8.0, 0.6, True), (8.0, 5.0, False)],
    ids=["behind it", "before it", "before one just now", "behind one too old", "within the time that one is too old"],
)
def test_a_member_behind_a_look_that_the_promote_tells_of(
    looked_before_s: float, joins_before_s: float, excused: bool
) -> None:
    """A gateway that is stopped right behind its last look stores the record when it wakes up, or not at all."""
    looks: list[Look] = []
    scene = Scene(looked=lambda _link, _group: looks[-1])
    for _ in range(4):
        scene.send()
    scene.read("m-source", scene.source, 0, 3)
    scene.recorder.write("ok", "m-source", "revoke", ["plain/0"])
    stored_at = scene.now + 20
    looks.append(Look(stored_at - looked_before_s, stored_at - looked_before_s))
    scene.now = stored_at - joins_before_s
    scene.recorder.opened("visitor", "source", group="g", reset="earliest")
    scene.recorder.write("ok", "visitor", "assign", ["plain/0"])
    scene.now = stored_at
    scene.promote_group(3, 3)
    scene.read("visitor", scene.source, 3, 4)
    assert bool(scene.judge.verdict().counts["gated_reads"]) != excused


def test_a_member_of_a_group_that_is_given_back_before_its_record_can_be_read(scene: Scene) -> None:
    """A replica of the state topic is gone, and not fenced yet: the gateway knows that it is stored, readers do not."""
    for _ in range(4):
        scene.send()
    scene.read("m-source", scene.source, 0, 2)
    scene.recorder.write("ok", "m-source", "revoke", ["plain/0"])
    scene.promote_group(2, 2)
    scene.target.stable[TOPIC, 0] = scene.target.end(TOPIC)
    scene.store(GroupRecord(link="l", group="g", state=GroupState.ACTIVE))
    scene.judge.look()
    scene.recorder.opened("back", "source", group="g", reset="earliest")
    scene.recorder.write("ok", "back", "assign", ["plain/0"])
    scene.read("back", scene.source, 2, 3)
    scene.now += 10
    scene.judge.look()
    assert scene.judge.moves == 1
    del scene.target.stable[TOPIC, 0]
    scene.judge.look()
    scene.read("back", scene.source, 3, 4)
    verdict = scene.judge.verdict()
    assert verdict.passed, verdict.first
    assert verdict.moves == 2


@pytest.mark.parametrize(("joins_before_s", "committed", "excused"), [(0.1, 3, True), (0.1, 2, False), (0.4, 3, False)])
def test_a_commit_of_a_member_that_the_promote_could_not_see(
    scene: Scene, joins_before_s: float, committed: int, excused: bool
) -> None:
    """What was carried must be what was committed before it came."""
    for _ in range(4):
        scene.send()
    scene.read("m-source", scene.source, 0, committed)
    scene.recorder.write("ok", "m-source", "revoke", ["plain/0"])
    scene.now += 10
    scene.store(GroupRecord(link="l", group="g"))
    scene.judge.look()
    stored_at = scene.now + 2
    scene.now = stored_at - joins_before_s
    scene.recorder.opened("visitor", "source", group="g", reset="earliest")
    scene.recorder.write("ok", "visitor", "assign", ["plain/0"])
    scene.source.groups["g"] = {("plain", 0): 4}
    carried = (CarriedOffset("plain", 0, 3, 3),)
    scene.now = stored_at
    scene.judge.look()
    scene.store(GroupRecord(link="l", group="g", state=GroupState.PROMOTED, offsets=carried))
    scene.judge.look()
    assert bool(scene.judge.findings.counts["wrong_offsets"]) != excused


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
