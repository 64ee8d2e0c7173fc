"""Whether acks=all promises as much on the copy as on its origin."""

from __future__ import annotations

import pytest

from gateway.topics.rules.durability import Durable, why_less, why_too_few


@pytest.mark.parametrize(
    ("copy", "needed"),
    [
        (Durable(2, 3, (3, 2)), 0),
        (Durable(2, 3, (3, 1)), 2),
        (Durable(3, 3, (3, 2)), 3),
        (Durable(1, 3, (3, 1)), 2),
        (Durable(None, 3, (1, 3)), 2),
        (Durable(1, 1, (1, 1)), 0),
        (Durable(2, 1, (1,)), 0),
        (Durable(2, 3, (-1, 3)), 0),
    ],
)
def test_as_many_replicas_in_sync_as_a_write_needs_and_two_where_there_are_two(copy: Durable, needed: int) -> None:
    said = why_too_few("orders", copy, "target")
    assert bool(said) == bool(needed)
    if needed:
        assert f"{needed} are needed" in said
        assert "look after the brokers of the target" in said


@pytest.mark.parametrize(
    ("origin", "copy", "is_less"),
    [
        (Durable(2, 3), Durable(2, 3), False),
        (Durable(1, 3), Durable(2, 3), False),
        (Durable(2, 3), Durable(1, 3), True),
        (Durable(2, 3), Durable(2, 1), True),
        (Durable(2, 1), Durable(1, 1), False),
        (Durable(None, 3), Durable(1, 3), False),
        (Durable(2, 3), Durable(None, 3), False),
    ],
)
def test_the_copy_asks_for_as_many_as_the_origin(origin: Durable, copy: Durable, is_less: bool) -> None:
    said = why_less("orders", origin, copy, origin_side="source", side="target")
    assert bool(said) == is_less


def test_the_remedy_is_one_that_the_target_can_follow() -> None:
    said = why_less("orders", Durable(2, 3), Durable(1, 3), origin_side="source", side="target")
    assert "set min.insync.replicas=2 for the topic on the target" in said
    assert "promote.less.durable.topic.filters" in said
    said = why_less("orders", Durable(2, 3), Durable(1, 1), origin_side="target", side="source")
    assert "give the topic 2 replicas on the source, and min.insync.replicas=2" in said
