"""Random histories: whatever is lost, late or doubled on the way, the two logs end equal."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorError, PartitionStart
from tests.support.mirror.batches import make_batch
from tests.support.mirror.mirror_sim import Runner, SourceLog, TargetLog, payloads

PID = mirror_producer_id(3, 14)
seeds = st.integers(min_value=0, max_value=2**32)


def runner(source: SourceLog, target: TargetLog, random: Random, fault_rate: float, start: PartitionStart) -> Runner:
    mirror = PartitionMirror(start, PID, wall_ms=lambda: 0)
    return Runner(mirror, source, target, random, fault_rate)


def run_until_equal(runners: list[Runner], random: Random, writes: int) -> None:
    """Let the runners take turns while the source is written to; then without faults until all are done."""
    source, target = runners[0].source, runners[0].target
    for one in runners:
        one.start()
    for _ in range(400):
        if writes and random.random() < 0.2:
            source.write(random.randint(1, 5))
            writes -= 1
        random.choice(runners).step()
    for one in runners:
        one.fault_rate = 0.0
    for _ in range(5000):
        for one in runners:
            one.step()
        done = target.end == source.end and all(one.mirror.window.position == source.end for one in runners)
        if done and not any(one.lingering for one in runners):
            break


def check_equal(runners: list[Runner], copied_from: int) -> None:
    source, target = runners[0].source, runners[0].target
    for one in runners:
        assert one.failed is None
        assert one.mirror.phase is PartitionPhase.COPYING
        assert one.readable == 1
        assert one.mirror.window.position == source.end
    assert target.end == source.end
    copied = [batch for batch in target.batches if batch[0] >= copied_from]
    assert payloads(copied) == payloads([batch for batch in source.batches if batch[0] >= copied_from])


@given(seeds, st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.4]))
@settings(max_examples=150, deadline=None)
def test_logs_end_equal(seed: int, engines: int, fault_rate: float) -> None:
    random = Random(seed)
    source, target = SourceLog(), TargetLog()
    runners = [runner(source, target, random, fault_rate, PartitionStart(0, 0)) for _ in range(engines)]
    run_until_equal(runners, random, writes=60)
    check_equal(runners, 0)


@given(seeds, st.integers(1, 2), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_padded_logs_end_equal(seed: int, engines: int, inside: int) -> None:
    random = Random(seed)
    base = random.choice((7, 2**31 - 3, 3_000_123)) if inside else 2_500_000
    source, target = SourceLog(start=base + inside, end=base), TargetLog()
    source.write(4)
    start = PartitionStart(base + inside, base)
    # Padding 2^31 offsets takes more turns than this test has: the target is nearly there already.
    target.end = max(0, base - 2_500_000)
    runners = [runner(source, target, random, 0.2, start) for _ in range(engines)]
    run_until_equal(runners, random, writes=40)
    check_equal(runners, base)
    assert target.start == base + inside


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_a_killed_engine_goes_on_where_the_log_ends(seed: int) -> None:
    random = Random(seed)
    source, target = SourceLog(), TargetLog()
    for _ in range(5):
        one = runner(source, target, random, 0.2, PartitionStart(0, 0))
        one.start()
        for _ in range(random.randint(1, 80)):
            if random.random() < 0.3:
                source.write(random.randint(1, 5))
            one.step()
        for append in one.flight:  # killed: what the broker had read may still be appended
            if random.random() < 0.5:
                target.produce(append.batch)
    last = runner(source, target, random, 0.0, PartitionStart(0, 0))
    run_until_equal([last], random, writes=0)
    check_equal([last], 0)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_a_foreign_writer_is_noticed(seed: int) -> None:
    random = Random(seed)
    source, target = SourceLog(), TargetLog()
    one = runner(source, target, random, 0.1, PartitionStart(0, 0))
    one.start()
    foreign_at = random.randint(0, 100)
    for turn in range(3000):
        if turn < 200 and random.random() < 0.3:
            source.write(random.randint(1, 5))
        if turn == foreign_at:
            target.produce(make_batch(0, random.randint(1, 3)))
        one.step()
    source.write(1)
    for _ in range(300):
        one.step()
    assert one.failed is not None
    assert one.failed.error is MirrorError.TARGET_DIVERGED


@pytest.mark.parametrize("copied", [False, True])
def test_retention_that_overtakes_the_copy(copied: bool) -> None:
    random = Random(1)
    source, target = SourceLog(), TargetLog()
    for _ in range(10):
        source.write(3)
    if copied:
        first = runner(source, target, random, 0.0, PartitionStart(0, 0))
        run_until_equal([first], random, writes=0)
        for _ in range(10):
            source.write(3)
    source.start = 46  # inside the batch 45..47
    one = runner(source, target, random, 0.0, PartitionStart(0, 0))
    if copied:
        one.start()
        for _ in range(50):
            one.step()
        assert one.failed is not None
        assert one.failed.error is MirrorError.SOURCE_RECORDS_DELETED
        assert "deleted 16 records" in one.failed.message
    else:
        for _ in range(10):
            source.write(3)
        run_until_equal([one], random, writes=0)
        check_equal([one], 45)
        assert target.start == 46
