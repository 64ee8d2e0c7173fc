"""The transactional producer on real brokers, of both coordinators' kinds: before KIP-890 and with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from gateway.devcluster import DevCluster
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.logs.compacted_log import CompactedLog
from gateway.kafka.logs.log_follower import LogFollower, fetch_committed
from gateway.kafka.transactional_producer import Fenced, LogProducer, NotCommitted, OutcomeUnknown
from protocol.batch.keyed import KeyedRecord
from protocol.errors import ErrorCode
from protocol.messages import EndTxnRequest
from tests.integration.net.conftest import OpenCluster
from tests.support.waiting import wait_until_async

ONE, TWO = KeyedRecord(b"a", b"1"), KeyedRecord(b"b", b"2" * 10_000)


class Lab:
    """A topic, its producer, and what is committed there."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = f"transactional-{uuid.uuid4().hex[:12]}"

    async def producer(self) -> LogProducer:
        await CompactedLog(self.cluster, self.name).ensure(30.0)
        made = LogProducer(self.cluster, self.name, self.name)
        await made.init(30.0)
        return made

    async def values(self) -> list[bytes | None]:
        """What is committed. EndTxn is answered before its marker is in the log: first all have to be there."""
        await wait_until_async(self._is_stable, what="the markers of all transactions")
        follower = LogFollower(self.cluster, self.name)
        found = await follower.read(0.5)
        while not follower.at_end:
            found += await follower.read(0.5)
        return [each.value for each in found]

    async def _is_stable(self) -> bool:
        part = await fetch_committed(self.cluster, self.name, 0, 0.0)
        return not part.error_code and part.last_stable_offset == part.high_watermark


@pytest.fixture(params=["source", "target"])
async def lab(request: pytest.FixtureRequest, client: OpenCluster) -> Lab:
    side: DevCluster = request.getfixturevalue(request.param)
    return Lab(await client(side.bootstrap))


def end_lost(producer: LogProducer, monkeypatch: pytest.MonkeyPatch, *, arrives: bool) -> list[Any]:
    """EndTxn has no answer from now on; returns those that were asked."""
    ask: Callable[..., Any] = producer._ask
    asked: list[Any] = []

    async def lose(what: str, request: Any, *args: Any, **more: Any) -> Any:
        if what != "EndTxn" or not request.committed:
            return await ask(what, request, *args, **more)
        asked.append(request)
        more["sending"]()
        if arrives:
            await ask(what, request, *args, **more)
        raise ClusterUnavailable("no answer")

    monkeypatch.setattr(producer, "_ask", lose)
    return asked


async def test_a_commit_that_landed_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = await lab.producer()
    with monkeypatch.context() as patching:
        end_lost(producer, patching, arrives=True)
        with pytest.raises(OutcomeUnknown):
            await producer.commit([ONE, TWO], 30.0)
    last = await producer.resolve_outcome(30.0)
    assert await lab.values() == [ONE.value, TWO.value]
    assert await producer.commit([ONE], 30.0) > last
    assert await lab.values() == [ONE.value, TWO.value, ONE.value]


async def test_a_commit_that_did_not_land_is_aborted_for_good(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = await lab.producer()
    with monkeypatch.context() as patching:
        asked = end_lost(producer, patching, arrives=False)
        with pytest.raises(OutcomeUnknown):
            await producer.commit([ONE, TWO], 30.0)
    with pytest.raises(NotCommitted):
        await producer.resolve_outcome(30.0)
    await producer.commit([ONE], 30.0)
    assert await _late(lab, asked[0]) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert await lab.values() == [ONE.value]


async def _late(lab: Lab, request: EndTxnRequest) -> int:
    node = await lab.cluster.transaction_coordinator(lab.name)
    answer = await lab.cluster.request(request, node_id=node, cap=4)
    return int(answer.error_code)


async def test_settling_does_not_fence_a_successor(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = await lab.producer()
    with monkeypatch.context() as patching:
        end_lost(producer, patching, arrives=False)
        with pytest.raises(OutcomeUnknown):
            await producer.commit([ONE], 30.0)
    successor = await lab.producer()
    with pytest.raises(Fenced):
        await producer.resolve_outcome(30.0)
    await successor.commit([TWO], 30.0)
    assert await lab.values() == [TWO.value]


async def test_commits_follow_one_another_at_once(lab: Lab) -> None:
    producer = await lab.producer()
    offsets = [await producer.commit([KeyedRecord(b"k", b"%d" % at)], 30.0) for at in range(50)]
    assert offsets == sorted(offsets)
    assert await lab.values() == [b"%d" % at for at in range(50)]
