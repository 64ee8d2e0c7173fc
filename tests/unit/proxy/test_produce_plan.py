"""Where the parts of a Produce go."""

from __future__ import annotations

from gateway.domain.routing import Phase, Routing, TopicRoute
from gateway.proxy.produce_plan import Part, plan_produce


def route(topic: str, phase: Phase) -> TopicRoute:
    return TopicRoute(link="l", mirror_topic=topic, source_topic=topic, phase=phase)


ROUTING = Routing(
    {
        "mirrored": route("mirrored", Phase.FORWARD),
        "held": route("held", Phase.FENCED),
        "done": route("done", Phase.SWITCHED),
    }
)
LEADERS = {("l", "mirrored", 0): 1, ("l", "mirrored", 1): 2}


def leader_of(link: str, topic: str, partition: int) -> int | None:
    return LEADERS.get((link, topic, partition))


def test_topics_without_a_mirror_and_promoted_ones_go_to_the_target() -> None:
    parts = [Part("plain", 0, 0, 1), Part("done", 3, 1, 2)]
    plan = plan_produce(parts, ROUTING, leader_of)
    assert plan.target == parts
    assert not plan.source
    assert plan.routes["done"].phase is Phase.SWITCHED


def test_mirrored_parts_are_grouped_by_source_leader() -> None:
    parts = [Part("mirrored", 0, 0, 1), Part("plain", 0, 1, 2), Part("mirrored", 1, 2, 3)]
    plan = plan_produce(parts, ROUTING, leader_of)
    assert plan.source == {("l", 1): [parts[0]], ("l", 2): [parts[2]]}
    assert plan.target == [parts[1]]


def test_one_fenced_topic_holds_the_whole_request() -> None:
    plan = plan_produce([Part("plain", 0, 0, 1), Part("held", 0, 1, 2)], ROUTING, leader_of)
    assert plan.fenced == "held"


def test_an_unknown_leader_is_named() -> None:
    plan = plan_produce([Part("mirrored", 7, 0, 1)], ROUTING, leader_of)
    assert plan.leaderless == ("l", "mirrored")
