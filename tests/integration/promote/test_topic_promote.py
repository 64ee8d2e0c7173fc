"""A topic promote between two real clusters, while producers write."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
)
from tests.integration.promote.conftest import PARTITIONS, Mirror, Mirrored
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, log_ends, numbers, read_logs
from tests.support.clients.raw_client import RawClient, error_codes
from tests.support.clients.writer import Writer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def assert_cut_over(mirrored: Mirrored, writer: Writer) -> None:
    """The target has everything; what the source has is its beginning."""
    source = read_logs(mirrored.source.bootstrap, mirrored.topic, PARTITIONS)
    target = read_logs(mirrored.target.bootstrap, mirrored.topic, PARTITIONS)
    assert_nothing_lost(writer, target)
    assert_equal(source, [log[: len(source[partition])] for partition, log in enumerate(target)])
    assert all(len(log) > len(source[partition]) for partition, log in enumerate(target))


def test_promote_under_load(mirror: Mirror) -> None:
    mirrored = mirror()
    with mirrored.writer(rate=1000) as writer:
        writer.wait_for_acks(1000)
        mirrored.gateway.promote(mirrored.link, mirrored.topic)
        mirrored.wait_for("STOPPED")
        writer.wait_for_acks(500)
    assert_cut_over(mirrored, writer)
    held_s = mirrored.pause_seconds("stopped")
    print(f"writes were held {held_s * 1000:.0f} ms")  # noqa: T201 - what the test measured
    assert 0.03 <= held_s < 1.0
    with mirrored.writer(mirrored.source.bootstrap) as late:  # one that was forgotten
        late.wait_for_acks(10)
    shown = wait_until(lambda: mirrored.gateway.mirror(mirrored.link, mirrored.topic)["records_after_cutover"], 15)
    assert set(shown) <= {"0", "1", "2"}
    assert 0 < sum(shown.values()) <= late.sent


@pytest.mark.parametrize("mirror", [{"promote": {"grace_ms": 1000}}], indirect=True)
def test_a_bypassing_writer_ends_the_promote(mirror: Mirror) -> None:
    """It may fall silent for a while on a busy machine: only what it writes within the grace can be seen."""
    mirrored = mirror()
    with mirrored.writer(rate=300) as writer, mirrored.writer(mirrored.source.bootstrap, rate=300) as bypass:
        writer.wait_for_acks(200)
        bypass.wait_for_acks(200)
        mirrored.gateway.promote(mirrored.link, mirrored.topic)
        error = wait_until(lambda: mirrored.gateway.mirror(mirrored.link, mirrored.topic)["promote_error"])
        assert mirrored.state() == "ACTIVE"
        assert f"a producer that does not use the gateway wrote to {mirrored.topic}" in error
        writer.wait_for_acks(200)
    assert not writer.failed
    assert not bypass.failed
    ends = log_ends(mirrored.source.bootstrap, mirrored.topic, PARTITIONS)
    wait_until(lambda: log_ends(mirrored.target.bootstrap, mirrored.topic, PARTITIONS) == ends, what="the mirror")
    source = read_logs(mirrored.source.bootstrap, mirrored.topic, PARTITIONS)
    assert_equal(source, read_logs(mirrored.target.bootstrap, mirrored.topic, PARTITIONS))
    assert sum(map(len, source)) == writer.sent + bypass.sent
    mirrored.gateway.promote(mirrored.link, mirrored.topic)  # once nobody bypasses any more
    mirrored.wait_for("STOPPED")


def test_killed_while_pending(mirror: Mirror, source: object, topic: str) -> None:
    """The gateway dies while the promote waits for the lag; the next one goes on with it."""
    with Writer(source.bootstrap, topic, partitions=PARTITIONS, rate=20_000, size=1000) as backlog:  # type: ignore[attr-defined]
        backlog.wait_for_acks(20_000)
    mirrored = mirror(throttle_bytes_per_second="4000000")
    mirrored.gateway.promote(mirrored.link, topic)
    assert mirrored.state() == "PENDING_STOPPED"
    mirrored.gateway.kill()
    mirrored.gateway.start()
    assert mirrored.state() == "PENDING_STOPPED"
    with mirrored.writer() as writer:
        writer.wait_for_acks(200)
        mirrored.wait_for("STOPPED", 60)
        writer.wait_for_acks(200)
    assert not writer.failed
    target = read_logs(mirrored.target.bootstrap, topic, PARTITIONS)
    for partition, log in enumerate(target):
        before = list(range(partition, backlog.sent, PARTITIONS))
        assert numbers(log) == before + list(range(partition, writer.sent, PARTITIONS))


def test_a_transaction_without_records_holds_the_cutover(mirror: Mirror) -> None:
    """Its client has added a partition, and is gone: only its coordinator knows, and a marker comes when it ends."""
    mirrored = mirror()
    name = f"{mirrored.topic}-transaction"
    client = RawClient(mirrored.source.bootstrap)
    try:
        wait_until(lambda: not _coordinator(client, name).error_code, what="a coordinator of transactions")
        began = wait_until(lambda: _begun(client, name), what="a producer id")
        own = began.producer_id, began.producer_epoch
        assert error_codes(client.ask(*_add(name, mirrored.topic, *own))) == set()

        mirrored.gateway.promote(mirrored.link, mirrored.topic)
        error = wait_until(lambda: mirrored.gateway.mirror(mirrored.link, mirrored.topic)["promote_error"])
        assert f"the end of transaction '{name}', which has {mirrored.topic}" in error
        assert mirrored.state() == "ACTIVE"

        end = EndTxnRequest(transactional_id=name, producer_id=own[0], producer_epoch=own[1], committed=False)
        assert error_codes(client.ask(end, 3)) == set()
    finally:
        client.close()
    mirrored.gateway.promote(mirrored.link, mirrored.topic)
    mirrored.wait_for("STOPPED")
    stopped_at = mirrored.gateway.mirror(mirrored.link, mirrored.topic)["stopped_at"]
    assert stopped_at == log_ends(mirrored.source.bootstrap, mirrored.topic, PARTITIONS) == [1, 0, 0]


def _coordinator(client: RawClient, name: str) -> Any:
    return client.ask(FindCoordinatorRequest(key=name, key_type=1), 2)


def _begun(client: RawClient, name: str) -> Any:
    answer = client.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 1)
    return None if answer.error_code else answer


def _add(name: str, topic: str, producer_id: int, epoch: int) -> tuple[Any, int]:
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[0])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )
    return request, 3
