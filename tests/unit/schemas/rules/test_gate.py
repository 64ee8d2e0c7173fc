"""Ids that were seen, and what the target lacks of them."""

from __future__ import annotations

from gateway.schemas.rules import gate
from gateway.schemas.rules.gate import SeenIds, TopicIds, ids_by_topic


def test_what_the_target_lacks():
    """What neither registry knows is no id."""
    seen = SeenIds()
    seen.saw("orders", [1, 2])
    seen.saw("orders", [2, 3, 4])
    seen.saw("empty", [])
    assert seen.all() == {1, 2, 3, 4}
    assert ids_by_topic(seen, {1}, {2: True, 3: False, 4: True}) == [
        TopicIds("empty", (), ()),
        TopicIds("orders", (1, 2, 4), (2, 4)),
    ]


def test_it_is_bounded(monkeypatch):
    monkeypatch.setattr(gate, "MAX_IDS", 3)
    seen = SeenIds()
    seen.saw("a", range(1, 3))
    seen.saw("a", range(1, 10))
    seen.saw("b", [7])
    assert (seen.by_topic["a"], seen.more) == ({1, 2, 3}, {"a"})
    assert [one.more for one in ids_by_topic(seen, seen.all(), {})] == [True, False]
