"""Transactional producers of every library live through a promote: each cuts over between two of its transactions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from protocol.errors import ErrorCode, is_retriable
from protocol.messages import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from tests.support.brokers.logs import Log
from tests.support.brokers.toxiproxy import Proxy
from tests.support.clients.producer_lab import ProducerLab, mirror_with_transaction, transactional
from tests.support.clients.producers import ProducerProcess, read_committed
from tests.support.clients.raw_client import RawClient, error_codes
from tests.support.clients.transactions import TIMEOUT_S, transact, transactional_producer
from tests.support.gateways.failback import PARTITIONS
from tests.support.gateways.gateway import running_gateway
from tests.support.waiting import wait_until


@pytest.fixture
def lab(
    tmp_path: Path, source: DevCluster, target: DevCluster, source_proxy: Proxy, topic: str
) -> Iterator[ProducerLab]:
    link, topics = f"link-{topic}", (topic, f"{topic}-b")
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.proxied_bootstrap)
        for name in topics:
            mirror_with_transaction(gateway, link, source, name)
        yield ProducerLab(gateway, link, topics, source, target, source_proxy)


def committed(cluster: DevCluster, topic: str) -> Log:
    """What was committed to partition 0."""
    return read_committed(cluster.bootstrap, topic, PARTITIONS)[0]


def judge_all(lab: ProducerLab, producers: list[ProducerProcess]) -> None:
    lab.judge(producers, read_committed)
    for producer in producers:
        assert producer.aborted, f"{producer.name} aborted nothing"


def cast(lab: ProducerLab) -> list[ProducerProcess]:
    return [
        transactional(lab, "java", config={"compression.type": "zstd"}),
        transactional(lab, "librdkafka", config={"compression.type": "lz4"}),
        transactional(lab, "aiokafka"),
        transactional(lab, "kafka-python"),
    ]


def test_a_promote_under_load(lab: ProducerLab) -> None:
    producers = cast(lab)
    lab.cutover_under_load(producers, 100)
    judge_all(lab, producers)


def test_connections_to_the_source_cut_around_the_cutover(lab: ProducerLab) -> None:
    """Ends and data whose answers are lost: nobody but the client tries them again, and at the same coordinator."""
    producers = [producer for producer in cast(lab) if producer.library != "kafka-python"]  # see below
    lab.cutover_while_cut(producers, 50)
    judge_all(lab, producers)


def end(lab: ProducerLab, name: str, identity: tuple[int, int], *, commit: bool) -> int:
    """What the end of a transaction is answered with, on a connection of its own."""
    client = RawClient(lab.gateway.bootstrap)
    producer_id, epoch = identity
    request = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit)
    code = 0

    def answered() -> bool:
        nonlocal code
        code = int(client.ask(request, 3).error_code)
        return not is_retriable(code)

    wait_until(answered, what=f"the end of the transaction of {name}")
    client.close()
    return code


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_whose_answer_was_lost_is_repeated_over_the_promote(lab: ProducerLab, commit: bool) -> None:
    """The client has not heard of the first one. Nothing is mirrored any more when it sends it again."""
    name, topic = f"again-{uuid.uuid4().hex[:8]}", lab.topics[0]
    client = RawClient(lab.gateway.bootstrap)
    init = client.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
    identity = init.producer_id, init.producer_epoch
    kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    adds = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=[kind(name=topic, partitions=[0])],
    )
    assert error_codes(client.ask(adds, 3)) == set()
    client.close()
    assert end(lab, name, identity, commit=commit) == ErrorCode.NONE
    lab.promote()
    assert end(lab, name, identity, commit=commit) == ErrorCode.NONE
    assert end(lab, name, identity, commit=not commit) == (
        ErrorCode.INVALID_TXN_STATE if not commit else ErrorCode.NONE
    )


def test_the_gateway_killed_and_started_around_the_cutover(lab: ProducerLab) -> None:
    """Not with kafka-python: its transactional producer (3.0.12) stays silent once a request in flight was cut off."""
    producers = [producer for producer in cast(lab) if producer.library != "kafka-python"]
    lab.cutover_around_kills(producers, 50)
    judge_all(lab, producers)


def test_a_transaction_that_outlasts_the_write_pause_ends_the_promote(lab: ProducerLab) -> None:
    """… and not the transaction: the topics are ACTIVE again, and it commits on the source."""
    producer = transactional_producer(lab.gateway.bootstrap, f"long-{uuid.uuid4().hex[:8]}")
    topic = lab.topics[0]
    producer.begin_transaction()
    producer.produce(topic, b"1", key=b"k", partition=0)
    producer.flush(TIMEOUT_S)
    lab.post("promote")
    wait_until(lambda: lab.mirror(topic)["promote_error"], 60.0, what="the end of the promote")
    assert lab.states() == {"ACTIVE"}
    assert "transaction" in lab.mirror(topic)["promote_error"]
    producer.produce(topic, b"2", key=b"k", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    lab.promote()
    transact(producer, {topic: ["3"]})
    values = [record.value for record in committed(lab.target, topic)]
    assert values == [b"before", b"1", b"2", b"3"]
    assert [r.value for r in committed(lab.source, topic)] == [b"before", b"1", b"2"]


def test_topics_of_one_set_cut_over_together(lab: ProducerLab) -> None:
    """Transactions over both topics, all the time; each is wholly on one side."""
    producer = transactional_producer(lab.gateway.bootstrap, f"set-{uuid.uuid4().hex[:8]}")
    one, two = lab.topics
    for n in range(20):
        transact(producer, {one: [f"{n}"], two: [f"{n}"]}, commit=n % 4 != 3)
    lab.post("promote")
    turns = 20
    while lab.states() != {"STOPPED"}:
        transact(producer, {one: [f"{turns}"], two: [f"{turns}"]}, commit=turns % 4 != 3)
        turns += 1
        assert turns < 5000, "the promote does not end"
    for n in range(turns, turns + 20):
        transact(producer, {one: [f"{n}"], two: [f"{n}"]}, commit=n % 4 != 3)
    expected = [b"before", *(f"{n}".encode() for n in range(turns + 20) if n % 4 != 3)]
    on_source = [[record.value for record in committed(lab.source, topic)] for topic in lab.topics]
    on_target = [[record.value for record in committed(lab.target, topic)] for topic in lab.topics]
    assert on_source[0] == on_source[1] == expected[: len(on_source[0])]
    assert on_target == [expected, expected]


def test_a_set_is_promoted_whole_or_not_at_all(lab: ProducerLab) -> None:
    lab.post("promote", lab.topics[0], "absent", code=404)
    assert lab.states() == {"ACTIVE"}
