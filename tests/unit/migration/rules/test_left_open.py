"""What no broker tells is named, with how to tell it; what is told is not."""

from __future__ import annotations

import pytest

from gateway.migration.rules.left_open import left_open
from gateway.migration.rules.snapshot import GroupSeen, SourceSnapshot, TopicSeen, TransactionalIdSeen
from gateway.migration.rules.ties import Tie, Why, group, topic

ALWAYS = "consumers that assign themselves partitions"


def said(*ties: Tie, **seen: object) -> list[str]:
    """What is not known of a snapshot, but for what never is."""
    found = list(left_open(SourceSnapshot(**seen), ties))  # type: ignore[arg-type]
    assert all(one.how_to_tell for one in found)
    assert sum(one.what.startswith(ALWAYS) for one in found) == 1
    return [one.what for one in found if not one.what.startswith(ALWAYS)]


def test_of_an_empty_source_only_what_nobody_can_see() -> None:
    assert said() == []


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (TopicSeen(name="t", producer_ids=frozenset({7})), "who the idempotent producers of t are"),
        (TopicSeen(name="t"), "whether anybody writes t"),
        (TopicSeen(name="t", producer_ids=None), "who writes t: the source does not describe producers"),
    ],
)
def test_writers(seen: TopicSeen, words: str) -> None:
    (one,) = said(topics=(seen,))
    assert one.startswith(words)


def test_a_producer_with_a_transactional_id_is_known_and_internal_topics_are_nobodys() -> None:
    topics = (TopicSeen(name="t", producer_ids=frozenset({7})), TopicSeen(name="__consumer_offsets"))
    assert said(topics=topics, transactional_ids=(TransactionalIdSeen(name="x", producer_ids=frozenset({7})),)) == []


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (GroupSeen(name="g", by_pattern=True), "which topics to come groups g will read"),
        (GroupSeen(name="g", unknown="not allowed"), "members and topics of groups g: not allowed"),
        (GroupSeen(name="g", type="share"), "how share groups g would move"),
        (GroupSeen(name="g", type="streams"), "which topics Streams applications g write"),
        (GroupSeen(name="g", protocol="stream"), "which topics Streams applications g write"),
    ],
)
def test_readers(seen: GroupSeen, words: str) -> None:
    (one,) = said(groups=(seen,))
    assert one.startswith(words)


def test_the_topics_of_a_connect_cluster_are_known_once_a_tie_tells_them() -> None:
    workers = (GroupSeen(name="c", protocol_type="connect"),)
    missing, unseen = said(groups=workers)
    assert missing == "the config, offset and status topics of Connect clusters c"
    assert said(Tie(group("c"), topic("c-offsets"), Why.CONNECT_INTERNAL, "by name"), groups=workers) == [unseen]


def test_many_are_counted() -> None:
    (one,) = said(topics=tuple(TopicSeen(name=f"t{n}") for n in range(7)))
    assert one.startswith("whether anybody writes t0, t1, t2, t3, t4 and 2 more:")


@pytest.mark.parametrize(
    "seen",
    [
        {"transactional_ids": (TransactionalIdSeen(name="tx", logged=frozenset({"hidden", "t"})),)},
        {"transactional_ids": (TransactionalIdSeen(name="tx", open=frozenset({"hidden"})),)},
        {"groups": (GroupSeen(name="g", committed=frozenset({"hidden", "__consumer_offsets"})),)},
    ],
)
def test_a_tie_with_a_topic_that_the_source_does_not_name(seen: dict[str, object]) -> None:
    """It may bind what is shown, and is in no set."""
    (one,) = said(topics=(TopicSeen(name="t", internal=True, producer_ids=frozenset({7})),), **seen)[-1:]
    assert one == "what ties hidden to others: transactions or groups have it, and the source did not name it"
