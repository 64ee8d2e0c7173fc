"""Random faults of the three kinds the demo must not miss, counted exactly."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from demo.checker import Limits, LogRecord
from tests.unit.demo.scene import Scene

scenes = st.builds(
    lambda records, share, partitions, batch: Scene(records, int(records * share), partitions, batch),
    st.integers(24, 120),
    st.floats(0.4, 0.7),
    st.integers(1, 5),
    st.integers(1, 9),
)


def renumbered(log: list[LogRecord]) -> list[LogRecord]:
    """As a broker would have numbered it."""
    return [record._replace(offset=offset) for offset, record in enumerate(log)]


@given(scenes)
def test_clean_scenes_pass(scene: Scene) -> None:
    assert scene.judge().faults(Limits()) == []


@given(scenes, st.integers(1, 8), st.randoms(use_true_random=False))
def test_every_dropped_record_is_lost(scene: Scene, count: int, choose: random.Random) -> None:
    everywhere = [(partition, record) for partition, log in scene.target.items() for record in log]
    for partition, record in choose.sample(everywhere, count):
        scene.target[partition].remove(record)
    assert scene.judge().lost == count


@given(scenes, st.integers(1, 8), st.randoms(use_true_random=False))
def test_every_repeated_record_is_a_duplicate(scene: Scene, count: int, choose: random.Random) -> None:
    for _ in range(count):
        log = choose.choice([log for log in scene.target.values() if log])
        log.insert(choose.randrange(len(log) + 1), choose.choice(log))
    scene.target = {partition: renumbered(log) for partition, log in scene.target.items()}
    assert scene.judge().duplicated == count


@given(scenes, st.randoms(use_true_random=False))
def test_any_two_swapped_records_of_the_source_are_noticed(scene: Scene, choose: random.Random) -> None:
    partition = max(scene.source, key=lambda p: len(scene.source[p]))
    first, second = sorted(choose.sample(range(len(scene.source[partition])), 2))
    log = scene.target[partition]
    log[first], log[second] = log[second], log[first]
    scene.target[partition] = renumbered(log)
    verdict = scene.judge()
    assert verdict.reordered >= 1
    assert not verdict.offsets_equal
    assert (verdict.lost, verdict.duplicated) == (0, 0)


@given(scenes, st.randoms(use_true_random=False))
def test_every_read_again_is_counted_and_every_unread_record_missed(scene: Scene, choose: random.Random) -> None:
    batches = scene.read_batches()
    again, gone = choose.sample(range(len(batches)), 2)
    expected_reread, expected_missed = len(batches[again].ids), len(batches[gone].ids)
    batches.append(batches[again])
    del batches[gone]
    verdict = scene.judge()
    assert (verdict.reread, verdict.missed) == (expected_reread, expected_missed)
