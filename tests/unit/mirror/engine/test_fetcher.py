"""What a fetch is made of: partitions of which something is new, and those that wait for something."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.mirror.engine.fetcher import _QUEUED_BYTES, Fetcher
from gateway.mirror.engine.read_replicas import Reads
from gateway.mirror.partition.rules.source_side import PAUSE_BYTES
from gateway.mirror.partition.rules.throttle import Throttle
from gateway.mirror.partition.runner import PartitionRunner
from protocol.apis import ApiKey
from protocol.fetch import FetchedPartition, FetchResponseView

CLUSTER = SimpleNamespace(leader_epoch=lambda topic, index: 7)


class Partition:
    """As much of a `PartitionRunner` as a fetcher sees; counts how often it is looked at."""

    def __init__(self, index: int, topic_id: bytes | None = b"i" * 16) -> None:
        self.partition = index
        self.source_topic = "t"
        self.source_topic_id = topic_id
        self.reader: Any = None
        self.cursor = SimpleNamespace(fetch_offset=0, last_epoch=-1)
        self.mirror = SimpleNamespace(
            wants_fetch=self._wants,
            copying=True,
            source=SimpleNamespace(full=False, fetch_bytes=1 << 20, queued_bytes=0, waits=False),
        )
        self.wants = True
        self.looks = 0

    def _wants(self, _now: float) -> bool:
        self.looks += 1
        return self.wants


class Connection:
    """Speaks Fetch up to a version."""

    def __init__(self, version: int) -> None:
        self.versions = {ApiKey.FETCH: (4, version)}


def fetcher_of(*partitions: Partition, version: int = 15, replicas: Any = None) -> Fetcher:
    fetcher = Fetcher(cast("Any", CLUSTER), 1, Throttle(0, 0.0), lambda: None, lambda: 0.0, replicas=replicas)
    for partition in partitions:
        fetcher.add(cast("PartitionRunner", partition))
    fetcher._name_topics(cast("Any", Connection(version)))
    return fetcher


def looks(partitions: list[Partition]) -> list[int]:
    found = [partition.looks for partition in partitions]
    for partition in partitions:
        partition.looks = 0
    return found


def test_the_broker_is_told_in_which_epoch_it_is_believed_to_lead() -> None:
    """One that was replaced without hearing of it sent what it had; a newer epoch is told at the next look."""
    partition = Partition(3)
    fetcher = fetcher_of(partition)
    fetcher._cluster = cast("Any", SimpleNamespace(leader_epoch=lambda topic, index: 7))
    fetcher._look()
    ((part,),) = fetcher._session.request().topics.values()
    assert part.leader_epoch == 7
    fetcher._session.answered(7)
    fetcher._cluster = cast("Any", SimpleNamespace(leader_epoch=lambda topic, index: 8))
    fetcher.touch(cast("PartitionRunner", partition))
    fetcher._look()
    ((part,),) = fetcher._session.request().topics.values()
    assert part.leader_epoch == 8


def offsets(fetcher: Fetcher) -> dict[int, int]:
    """Of what the next request says, by partition."""
    request = fetcher._session.request()
    fetcher._session.answered(7)
    return {part.partition: part.offset for parts in request.topics.values() for part in parts}


def test_partitions_that_lie_still_are_not_looked_at() -> None:
    partitions = [Partition(index) for index in range(100)]
    fetcher = fetcher_of(*partitions)
    fetcher._look()
    assert looks(partitions) == [1] * 100
    assert len(offsets(fetcher)) == 100
    fetcher._look()
    assert looks(partitions) == [0] * 100
    partitions[3].cursor.fetch_offset = 9
    fetcher.touch(cast("PartitionRunner", partitions[3]))
    fetcher._look()
    assert sum(looks(partitions)) == 1
    assert offsets(fetcher) == {3: 9}


def test_one_that_waits_is_looked_at_each_time_and_is_left_out() -> None:
    waits, full, goes = Partition(0), Partition(1), Partition(2)
    waits.wants = full.wants = False
    full.mirror.source.full = True
    fetcher = fetcher_of(waits, goes)
    assert fetcher._look() == 100, "soon: it may be ready again"
    fetcher.add(cast("PartitionRunner", full))
    assert fetcher._look() == 20
    assert offsets(fetcher) == {2: 0}
    waits.wants = full.wants = True
    assert fetcher._look() == 500
    assert offsets(fetcher) == {0: 0, 1: 0}
    assert looks([waits, full, goes]) == [3, 2, 1]


def test_what_becomes_of_one_that_waits_does_not_have_all_of_them_looked_at() -> None:
    waits = Partition(0)
    waits.wants = False
    fetcher = fetcher_of(waits)
    fetcher._look()
    fetcher._wake.clear()
    waits.reader.touch(waits)
    assert not fetcher._wake.is_set()


def test_one_that_waits_for_schema_ids_is_looked_at_when_it_has_them() -> None:
    """That may take long: brokers answer as late as they may meanwhile."""
    waits, goes = Partition(0), Partition(1)
    waits.wants, waits.mirror.source.waits = False, True
    fetcher = fetcher_of(waits, goes)
    assert fetcher._look() == 500
    assert offsets(fetcher) == {1: 0}
    waits.wants, waits.mirror.source.waits = True, False
    fetcher._wake.clear()
    waits.reader.touch(waits)
    assert fetcher._wake.is_set()
    assert fetcher._look() == 500
    assert offsets(fetcher) == {0: 0}


def test_one_that_does_not_copy_is_looked_at_when_something_becomes_of_it() -> None:
    starts = Partition(0)
    starts.wants = starts.mirror.copying = False
    fetcher = fetcher_of(starts)
    fetcher._look()
    fetcher._look()
    assert looks([starts]) == [1]
    starts.wants = starts.mirror.copying = True
    fetcher._wake.clear()
    starts.reader.touch(starts)
    assert fetcher._wake.is_set()
    fetcher._look()
    assert offsets(fetcher) == {0: 0}


def test_one_that_leaves_is_not_fetched_any_more() -> None:
    stays, leaves = Partition(0), Partition(1)
    fetcher = fetcher_of(stays, leaves)
    fetcher._look()
    offsets(fetcher)
    fetcher.discard(cast("PartitionRunner", leaves))
    assert leaves.reader is None
    assert fetcher._session.request().forgotten == {b"i" * 16: [1]}
    assert [cast("Any", runner) for _, runner in fetcher._fetched_as.values()] == [stays]
    fetcher.discard(cast("PartitionRunner", stays))
    assert fetcher.empty


@pytest.mark.parametrize(
    ("version", "topic_id", "named"), [(15, b"i" * 16, b"i" * 16), (12, b"i" * 16, "t"), (15, None, "t")]
)
def test_topics_are_named_by_id_where_that_is_possible(version: int, topic_id: bytes | None, named: object) -> None:
    fetcher = fetcher_of(Partition(0), Partition(1, topic_id), version=version)
    fetcher._look()
    assert list(fetcher._session.request().topics) == [named]


def test_one_without_an_id_changes_how_all_are_named_until_it_leaves() -> None:
    partitions = [Partition(0), Partition(1)]
    fetcher, old = fetcher_of(*partitions), Partition(2, None)
    fetcher._look()
    offsets(fetcher)
    fetcher.add(cast("PartitionRunner", old))
    for connection in (15, 15):
        fetcher._name_topics(cast("Any", Connection(connection)))
        fetcher._look()
    request = fetcher._session.request()
    assert (request.session.epoch, list(request.topics), len(request.topics["t"])) == (0, ["t"], 3)
    fetcher.discard(cast("PartitionRunner", old))
    fetcher._name_topics(cast("Any", Connection(15)))
    fetcher._look()
    assert list(fetcher._session.request().topics) == [b"i" * 16]


def test_many_share_what_may_be_queued() -> None:
    partitions = [Partition(index) for index in range(600)]
    fetcher = fetcher_of(*partitions[:16])
    assert {partition.mirror.source.pause_bytes for partition in partitions[:16]} == {PAUSE_BYTES}
    for partition in partitions[16:]:
        fetcher.add(cast("PartitionRunner", partition))
    assert {partition.mirror.source.pause_bytes for partition in partitions} == {PAUSE_BYTES // 64}
    for partition in partitions[1:]:
        fetcher.discard(cast("PartitionRunner", partition))
    assert partitions[0].mirror.source.pause_bytes == PAUSE_BYTES


class Replicas:
    """As much of `ReadReplicas` as a fetcher asks: each partition's answer is this one's."""

    def __init__(self, *reads: Reads) -> None:
        self.rack = "c"
        self.reads = list(reads)
        self.used_by: list[Any] = []
        self.lost_on: list[int] = []

    def answered(self, _runner: Any, _node: int, _part: FetchedPartition) -> Reads:
        return self.reads.pop(0)

    def used(self, runner: Any) -> None:
        self.used_by.append(runner)

    def lost(self, node: int, _runners: Any) -> None:
        self.lost_on.append(node)


def answer_to(fetcher: Fetcher, *, error: int = 0) -> None:
    part = FetchedPartition(b"i" * 16, 0, error, 9, 9, 0, None, None, (), -1, memoryview(b"abc"))
    fetcher._hand_out(FetchResponseView(0, 0, 7, [part]))


@pytest.mark.parametrize(("reads", "follower"), [(Reads.LEADER, False), (Reads.FOLLOWER, True)])
def test_a_partition_is_told_whose_answer_it_is(reads: Reads, follower: bool) -> None:
    partition, replicas, told = Partition(0), Replicas(reads), list[bool]()
    partition.fetched = lambda *_, follower, **__: told.append(follower)  # type: ignore[attr-defined]
    fetcher = fetcher_of(partition, replicas=replicas)
    fetcher._look()
    answer_to(fetcher)
    assert told == [follower]
    assert replicas.used_by == ([partition] if follower else [])


@pytest.mark.parametrize("error", [0, 1])
def test_an_answer_after_which_it_is_read_elsewhere_is_not_handed_to_a_partition(error: int) -> None:
    partition, told = Partition(0), list[object]()
    partition.fetched = lambda *said, **_: told.append(said)  # type: ignore[attr-defined]
    partition.fetch_failed = lambda *said, **_: told.append(said)  # type: ignore[attr-defined]
    fetcher = fetcher_of(partition, replicas=Replicas(Reads.MOVED))
    fetcher._look()
    answer_to(fetcher, error=error)
    assert told == []


def test_the_rack_is_told_on_a_connection_of_its_own() -> None:
    replicas = cast("Any", Replicas())
    with_rack = Fetcher(
        cast("Any", CLUSTER), 1, Throttle(0, 0.0), lambda: None, lambda: 0.0, replicas=replicas, asks=True
    )
    without = Fetcher(cast("Any", CLUSTER), 1, Throttle(0, 0.0), lambda: None, lambda: 0.0, replicas=replicas)
    assert (with_rack._rack, without._rack) == ("c", "")
    assert with_rack._lane != without._lane


def asked_for(fetcher: Fetcher) -> dict[int, int]:
    """How many bytes of each partition the session asks for."""
    return {part.partition: part.max_bytes for part in fetcher._session.wanted.values()}


def test_all_together_have_a_bound_and_one_that_has_nothing_queued_goes_on() -> None:
    """A target broker stalls: what is for it stays queued. What is for others still comes, a little at a time."""
    stalled, goes = [Partition(index) for index in range(100)], Partition(100)
    fetcher = fetcher_of(*stalled, goes)
    fetcher._look()
    assert set(asked_for(fetcher).values()) == {1 << 20}
    for partition in stalled:
        partition.mirror.source.queued_bytes = _QUEUED_BYTES // 99
        fetcher.touch(cast("PartitionRunner", partition))
    assert fetcher._look() == 20, "soon: there may be room again"
    assert asked_for(fetcher) == {100: 64 * 1024}
    for partition in stalled[:40]:
        partition.mirror.source.queued_bytes = 0
        fetcher.touch(cast("PartitionRunner", partition))
    fetcher._look()
    assert set(asked_for(fetcher)) == {*range(40), 100}, "half of it is still queued"
    for partition in stalled[40:60]:
        partition.mirror.source.queued_bytes = 0
        fetcher.touch(cast("PartitionRunner", partition))
    fetcher._look()
    assert asked_for(fetcher) == dict.fromkeys(range(101), 1 << 20)


def test_what_one_had_queued_leaves_with_it() -> None:
    one = Partition(0)
    one.mirror.source.queued_bytes = 2 * _QUEUED_BYTES
    fetcher = fetcher_of(one, Partition(1))
    fetcher._look()
    assert asked_for(fetcher) == {1: 64 * 1024}
    fetcher.discard(cast("PartitionRunner", one))
    fetcher._look()
    assert asked_for(fetcher) == {1: 1 << 20}


async def test_for_how_long_brokers_hold_fetches_back_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """`throttle_time_ms` of every answer, of one that is refused, too."""
    throttle = Throttle(0, 0.0)
    fetcher = Fetcher(cast("Any", CLUSTER), 1, throttle, lambda: None, lambda: 0.0)
    fetcher.add(cast("PartitionRunner", Partition(0)))
    answers = [FetchResponseView(ms, 0, 7, []) for ms in (250, 0, 750)]

    async def exchange(*_: Any) -> FetchResponseView:
        if not answers:
            raise EOFError
        return answers.pop(0)

    monkeypatch.setattr(fetcher, "_exchange", exchange)
    monkeypatch.setattr("gateway.mirror.engine.fetcher.scan_response", lambda answer, _: answer)
    connection = SimpleNamespace(versions={ApiKey.FETCH: (4, 15)}, version=lambda *_: 15)
    with pytest.raises(EOFError):
        await fetcher._poll(cast("Any", connection), cast("Any", SimpleNamespace(reset=lambda: None)))
    assert throttle.told_ms == 1_000


async def test_a_throttle_that_is_lifted_is_not_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was owed by the former one would hold the mirror up for a minute."""
    throttle, slept = Throttle(1_000, 0.0), list[float]()
    throttle.spend(60_000)
    fetcher = Fetcher(cast("Any", CLUSTER), 1, throttle, lambda: None, lambda: sum(slept))

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            throttle.change(0, sum(slept))

    monkeypatch.setattr("gateway.mirror.engine.fetcher.asyncio.sleep", sleep)
    await fetcher._rest()
    assert slept == [0.5] * 3
