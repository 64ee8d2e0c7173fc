"""What a slow source answers after a cutover is nobody's success: a failover does not wait for what is in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase, routing_of
from protocol.produce import PartitionResult
from tests.unit.proxy.handlers.test_produce import produce, route, source_answers

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation


def publish(talk: Conversation, *, counted: bool = False, **phases: WritePhase) -> None:
    talk.context.routing.publish(
        routing_of({topic: route(topic, phase, counted=counted) for topic, phase in phases.items()})
    )


@pytest.fixture
async def forwarding(talk: Conversation) -> Conversation:
    for topic in ("mirrored", "held"):
        talk.session.authorized[topic] = (talk.clock(), True)
    publish(talk, mirrored=WritePhase.FORWARD, held=WritePhase.FORWARD)
    talk.says(produce(1, ("mirrored", 0)))
    assert len(talk.source.node.waiting) == 1
    return talk


async def test_an_answer_after_the_cutover_is_not_relayed(forwarding: Conversation) -> None:
    publish(forwarding, mirrored=WritePhase.PAUSED, held=WritePhase.FORWARD)
    assert not forwarding.source.dropped
    publish(forwarding, mirrored=WritePhase.SWITCHED, held=WritePhase.FORWARD)
    assert forwarding.source.dropped == [("produce", "transactions")]
    if forwarding.source.node.waiting:  # the connection is still there
        source_answers(forwarding, PartitionResult("mirrored", 0, 0, 42))
    assert forwarding.client.take() == b""
    assert forwarding.session.closed


async def test_a_cutover_with_nothing_in_flight_leaves_the_lanes_of_other_topics(forwarding: Conversation) -> None:
    publish(forwarding, mirrored=WritePhase.FORWARD, held=WritePhase.PAUSED)
    publish(forwarding, mirrored=WritePhase.FORWARD, held=WritePhase.SWITCHED)
    assert not forwarding.source.dropped
    source_answers(forwarding, PartitionResult("mirrored", 0, 0, 42))
    assert not forwarding.session.closed


async def test_a_write_pause_that_is_given_up_drops_nothing(forwarding: Conversation) -> None:
    for phase in (WritePhase.PAUSED, WritePhase.FORWARD, WritePhase.PAUSED, WritePhase.FORWARD):
        publish(forwarding, mirrored=phase)
    assert not forwarding.source.dropped


async def test_a_failback_that_is_given_up_drops_nothing(talk: Conversation) -> None:
    """What is in flight is on its way to the target then."""
    publish(talk, counted=True, mirrored=WritePhase.SWITCHED)
    talk.forwarder.begin(["mirrored"])
    publish(talk, counted=True, mirrored=WritePhase.PAUSED)
    publish(talk, counted=True, mirrored=WritePhase.SWITCHED)
    assert not talk.source.dropped


async def test_a_failover_that_has_waited_long_enough_has_no_answer_relayed(forwarding: Conversation) -> None:
    """Its cutover may not have been heard of here yet."""
    publish(forwarding, mirrored=WritePhase.PAUSED, held=WritePhase.FORWARD)
    forwarding.forwarder.cut("held")  # nothing of it is in flight
    assert not forwarding.source.dropped
    forwarding.forwarder.cut("mirrored")
    if forwarding.source.node.waiting:  # the connection is still there
        source_answers(forwarding, PartitionResult("mirrored", 0, 0, 42))
    assert forwarding.client.take() == b""
    assert forwarding.session.closed
    assert not forwarding.forwarder.in_flight("mirrored")
