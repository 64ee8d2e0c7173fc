"""What trends are kept of: lag, throughput and pauses, as they are now."""

from __future__ import annotations

from typing import Any

from gateway.console.rules.levels import EVERY_S, levels
from gateway.mirror.interface import PartitionStatus
from gateway.state.records import MirrorState
from gateway.telemetry.numbers import ControlNumbers, GroupNumbers, LastPause, LinkNumbers, MirrorNumbers


def part(lag: int | None, rate: float = 100.0) -> PartitionStatus:
    return PartitionStatus(
        partition=0, phase="copying", source_end=None, mirrored_to=None, target_end=0, lag=lag, lag_ms=0,
        bytes_per_s=rate,
    )  # fmt: skip


def topic(name: str, *parts: PartitionStatus, **more: Any) -> MirrorNumbers:
    return MirrorNumbers("l", name, MirrorState.ACTIVE, parts, **more)


def found(*mirrors: MirrorNumbers, groups: Any = ()) -> Any:
    link = LinkNumbers(link="l", state="ACTIVE")
    return levels(ControlNumbers(links={"l": True}, mirrors=mirrors, groups=groups, link_numbers=[link]))


def test_a_topic_and_its_link_are_sums() -> None:
    said = found(topic("a", part(3), part(4)), topic("b", part(5)), topic("promoted"))
    assert list(said) == ["link/l/l", "topic/l/a", "topic/l/b", "topic/l/promoted"]
    assert said["topic/l/a"] == (7, 200.0, 0)
    assert said["topic/l/promoted"] == (None, None, 0)
    assert said["link/l/l"] == (12, 300.0, 0)


def test_what_is_not_known_is_no_zero() -> None:
    said = found(topic("a", part(3), part(None)))
    assert said["topic/l/a"] == (None, 200.0, 0)
    assert said["link/l/l"][0] is None
    assert found()["link/l/l"] == (None, None, 0)


def test_a_link_whose_topic_does_not_tell_its_lag_does_not_either() -> None:
    said = found(topic("a", part(3)), topic("b", part(None)))
    assert said["link/l/l"][0] is None


def test_a_pause_is_told_while_it_is_fresh() -> None:
    said = found(
        topic("a", part(0), last_pause=LastPause(EVERY_S, 0.093)),
        topic("b", part(0), last_pause=LastPause(1000.0, 9.0)),
    )
    assert (said["topic/l/a"][2], said["topic/l/b"][2], said["link/l/l"][2]) == (93, 0, 93)


def test_a_groups_lag_is_that_of_the_side_it_reads_on() -> None:
    waits = GroupNumbers("l", "waits", "ACTIVE", 0, source_lag={"a": 3, "b": 4}, target_lag={"a": 9})
    moved = GroupNumbers("l", "moved", "PROMOTED", 0, target_lag={"a": 9})
    unknown = GroupNumbers("l", "unknown", "ACTIVE", 0)
    said = found(groups=[waits, moved, unknown])
    assert (said["group/l/waits"], said["group/l/moved"], said["group/l/unknown"]) == ([7], [9], [None])
