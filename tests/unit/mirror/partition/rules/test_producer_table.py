"""What the table remembers; `tests/unit/mirror/partition/rules/test_producer_retry.py` shows what it is asked."""

from gateway.mirror.partition.rules.producer_table import ProducerTable
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
        before.saw(PID + number % 2, 0, 2**31 - 30 + number * 10, 9, 100 + number * 10)
    after.carry_over(before.entries())
    assert after.entries() == before.entries()
    for table in (before, after):
        table.saw(PID, 0, 500, 9, 160)  # read once more, from below the position
        table.saw(PID, 0, 510, 9, 170)
    assert after.entries() == before.entries()
