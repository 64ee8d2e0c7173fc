"""What the table remembers; `tests/unit/mirror/partition/rules/test_producer_retry.py` shows what it is asked."""

import pytest

from gateway.mirror.partition.rules.producer_table import FORGOTTEN_S, ProducerTable
from gateway.state.producer_entries import PackedProducers
from gateway.state.records import ProducerEntry

PID = 2**49


def test_five_batches_per_producer_oldest_first() -> None:
    table = ProducerTable()
    for number in range(7):
        table.saw(PID, 0, number * 10, 9, 100 + number * 10)
    assert table.entries() == tuple(
        ProducerEntry(PID, 0, number * 10, number * 10 + 9, 100 + number * 10) for number in range(2, 7)
    )


def test_a_new_epoch_forgets_the_old_one() -> None:
    table = ProducerTable()
    table.saw(PID, 0, 0, 4, 0)
    table.saw(PID, 1, 0, 1, 5)
    assert table.entries() == (ProducerEntry(PID, 1, 0, 1, 5),)


def test_sequences_wrap() -> None:
    table = ProducerTable()
    table.saw(PID, 0, 2**31 - 2, 3, 0)
    assert table.entries()[0].last_sequence == 1


def test_a_batch_seen_twice_counts_once() -> None:
    table = ProducerTable()
    table.saw(PID, 0, 0, 4, 0)
    table.saw(PID + 1, 0, 0, 4, 5)
    table.saw(PID, 0, 0, 4, 0)
    table.saw(PID + 1, 0, 0, 4, 5)
    assert [entry.base_offset for entry in table.entries()] == [0, 5]


def test_the_longest_silent_producer_is_forgotten_first() -> None:
    table = ProducerTable(max_producers=3)
    for offset, producer in enumerate((1, 2, 3, 1, 4)):
        table.saw(producer, 0, offset, 0, offset)
    assert len(table) == 3
    assert {entry.producer_id for entry in table.entries()} == {1, 3, 4}


def test_what_is_carried_over_goes_on_as_if_it_had_been_seen_here() -> None:
    before, after = ProducerTable(), ProducerTable()
    for number in range(7):
        before.saw(PID + number % 2, 0, (2**31 - 30 + number * 10) & 0x7FFFFFFF, 9, 100 + number * 10)
    after.carry_over(before.entries())
    assert after.entries() == before.entries()
    for table in (before, after):
        table.saw(PID, 0, 500, 9, 160)  # read once more, from below the position
        table.saw(PID, 0, 510, 9, 170)
    assert after.entries() == before.entries()


def test_a_producer_is_forgotten_when_nothing_was_read_of_it_for_so_long() -> None:
    """By when it was read here: the timestamps of its batches may be of any time."""
    table, now = ProducerTable(), 1000.0
    table.age(now)
    table.saw(PID, 0, 0, 0, 0)
    table.saw(PID + 1, 0, 0, 0, 1)
    while now < 1000.0 + FORGOTTEN_S - 30:
        now += 10.0
        table.age(now)
    table.saw(PID + 1, 0, 1, 0, 2)
    assert len(table) == 2
    for _ in range(10):
        now += 10.0
        table.age(now)
    assert list(table.packed().producers()) == [PID + 1]
    table.age(now + 2 * FORGOTTEN_S)
    assert len(table) == 0


def test_nothing_is_forgotten_of_what_has_just_been_read() -> None:
    """A mirror that has caught up over an hour of batches in a second was not told when they were appended."""
    table = ProducerTable()
    for number in range(1000):
        table.saw(PID + number, 0, 0, 0, number)
        table.age(50.0 + number / 1000)
    table.age(50.0 + FORGOTTEN_S - 1.0)
    assert len(table) == 1000


def test_many_batches_are_one_object_until_one_is_asked_for() -> None:
    table = ProducerTable()
    for number in range(20_000):
        table.saw(PID + number % 4000, 0, number // 4000, 0, number)
    text = table.packed().text
    read = PackedProducers.read(text)
    assert len(text) < 5 * len(table) * 26
    assert [entry.base_offset for entry in read.get(PID + 7)] == [7, 4007, 8007, 12007, 16007]
    assert read.get(PID + 4000) == ()
    assert read == table.packed()
    assert read.is_sorted


@pytest.mark.parametrize("batches", [1, 9, 10, 50, 2_000, 2_520, 2_521, 60_000])
def test_how_many_batches_there_are_is_known_before_they_are_unpacked(
    batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at a promote that may not begin counts those of all partitions."""
    text = PackedProducers.of([ProducerEntry(PID + at, 0, 0, 0, at) for at in range(batches)]).text
    monkeypatch.setattr(PackedProducers, "rows", property(lambda table: pytest.fail("they are unpacked")))
    assert len(PackedProducers.read(text)) == batches


def test_tables_that_are_not_in_order_are_looked_up_by_an_index() -> None:
    """Older versions have written them by offset."""
    entries = [ProducerEntry(PID + at % 3, 0, at, at, at) for at in range(9)]
    table = PackedProducers.of(entries)
    assert not table.is_sorted
    assert table.get(PID + 1) == (entries[1], entries[4], entries[7])
    assert list(table.make_ready()) == []


def _crowded(producers: int = 50, batches: int = 5) -> ProducerTable:
    table = ProducerTable()
    for number in range(producers * batches):
        table.saw(PID + number * 7 % producers, 0, number // producers, 0, 100 + number)
    return table


def test_a_packed_table_is_carried_over_without_an_object_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand producers of five batches took a tenth of a second: of the event loop, for each partition."""
    before, after = _crowded(), ProducerTable()
    expected = before.entries()
    monkeypatch.setattr(PackedProducers, "__iter__", lambda self: pytest.fail("batches are made objects"))
    after.carry_over(PackedProducers.read(before.packed().text))
    assert after.packed() == before.packed()
    for table in (before, after):
        table.saw(PID, 1, 0, 0, 100)  # read once more
        table.saw(PID + 3, 1, 900, 0, 1000)
        table.saw(PID + 99, 0, 0, 0, 1001)
    assert after.packed().rows == before.packed().rows
    monkeypatch.undo()
    assert len(after.entries()) >= len(expected) - 5
    assert after.entries() == before.entries()


def test_a_table_that_was_carried_over_ages_from_then_on() -> None:
    table = ProducerTable()
    table.carry_over(_crowded().packed())
    table.age(1000.0)
    table.age(1000.0 + FORGOTTEN_S - 1.0)
    assert len(table.packed()) == 250
    table.age(1000.0 + FORGOTTEN_S)
    assert len(table) == 0
    table = ProducerTable()
    table.carry_over(_crowded().packed())
    table.age(1000.0)
    table.saw(PID + 99, 0, 0, 0, 5000)
    table.age(1000.0 + FORGOTTEN_S)
    assert list(table.packed().producers()) == [PID + 99]


def test_a_table_that_knows_something_adds_what_is_carried_over() -> None:
    table, other = ProducerTable(), _crowded(3, 2)
    table.carry_over(other.packed())
    table.carry_over(PackedProducers.of([ProducerEntry(PID + 7, 0, 0, 0, 700)]))
    assert list(table.packed().producers()) == [*other.packed().producers(), PID + 7]
    table = ProducerTable()
    table.saw(PID, 0, 0, 0, 50)
    table.carry_over(other.packed())
    assert set(table.packed().producers()) == {PID, PID + 1, PID + 2}
    assert len(ProducerTable()) == 0
