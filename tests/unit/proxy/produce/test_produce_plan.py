"""Where the parts of a Produce go."""

from __future__ import annotations

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase, routing_of
from gateway.proxy.produce.produce_plan import plan_produce
from protocol.produce import ProducePart
from tests.support.control.pausing import in_phase


def route(topic: str, phase: WritePhase) -> TopicRoute:
    return TopicRoute(link="l", mirror_topic=topic, source_topic=topic, pause=in_phase(phase))


ROUTING = routing_of(
    {
        "mirrored": route("mirrored", WritePhase.FORWARD),
        "held": route("held", WritePhase.PAUSED),
        "done": route("done", WritePhase.SWITCHED),
    }
)


def leased() -> bool:
    return True


LEADERS = {("l", "mirrored", 0): 1, ("l", "mirrored", 1): 2}


def leader_of(link: str, topic: str, partition: int) -> int | None:
    return LEADERS.get((link, topic, partition))


def test_topics_without_a_mirror_and_promoted_ones_go_to_the_target() -> None:
    parts = [ProducePart("plain", 0, 0, 1), ProducePart("done", 3, 1, 2)]
    plan = plan_produce(parts, ROUTING, leader_of, leased)
    assert plan.target == parts
    assert not plan.source
    assert plan.routes["done"].phase is WritePhase.SWITCHED


def test_mirrored_parts_are_grouped_by_source_leader() -> None:
    parts = [ProducePart("mirrored", 0, 0, 1), ProducePart("plain", 0, 1, 2), ProducePart("mirrored", 1, 2, 3)]
    plan = plan_produce(parts, ROUTING, leader_of, leased)
    assert plan.source == {("l", 1): [parts[0]], ("l", 2): [parts[2]]}
    assert plan.target == [parts[1]]


def test_one_paused_topic_holds_the_whole_request() -> None:
    plan = plan_produce([ProducePart("plain", 0, 0, 1), ProducePart("held", 0, 1, 2)], ROUTING, leader_of, leased)
    assert plan.paused == "held"


def test_an_unknown_leader_is_named() -> None:
    plan = plan_produce([ProducePart("mirrored", 7, 0, 1)], ROUTING, leader_of, leased)
    assert plan.leaderless == ("l", "mirrored")
