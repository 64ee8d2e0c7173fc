"""What heartbeats tell again."""

from __future__ import annotations

import pytest

from gateway.fleet.rules import rotation
from gateway.fleet.rules.rotation import Rotation
from gateway.mirror.rules.mirror_partition import MirrorPartition


def parts(*indexes: int) -> frozenset[MirrorPartition]:
    return frozenset(MirrorPartition("l", "t", index) for index in indexes)


HERE = parts(0, 1, 2, 3, 4)


def told(
    of: Rotation, here: frozenset[MirrorPartition], times: int, *, regular: bool, at_rest: bool = False
) -> list[list[int]]:
    return [[each.partition for each in of.piece(here, regular=regular, at_rest=at_rest)] for _ in range(times)]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "PIECE", 2)


def test_a_piece_is_told_now_and_then() -> None:
    one = Rotation()
    assert told(one, HERE, 4, regular=True) == [[0, 1], [2, 3], [4], [0, 1]]
    assert told(one, HERE, 2, regular=False) == [[], []]


def test_the_longer_nothing_happens_the_less_often() -> None:
    one = Rotation()
    assert told(one, HERE, 4, regular=True, at_rest=True) == [[0, 1], [2, 3], [4], [0, 1]]
    assert told(one, HERE, 6, regular=True, at_rest=True) == [[], [2, 3], [], [4], [], [0, 1]]
    far = [piece for piece in told(one, HERE, 400, regular=True, at_rest=True) if piece]
    assert len(far) == pytest.approx(400 / rotation.SLOWEST, abs=5)
    assert told(one, HERE, 2, regular=True)[1], "something moves: each time again"
    told(one, HERE, 40, regular=True, at_rest=True)
    assert all(told(one, parts(0, 1, 2, 3, 4, 5), 2, regular=True, at_rest=True)), "and what has come"


def test_all_is_told_at_once_when_somebody_comes() -> None:
    one = Rotation()
    told(one, HERE, 1, regular=True)
    one.everything()
    found = told(one, HERE, 5, regular=False)
    assert found[:3] == [[2, 3], [4], [0, 1]]
    assert found[3:] == [[], []]


def test_what_comes_is_told_and_what_goes_is_not() -> None:
    one = Rotation()
    told(one, HERE, 1, regular=True)
    changed = parts(0, 2, 4, 5)
    assert told(one, changed, 4, regular=True) == [[2], [4, 5], [0, 2], [4, 5]]
    turn = [each for piece in told(one, changed, 2, regular=True) for each in piece]
    assert sorted(turn) == [0, 2, 4, 5]


def test_what_went_and_came_back_is_told_once_a_turn() -> None:
    one = Rotation()
    told(one, HERE, 1, regular=True)
    told(one, parts(), 1, regular=True)
    told(one, HERE, 5, regular=True)
    turn = [each for piece in told(one, HERE, 3, regular=True) for each in piece]
    assert sorted(turn) == sorted(set(turn))


def test_nothing_here_is_nothing_told() -> None:
    one = Rotation()
    one.everything()
    assert told(one, parts(), 2, regular=True) == [[], []]
    assert told(one, parts(), 2, regular=False) == [[], []]
