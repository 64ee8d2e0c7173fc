"""Random histories of a source with gaps: nothing lost, doubled or out of order, and the map says where it is.

Transactions commit and abort, compaction runs while the log is copied, answers are lost, appenders are killed at any
point, and there may be two at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.mirror.offset_map.rules.offset_map import OffsetMap, TranslationRule
from gateway.mirror.partition.rules.commands import WriteBreakpoints
from gateway.mirror.partition.rules.state import PartitionPhase
from protocol.batch.header import read_batch_header
from protocol.batch.record_reader import Record, read_records
from tests.support.mirror.mirror_sim import TargetLog
from tests.support.mirror.translate_sim import MapLog, TranslatedRunner, TranslatedSource, copied

seeds = st.integers(min_value=0, max_value=2**32)


class World:
    """A source, a target, a map topic, and the appenders that are at work."""

    def __init__(
        self,
        seed: int,
        *,
        compacts: bool,
        fault_rate: float,
        pad_to: int = -1,
        ids: Mapping[int, int] | None = None,
    ) -> None:
        self.random = Random(seed)
        self.source = TranslatedSource(self.random, compacts)
        self.target = TargetLog()
        self.log = MapLog()
        self.compacts = compacts
        self.fault_rate = fault_rate
        self.pad_to = pad_to
        self.ids = ids
        self.runners: list[TranslatedRunner] = []

    def appender(self) -> TranslatedRunner:
        made = TranslatedRunner(
            self.source,
            self.target,
            self.log,
            self.random,
            self.fault_rate,
            compacted=self.compacts,
            pad_to=self.pad_to,
            ids=self.ids,
        )
        self.runners.append(made)
        return made

    def kill(self, one: TranslatedRunner) -> None:
        """What it had sent may still arrive."""
        self.runners.remove(one)
        for append in one.flight:
            if self.random.random() < 0.5:
                self.target.produce(append.batch)

    def live(self, turns: int, write_rate: float) -> None:
        for _ in range(turns):
            if self.random.random() < write_rate:
                self.source.write()
            if self.random.random() < 0.05:
                self.source.compact()
            if self.random.random() < 0.02:
                self.log.compact()
            if self.runners:
                self.random.choice(self.runners).step()

    def finish(self) -> None:
        """No more faults nor writes; until all is copied."""
        for pid in list(self.source.open):
            self.source.finish(pid)
        for one in self.runners:
            one.fault_rate = 0.0
        for _ in range(4000):
            for one in self.runners:
                one.step()
            if all(one.mirror.mirrored_to == self.source.end and not one.flight for one in self.runners):
                return
        where = [(one.mirror.phase, one.mirror.mirrored_to, one.failed) for one in self.runners]
        raise AssertionError(f"not copied to {self.source.end}: {where}")

    def check(self) -> None:
        records = copied(self.target)
        assert records == sorted(set(records))
        assert set(records) <= self.source.ever
        missing = set(self.source.visible) - set(records)
        assert not missing
        for one in self.runners:
            assert one.failed is None
            assert one.mirror.phase is PartitionPhase.COPYING
            check_map(one.ledger.map, records, self.source.end)
        last = TranslatedRunner(self.source, self.target, self.log, self.random, pad_to=self.pad_to)
        last._decide(self.target.end)  # what the map topic alone says
        last.ledger.map.advance(self.target.end, self.source.end)
        check_map(last.ledger.map, records, self.source.end)


def check_map(offsets: OffsetMap, records: list[int], source_end: int) -> None:
    for target, source in enumerate(records):
        assert offsets.to_source(target) == (source, TranslationRule.EXACT), list(offsets)
        assert offsets.to_target(source) == (target, TranslationRule.EXACT)
    for source in range(source_end + 1):
        following = sum(1 for each in records if each < source)
        assert offsets.to_target(source).offset == following
    assert offsets.position(len(records)) <= source_end


@given(seeds, st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.3]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_all_is_copied_once_and_the_map_is_exact(seed: int, appenders: int, fault_rate: float, compacts: bool) -> None:
    world = World(seed, compacts=compacts, fault_rate=fault_rate)
    for _ in range(appenders):
        world.appender()
    world.live(600, write_rate=0.2)
    world.finish()
    world.check()


@given(seeds, st.sampled_from([0.0, 0.2]), st.booleans(), st.integers(-1, 0))
@settings(max_examples=60, deadline=None)
def test_ids_are_written_anew_as_they_become_known(seed: int, fault_rate: float, compacts: bool, pad_to: int) -> None:
    """Two appenders, each of which waits for what the map lacks, and is killed once; every id comes at some time."""
    ids: dict[int, int] = {}
    world = World(seed, compacts=compacts, fault_rate=fault_rate, pad_to=-1 if compacts else pad_to, ids=ids)
    world.source.keys = [b"\0\0\0\0" + bytes([known]) for known in (1, 2, 3, 4)]
    for known in (1, 2, 3, 4):
        world.appender()
        world.live(120, write_rate=0.3)
        ids[known] = known + 10
        if len(world.runners) > 1:
            world.kill(world.random.choice(world.runners))
    world.finish()
    world.check()
    written = {record.key for _, _, data in world.target.batches for record in _records(data)}
    assert written <= {b"\0\0\0\0" + bytes([known]) for known in (11, 12, 13, 14)}


def _records(data: bytes) -> Sequence[Record]:
    return list(read_records(read_batch_header(data), memoryview(data)))


@given(seeds, st.sampled_from([0.0, 0.2]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_appenders_are_killed_at_any_point(seed: int, fault_rate: float, compacts: bool) -> None:
    world = World(seed, compacts=compacts, fault_rate=fault_rate)
    for _ in range(6):
        if len(world.runners) < 2:
            world.appender()
        world.live(world.random.randint(1, 150), write_rate=0.3)
        if world.random.random() < 0.7:
            world.kill(world.random.choice(world.runners))
    if not world.runners:
        world.appender()
    world.finish()
    world.check()


@given(seeds, st.sampled_from([0.0, 0.2]), st.integers(1, 2))
@settings(max_examples=100, deadline=None)
def test_a_backlog_is_compacted_under_two_appenders(seed: int, fault_rate: float, appenders: int) -> None:
    world = World(seed, compacts=True, fault_rate=fault_rate)
    for _ in range(60):
        world.source.write()
    world.appender()
    world.live(40, write_rate=0)
    for _ in range(appenders):
        world.source.compact()
        world.appender()
        world.live(60, write_rate=0.05)
    world.live(300, write_rate=0.1)
    world.finish()
    world.check()


def test_a_log_that_ended_in_gaps_and_was_deleted_then() -> None:
    """Retention takes the markers at the end of a log that was mirrored to its end: nothing is lost."""
    world = World(1, compacts=False, fault_rate=0.0, pad_to=0)
    source, batch = world.source, world.source._append(7, "open")
    source.open[7] = [batch]
    source.finish(7)
    one = world.appender()
    world.finish()
    mirrored = len(source.ever)
    assert (one.mirror.mirrored_to, world.target.end) == (source.end, mirrored)
    assert one.ledger.used
    assert one.mirror.translator is not None
    change = one.mirror.translator.read_so_far()
    world.log.append([] if change is None else [change])
    world.runners.clear()
    source.batches.clear()
    source.start = source.end
    again = world.appender()
    world.finish()
    assert again.failed is None
    assert again.mirror.mirrored_to == source.end


def test_a_first_gap_counts_only_once_it_is_known() -> None:
    """Else somebody could take offsets for equal that are not: here the source ends one marker beyond its copy."""
    world = World(1, compacts=False, fault_rate=0.0, pad_to=0)
    source = world.source
    source.open[7] = [source._append(7, "open")]
    source.finish(7)
    one = world.appender()
    waiting = []
    for _ in range(400):
        waiting += [command for command in one.todo if isinstance(command, WriteBreakpoints)]
        one.todo = [command for command in one.todo if not isinstance(command, WriteBreakpoints)]
        one.step()
    assert waiting
    assert one.mirror.mirrored_to == one.mirror.window.position < source.end
    one.todo += waiting
    world.finish()
    assert one.mirror.mirrored_to == source.end


@given(seeds, st.integers(1, 2), st.sampled_from([0.0, 0.2]))
@settings(max_examples=100, deadline=None)
def test_a_preserved_topic_goes_over_at_its_first_gap(seed: int, appenders: int, fault_rate: float) -> None:
    world = World(seed, compacts=False, fault_rate=fault_rate, pad_to=0)
    for _ in range(5):
        world.source._append(-1, "")
    for _ in range(appenders):
        world.appender()
    world.live(40, write_rate=0)
    world.kill(world.runners[0])
    world.appender()
    world.live(400, write_rate=0.2)
    world.finish()
    world.check()


@given(seeds, st.sampled_from([0.0, 0.2]), st.booleans(), st.booleans(), st.integers(1, 200))
@settings(max_examples=60, deadline=None)
def test_a_copy_that_loses_what_it_had_acknowledged_gets_it_again(
    seed: int, fault_rate: float, compacts: bool, killed: bool, batches: int
) -> None:
    """And the map follows, whoever goes on: the appender that saw the answers, or one that knows the topics alone.

    A source that is compacted meanwhile has other records for the same target offsets.
    """
    world = World(seed, compacts=compacts, fault_rate=fault_rate)
    one = world.appender()
    world.live(world.random.choice((200, 1500)), write_rate=0.3)
    while one.flight:  # what is on its way lands before the loss
        world.target.produce(one.flight.popleft().batch)
        one.do(one.mirror.append_unknown("connection lost"))
    world.target.lose(batches)
    for _ in range(3):
        world.source.compact()
    if killed:
        world.runners.remove(one)
        world.appender()
    world.live(200, write_rate=0.2)
    world.finish()
    world.check()
    world.log.compact()
    world.check()
