"""Each fault of the merging, put into the shipped code: a story, or a look at one queue, must find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from gateway.mirror.partition.rules.append_window import Append, AppendWindow, Pending
from gateway.mirror.partition.rules.log_tail import CannotMirror
from protocol.batch.header import CONTROL, HEADER_BYTES, TRANSACTIONAL, read_batch_header
from tests.mutations.mirror.patches import BY_QUEUE, BY_STORY, BY_STORY_OF_SMALL_LIMITS, MOST_RECORDS
from tests.simulation.mutations.patching import Patching
from tests.support.mirror.replicated_sim import records_of
from tests.support.mirror.replicated_story import Story
from tests.support.mirror.source_log import Given, v2_batch

Fault = Callable[[Patching], None]
_SEEDS: Final = range(12)
_FOUND: Final = (AssertionError, CannotMirror)


@contextmanager
def seeded(fault: Fault | None) -> Iterator[Patching]:
    patching = Patching()
    try:
        if fault is not None:
            fault(patching)
        yield patching
    finally:
        patching.undo()


def finds(fault: Fault | None, judge: Callable[[int], object]) -> bool:
    """Whether one of some seeds shows it, and all that it has changed was called."""
    for seed in _SEEDS:
        with seeded(fault) as patching:
            try:
                judge(seed)
            except _FOUND:
                assert not patching.broken
                if not patching.unreached:
                    return True
    return False


def story(seed: int) -> None:
    Story(seed, engines=1 + seed % 2, fault_rate=0.2).run()


def story_of_small_limits(seed: int) -> None:
    Story(seed, most_bytes=700).run()


def queue(_: int) -> None:
    """Of a queue with a batch among them that is never merged, and of one with many records."""
    for odd in _odd_ones():
        _judge([*map(_plain, range(10)), odd, *map(_plain, range(12, 30))])
    many = MOST_RECORDS // 4
    _judge([_plain(base, many) for base in range(0, 8 * many, many)])


def _plain(base: int, count: int = 1) -> Pending:
    records = [Given(base + at, 1_000 + base + at, b"k", b"v") for at in range(count)]
    return Pending(base, base + count, memoryview(v2_batch(records)), 1_000 + base + count - 1)


def _odd_ones() -> list[Pending]:
    """Each at offsets 10 and 11."""
    two = [Given(10, 5, b"k", b"v"), Given(11, 6, b"k", b"v")]
    gap = v2_batch(two[1:], base=10)
    append_time = v2_batch(two, append_time=99)
    marker = v2_batch(two, attributes=TRANSACTIONAL | CONTROL, producer_id=7)
    return [
        *(Pending(10, 12, memoryview(batch), 6) for batch in (gap, append_time, marker)),
        Pending(10, 12, memoryview(v2_batch(two)), 6, stamped=True),
    ]


def _judge(batches: list[Pending]) -> None:
    """Nothing is sent that is held, none has too many records, odd ones travel alone, and the others as they are."""
    window = AppendWindow(2**61 + 7)
    window._alone = False
    window.held_at = batches[-1].base
    for batch in batches:
        window.push(batch)
    sent: list[Append] = []
    while (append := window.take()) is not None:
        sent.append(append)
        window.appended(append.base, append.base)
    assert window.position == window.held_at, "what is held was sent"
    assert max(read_batch_header(one.batch).count for one in sent) <= MOST_RECORDS
    by_base = {one.base: one.batch for one in sent}
    for odd in [batch for batch in batches[:-1] if _is_odd(batch)]:
        data, found = bytes(odd.data or b""), by_base.pop(odd.base, b"")
        since = 0 if odd.stamped else HEADER_BYTES
        assert found[since:] == data[since:], "one that is never merged was"
    whole = [(batch.base, 0, bytes(batch.data or b"")) for batch in batches[:-1] if not _is_odd(batch)]
    assert records_of([(base, 0, batch) for base, batch in by_base.items()]) == records_of(whole)


def _is_odd(batch: Pending) -> bool:
    return (batch.base, batch.following) == (10, 12)


@pytest.mark.parametrize("judge", [story, story_of_small_limits, queue])
def test_the_shipped_code_passes(judge: Callable[[int], Any]) -> None:
    assert not finds(None, judge)


@pytest.mark.parametrize("fault", BY_STORY, ids=lambda fault: fault.__name__)
def test_a_seeded_fault_of_the_merging_is_found_by_a_story(fault: Fault) -> None:
    assert finds(fault, story)


@pytest.mark.parametrize("fault", BY_STORY_OF_SMALL_LIMITS, ids=lambda fault: fault.__name__)
def test_a_seeded_fault_of_its_limit_is_found(fault: Fault) -> None:
    assert finds(fault, story_of_small_limits)


@pytest.mark.parametrize("fault", BY_QUEUE, ids=lambda fault: fault.__name__)
def test_a_seeded_fault_of_the_merging_is_found_in_the_queue(fault: Fault) -> None:
    assert finds(fault, queue)
