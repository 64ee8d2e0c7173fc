"""Batches that come again over a cutover: answered from the tables of producers, of the partition that is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase
from gateway.proxy.produce.mirrored_retries import MirroredRetries
from gateway.proxy.produce.produce_plan import ProducePlan
from gateway.state.records import ProducerEntry
from protocol.produce import PartitionResult, ProducePart
from tests.support.mirror.batches import make_batch
from tests.unit.proxy.handlers.test_produce import route

PRODUCER = 2**49 + 7
ENTRY = ProducerEntry(PRODUCER, 0, 2, 4, 42)
BATCH = make_batch(0, 3, producer_id=PRODUCER, epoch=0, sequence=2)


@pytest.fixture
def switched() -> TopicRoute:
    """Partition 1 has seen the batch, partition 0 nothing."""
    return replace(route("mirrored", WritePhase.SWITCHED), producers=((), (ENTRY,)))


def plan(route: TopicRoute, partition: int) -> ProducePlan:
    return ProducePlan(target=[ProducePart("mirrored", partition, 0, len(BATCH))], routes={"mirrored": route})


def test_a_batch_that_was_mirrored_has_its_offset(switched: TopicRoute) -> None:
    asked = plan(switched, 1)
    assert MirroredRetries().answer(BATCH, asked) == [PartitionResult("mirrored", 1, 0, 42, -1, -1, None)]
    assert asked.target == []


@pytest.mark.parametrize("partition", [0, 2, 2**31 - 1, -1, -2, -(2**31)])
def test_no_other_partition_has_it(switched: TopicRoute, partition: int) -> None:
    """A client may name any number; the broker says what it thinks of it."""
    retries, asked = MirroredRetries(), plan(switched, partition)
    assert retries.answer(BATCH, asked) == []
    assert len(asked.target) == 1
    assert retries.entries(switched, partition, PRODUCER) == ()
