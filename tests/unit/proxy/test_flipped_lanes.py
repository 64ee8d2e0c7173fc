"""What a slow source answers after a flip is nobody's success: a failover does not wait for what is in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.domain.routing import Phase, Routing
from protocol.produce import PartitionResult
from tests.unit.proxy.test_produce_handler import produce, route, source_answers

if TYPE_CHECKING:
    from tests.unit.proxy.conftest import Conversation


def publish(talk: Conversation, *, counted: bool = False, **phases: Phase) -> None:
    talk.context.routing.publish(
        Routing({topic: route(topic, phase, counted=counted) for topic, phase in phases.items()})
    )


@pytest.fixture
async def forwarding(talk: Conversation) -> Conversation:
    for topic in ("mirrored", "held"):
        talk.session.authorized[topic] = (talk.clock(), True)
    publish(talk, mirrored=Phase.FORWARD, held=Phase.FORWARD)
    talk.says(produce(1, ("mirrored", 0)))
    assert len(talk.source.node.waiting) == 1
    return talk


async def test_an_answer_after_the_flip_is_not_relayed(forwarding: Conversation) -> None:
    publish(forwarding, mirrored=Phase.FENCED, held=Phase.FORWARD)
    assert not forwarding.source.dropped
    publish(forwarding, mirrored=Phase.SWITCHED, held=Phase.FORWARD)
    assert forwarding.source.dropped == [("produce", "transactions")]
    if forwarding.source.node.waiting:  # the connection is still there
        source_answers(forwarding, PartitionResult("mirrored", 0, 0, 42))
    assert forwarding.client.take() == b""
    assert forwarding.session.closed


async def test_a_flip_with_nothing_in_flight_leaves_the_lanes_of_other_topics(forwarding: Conversation) -> None:
    publish(forwarding, mirrored=Phase.FORWARD, held=Phase.FENCED)
    publish(forwarding, mirrored=Phase.FORWARD, held=Phase.SWITCHED)
    assert not forwarding.source.dropped
    source_answers(forwarding, PartitionResult("mirrored", 0, 0, 42))
    assert not forwarding.session.closed


async def test_a_fence_that_is_given_up_drops_nothing(forwarding: Conversation) -> None:
    for phase in (Phase.FENCED, Phase.FORWARD, Phase.FENCED, Phase.FORWARD):
        publish(forwarding, mirrored=phase)
    assert not forwarding.source.dropped


async def test_a_way_home_that_is_given_up_drops_nothing(talk: Conversation) -> None:
    """What is in flight is on its way to the target then."""
    publish(talk, counted=True, mirrored=Phase.SWITCHED)
    talk.context.forwarder.begin(["mirrored"])
    publish(talk, counted=True, mirrored=Phase.FENCED)
    publish(talk, counted=True, mirrored=Phase.SWITCHED)
    assert not talk.source.dropped
