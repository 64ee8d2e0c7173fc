"""What the target said of rights, after it was lost: old answers do not count, and there are only so many."""

from __future__ import annotations

import pytest

from gateway.proxy.rules import last_rights
from gateway.proxy.rules.last_rights import COUNTS_S, LastRights


def test_what_was_said_lately_counts_as_long_as_the_target_is_away() -> None:
    rights = LastRights()
    rights.remember("alice", "orders", True, 1_000.0)
    rights.remember("bob", "orders", False, 1_000.0)
    rights.heard(1_000.0 + COUNTS_S)
    assert rights.may_write("alice", "orders") is True
    assert rights.may_write("bob", "orders") is False
    assert rights.may_write("carol", "orders") is None


def test_what_was_said_long_before_the_target_was_lost_does_not_count() -> None:
    """It may have been revoked while the client wrote nothing."""
    rights = LastRights()
    rights.remember("alice", "orders", True, 1_000.0)
    rights.heard(1_001.0 + COUNTS_S)
    assert rights.may_write("alice", "orders") is None
    rights.remember("alice", "orders", True, 1_001.0 + COUNTS_S)
    assert rights.may_write("alice", "orders") is True


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_rights, "KEPT", 2)
    rights = LastRights()
    for name in ("a", "b", "a", "c"):
        rights.remember(name, "orders", True, 1.0)
    assert len(rights) == 2
    assert [rights.may_write(name, "orders") for name in ("a", "b", "c")] == [True, None, True]
