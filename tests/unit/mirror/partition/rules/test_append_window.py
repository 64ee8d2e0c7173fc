"""What travels when: one batch at a time as it came, or small ones as one when more of them wait than may travel."""

from __future__ import annotations

import pytest

from gateway.mirror.partition.rules.append_window import (
    DEEP,
    DEEP_BYTES,
    MAX_IN_FLIGHT,
    MERGED_BYTES,
    MERGED_RECORDS,
    Append,
    AppendWindow,
    Pending,
)
from gateway.mirror.partition.rules.log_tail import CannotMirror
from protocol.batch.header import HEADER_BYTES, iter_batches, read_batch_header
from protocol.batch.merge import MAX_INFLATED
from protocol.batch.record_reader import read_records
from tests.support.mirror.batches import make_batch
from tests.support.mirror.source_log import Given, v2_batch

PID = 2**61 + 7
SMALL = b"v" * 10


def pending(base: int, count: int = 1, *, value: bytes = SMALL, codec: int = 0, **known: object) -> Pending:
    batch = v2_batch([Given(base + at, 1_000 + base + at, b"k", value) for at in range(count)], codec=codec)
    return Pending(base, base + count, memoryview(batch), 1_000 + base + count - 1, **known)  # type: ignore[arg-type]


def window_with(*batches: Pending, knows_producer: bool = True) -> AppendWindow:
    """A window; its first append, alone by rule, was acknowledged unless said otherwise."""
    window = AppendWindow(PID)
    window.position = window.source_position = batches[0].base
    if knows_producer:
        window._alone = False
    for batch in batches:
        window.push(batch)
    return window


def behind(count: int = 20, **known: object) -> AppendWindow:
    return window_with(*(pending(base, **known) for base in range(count)))  # type: ignore[arg-type]


def sizes(window: AppendWindow) -> list[int]:
    """How many records each append has that may be handed out now."""
    found = []
    while (append := window.take()) is not None:
        found.append(read_batch_header(append.batch).count)
    return found


def offsets_of(append: Append) -> list[int]:
    header = read_batch_header(append.batch)
    return [append.base + record.offset for record in read_records(header, memoryview(append.batch))]


def test_who_keeps_up_copies_bytes() -> None:
    window = behind(MAX_IN_FLIGHT)
    sent = [window.take() for _ in range(MAX_IN_FLIGHT)]
    assert [append and append.batch[HEADER_BYTES:] for append in sent] == [
        bytes(pending(base).data or b"")[HEADER_BYTES:] for base in range(MAX_IN_FLIGHT)
    ]
    assert window.take() is None


def test_who_is_behind_sends_small_ones_as_one() -> None:
    window = behind(20)
    append = window.take()
    assert append is not None
    header = read_batch_header(append.batch)
    assert (append.base, header.base_sequence, header.producer_id, header.count) == (0, 0, PID, 20)
    assert offsets_of(append) == list(range(20))
    assert (len(window), window.unsent, window.outstanding) == (20, 0, 1)
    assert window.oldest == pending(0)
    assert window.newest == pending(19)
    window.appended(0, 0)
    assert (window.position, window.source_position, window.records, window.merged) == (20, 20, 20, 20)
    assert (len(window), window.pending_bytes, window.outstanding) == (0, 0, 0)


def test_the_first_append_of_an_unknown_producer_travels_alone_whatever_it_is_made_of() -> None:
    window = window_with(*(pending(base) for base in range(20)), knows_producer=False)
    assert sizes(window) == [20]
    for base in range(20, 40):
        window.push(pending(base))
    assert sizes(window) == []
    window.appended(0, 0)
    assert sizes(window) == [20]


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        (pending(10, codec=4), [10, 1, 9]),
        (pending(10, stamped=True), [10, 1, 9]),
        (Pending(10, 11, None, 1_000), [10, 1, 9]),  # padding
        (pending(10, value=b"v" * (MERGED_BYTES // 4)), [10, 1, 9]),  # large: there is little to gain
    ],
)
def test_what_is_never_merged(odd: Pending, expected: list[int]) -> None:
    batches = [pending(base) for base in range(20)]
    batches[10] = odd
    assert sizes(window_with(*batches)) == expected


def test_what_waits_for_its_breakpoints_is_not_sent_along() -> None:
    window = behind(20)
    window.held_at = 8
    assert sizes(window) == [8]
    window.held_at = 100
    assert sizes(window) == [12]


def test_an_append_is_bounded_in_bytes_and_records() -> None:
    value = b"v" * (MERGED_BYTES // 10)
    window = window_with(*(pending(base, value=value) for base in range(30)))
    assert sizes(window)[0] == 9
    many = MERGED_RECORDS // 4
    window = window_with(*(pending(base, many, value=b"") for base in range(0, 12 * many, many)))
    assert sizes(window)[0] == MERGED_RECORDS


def large(count: int, size: int = 100_000) -> AppendWindow:
    return window_with(*(pending(base, value=b"v" * size) for base in range(count)))


def test_large_appends_travel_as_many_as_keep_a_far_target_busy() -> None:
    window = large(60)
    assert len(sizes(window)) == DEEP
    window = large(60, 1_000_000)
    assert len(sizes(window)) == DEEP_BYTES // 1_000_000 + 1 == MAX_IN_FLIGHT
    window = large(60, 500_000)
    assert len(sizes(window)) == DEEP_BYTES // 500_000 + 1
    window.appended(0, 0)
    assert len(sizes(window)) == 1


def test_a_small_one_among_them_waits() -> None:
    window = window_with(pending(0), *(pending(base, value=b"v" * 100_000) for base in range(1, 40)))
    assert len(sizes(window)) == MAX_IN_FLIGHT
    window.appended(0, 0)
    assert len(sizes(window)) == DEEP - MAX_IN_FLIGHT + 1


def test_where_records_can_vanish_one_travels_whatever_its_size() -> None:
    window = large(10)
    window.most_in_flight = 1
    assert len(sizes(window)) == 1
    window = large(10)
    window._alone = True
    assert len(sizes(window)) == 1


def test_after_an_unknown_outcome_the_bytes_on_their_way_are_counted_anew() -> None:
    window = large(60, 1_000_000)
    for _ in sizes(window):
        window.outcome_is_unknown()
    window.resume(0)
    window._alone = False
    assert len(sizes(window)) == MAX_IN_FLIGHT
    window.clear()
    for base in range(60):
        window.push(pending(base, value=b"v" * 1_000_000))
    assert len(sizes(window)) == MAX_IN_FLIGHT


def test_what_the_leader_before_has_not_answered_comes_before_anything_for_the_next_one() -> None:
    """One without a state for the producer id takes any sequence: a later batch would land at an open one's place."""
    window = window_with(*(pending(base) for base in range(MAX_IN_FLIGHT)))
    assert window.take()
    assert window.take()
    window.leader_changed()
    assert window.take() is None
    window.appended(0, 0)
    assert window.take() is None
    window.appended(1, 1)
    assert window.take()
    assert window.take() is None, "the first one travels alone"
    window.appended(2, 2)
    assert sizes(window) == [1, 1]


def test_a_change_of_leader_with_nothing_open_holds_nothing_up() -> None:
    window = window_with(*(pending(base) for base in range(MAX_IN_FLIGHT)))
    window.leader_changed()
    assert sizes(window) == [1] * MAX_IN_FLIGHT


def test_after_a_change_of_leader_an_unknown_outcome_is_found_out_as_ever() -> None:
    window = window_with(pending(0), pending(1))
    assert window.take()
    window.leader_changed()
    window.outcome_is_unknown()
    assert window.wants_log_end
    window.resume(0)
    assert [window.take() is not None, window.take() is not None] == [True, False]


def test_codecs_are_kept() -> None:
    append = behind(20, codec=4).take()
    assert append is not None
    assert read_batch_header(append.batch).codec == 4
    assert offsets_of(append) == list(range(20))


def test_less_is_merged_for_a_target_that_says_too_large() -> None:
    window = behind(64)
    assert sizes(window) == [64]
    while True:
        size = window._flights[0].following
        if not window.merge_less(0):
            break
        window.outcome_is_unknown()
        window.resume(0)
        append = window.take()
        assert append is not None
        assert read_batch_header(append.batch).count < size
    assert size == 1, "a single batch that is too large is the target's last word"
    assert window.outstanding == 1


def test_compressed_ones_are_merged_as_far_as_they_do_not_grow_too_large() -> None:
    """Half a megabyte each, of some hundred bytes."""
    window = window_with(*(pending(base, value=b"v" * (MAX_INFLATED // 4), codec=4) for base in range(40)))
    sent = []
    while (append := window.take()) is not None:
        sent.append(read_batch_header(append.batch).count)
        window.appended(append.base, append.base)
    assert window.position == 40
    assert max(sent) in (2, 3)
    assert sent.count(1) < 10


def test_records_that_cannot_be_read_go_as_they_are() -> None:
    batches = [make_batch(base, 1) for base in range(20)]
    window = window_with(*(Pending(base, base + 1, memoryview(batch), 0) for base, batch in enumerate(batches)))
    append = window.take()
    assert append is not None
    assert append.batch[HEADER_BYTES:] == batches[0][HEADER_BYTES:]
    assert sizes(window) == [1] * (MAX_IN_FLIGHT - 1)


@pytest.mark.parametrize("log_end", [0, 7, 20, 33, 40])
def test_after_an_unknown_outcome_it_goes_on_from_the_log_end(log_end: int) -> None:
    """Another appender may have cut its appends elsewhere, so any end of a source batch may be the log's."""
    window = window_with(*(pending(base) for base in range(20)))
    assert sizes(window) == [20]
    for base in range(20, 40):
        window.push(pending(base))
    assert sizes(window) == [20]
    window.outcome_is_unknown()
    assert window.take() is None
    window.outcome_is_unknown()
    assert window.wants_log_end
    window.resume(log_end)
    assert (window.position, len(window), window.unsent) == (log_end, 40 - log_end, 40 - log_end)
    sent = []
    while (append := window.take()) is not None:
        sent += offsets_of(append)
        window.appended(append.base, append.base)
    assert sent == list(range(log_end, 40))
    assert window.position == 40


def test_a_log_end_inside_a_source_batch_is_a_divergence() -> None:
    window = window_with(*(pending(base, 3) for base in range(0, 60, 3)))
    window.take()
    window.outcome_is_unknown()
    with pytest.raises(CannotMirror, match=r"inside the source batch 12\.\.14"):
        window.resume(13)


def test_an_answer_behind_one_of_unknown_outcome_settles_both() -> None:
    window = behind(20)
    assert sizes(window) == [20]
    for base in range(20, 40):
        window.push(pending(base))
    assert sizes(window) == [20]
    window.outcome_is_unknown()
    window.appended(20, 20)
    assert (window.position, len(window)) == (40, 0)
    assert window.wants_log_end


def test_what_is_queued_is_copied_out_of_the_answers_it_lies_in() -> None:
    answer = memoryview(b"".join(bytes(pending(base).data or b"") for base in range(30)))
    whole = [
        Pending(header.base_offset, header.next_offset, data, header.max_timestamp)
        for header, data in iter_batches(answer)
    ]
    window = window_with(*whole[:20])
    window.take()
    for batch in whole[20:]:
        window.push(batch)
    window.compact()
    kept = [batch.data for flight in window._flights for batch in flight.batches]
    kept += [batch.data for batch in window._queue]
    assert [bytes(data or b"") for data in kept] == [bytes(batch.data or b"") for batch in whole]
    assert all(data is not None and len(data) == memoryview(data.obj).nbytes for data in kept)


def test_the_source_is_read_further_than_the_last_batch() -> None:
    window = behind(20)
    window.take()
    window.read_up_to(25)
    assert window.source_position == 0
    window.appended(0, 0)
    assert (window.position, window.source_position) == (20, 25)
    window.read_up_to(30)
    assert window.source_position == 30
