"""What is said and not copied."""

from __future__ import annotations

from gateway.access.rules import not_copied as rules
from gateway.access.rules.not_copied import ClusterSettings, NotCopiedKind, not_copied


def test_what_differs_is_said_with_both_values():
    source = ClusterSettings({"User:alice": 2}, {"share.version": 1, "same": 1}, {"num.partitions": "6", "x": "1"})
    target = ClusterSettings({"User:bob": 1}, {"same": 1, "eligible": 1}, {"num.partitions": "1", "x": "1"})
    said = [(one.kind, one.name, one.source, one.target) for one in not_copied(source, target)]
    assert said == [
        (NotCopiedKind.DELEGATION_TOKENS, "User:alice", "2", ""),
        (NotCopiedKind.FEATURE_LEVEL, "eligible", "", "1"),
        (NotCopiedKind.FEATURE_LEVEL, "share.version", "1", ""),
        (NotCopiedKind.BROKER_DEFAULT, "num.partitions", "6", "1"),
    ]


def test_equal_clusters_have_nothing_to_say():
    one = ClusterSettings({}, {"a": 1}, {"b": "2"})
    assert not_copied(one, one) == []


def test_what_cannot_be_read_is_said():
    (said,) = not_copied(ClusterSettings(unknown={NotCopiedKind.BROKER_DEFAULT: "no right"}), ClusterSettings())
    assert (said.kind, said.detail) == (NotCopiedKind.BROKER_DEFAULT, "not known of the source: no right")


def test_owners_are_bounded(monkeypatch):
    monkeypatch.setattr(rules, "MOST_OWNERS", 1)
    said = not_copied(ClusterSettings({"a": 1, "b": 2, "c": 3}), ClusterSettings())
    assert [(one.name, one.source) for one in said] == [("a", "1"), ("others", "5")]
