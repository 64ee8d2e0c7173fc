"""Answers to clients, asked of all gateways; what the leader makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.fleet.peers.channel import PeerRefused, PeerUnavailable
from gateway.migration.client_errors import ASK, ErrorWatch, FleetAnswers, WatchedErrors
from gateway.migration.rules.client_errors import TOPIC, AnswerCount, ClientErrors, Name, summed
from gateway.state.migration_records import MigrationRecord, MigrationState
from gateway.state.records import MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed

X = Name(TOPIC, "x")
COUNT = AnswerCount(40, 10, 20, 5)


class Counting:
    """A process that has seen this of whatever it watches."""

    def __init__(self, **seen: AnswerCount) -> None:
        self.seen = {Name(TOPIC, name): count for name, count in seen.items()}
        self.watched: dict[str, tuple[str, frozenset[Name]]] = {}
        self.seconds: list[float] = []

    def watch(self, migration: str, version: str, names: frozenset[Name] | None) -> bool:
        if names is None:
            return self.watched.get(migration, ("",))[0] == version
        self.watched[migration] = version, names
        return True

    def sums(self, migration: str, seconds: float) -> Mapping[Name, AnswerCount]:
        self.seconds.append(seconds)
        return {name: count for name, count in self.seen.items() if name in self.watched[migration][1]}


class Peers:
    """Other gateways, behind JSON; an exception is raised."""

    def __init__(self, others: Mapping[str, Any]) -> None:
        self.handlers: dict[str, Any] = {}
        self.others = others
        self.asked: list[tuple[str, bool]] = []

    def expected(self) -> frozenset[str]:
        return frozenset(self.others)

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        assert (what, timeout_s) == (ASK, 1.0)
        self.asked.append((peer, "names" in body))
        other = self.others[peer]
        if isinstance(other, Exception):
            raise other
        if not isinstance(other, FleetAnswers):
            return dict(other)
        said: Mapping[str, Any] = json.loads(json.dumps(await other._answer(json.loads(json.dumps(body)))))
        return said


async def test_all_gateways_are_asked_and_names_go_once() -> None:
    other = Counting(x=COUNT, y=COUNT)
    peers = Peers(
        {"b": FleetAnswers(Peers({}), other), "c": PeerUnavailable("gone"), "d": PeerRefused("what?"), "e": {}}
    )
    own = Counting(x=COUNT)
    ask = FleetAnswers(peers, own)
    asked = ErrorWatch("m", frozenset({X}), 30.0)
    found = await ask(asked)
    assert found == summed([{X: COUNT}, {X: COUNT}], ["c", "d", "e"])
    assert found.counts[X].answers == 80
    peers.asked.clear()
    assert await ask(asked) == found
    assert peers.asked.count(("b", False)) == 1
    assert ("b", True) not in peers.asked
    await ask(ErrorWatch("m", frozenset({X, Name(TOPIC, "y")}), 30.0))
    assert ("b", True) in peers.asked
    assert other.seconds == [30.0] * 3


class Asking:
    """Who is asked; answers with what it is told to."""

    def __init__(self) -> None:
        self.asked: list[ErrorWatch] = []
        self.answer = ClientErrors({X: COUNT})

    async def __call__(self, asked: ErrorWatch) -> ClientErrors:
        self.asked.append(asked)
        return self.answer


async def test_those_that_have_the_rule_are_asked_for_while_they_are_live(plane: Plane) -> None:
    asking = Asking()
    watched = WatchedErrors(records=plane.parts.records, ask=asking)
    await plane.with_mirror("x", 1)
    record = plane.store.mirrors["l", "x"]
    with_rule, without = (
        MigrationRecord(
            name=name,
            link="l",
            file=json.dumps(
                {"migration": name, "link": "l", "applications": [{"name": "a", "topics": ["x"]}], "stop_when": rules}
            ),
            state=MigrationState.PAUSED,
            state_since_ms=plane.now_ms - 25_000,
        )
        for name, rules in (("m", {"client_errors_percent": 1}), ("n", {"late_writes": 1}))
    )
    await plane.by_hand(with_rule, without)
    await watched.look()
    assert asking.asked == []  # nothing is promoted
    assert watched.of("m") == ClientErrors()
    await plane.by_hand(changed(record, state=MirrorState.STOPPED))
    assert watched.of("m") is None  # what was told is not of what was promoted since
    await watched.look()
    assert asking.asked == [ErrorWatch("m", frozenset({X}), 25.0)]
    assert watched.of("m") == asking.answer
    assert watched.of("n") is None
    # somebody goes on: what was told before is of another time
    resumed = replace(with_rule, state_since_ms=plane.now_ms)
    await plane.by_hand(resumed)
    assert watched.of("m") is None
    await watched.look()
    assert asking.asked[-1].seconds == 0.0
    await plane.by_hand(replace(resumed, state=MigrationState.DONE))
    asking.asked.clear()
    await watched.look()
    assert asking.asked == []
    assert watched.of("m") is None


async def test_a_file_of_a_newer_version_is_left_alone(plane: Plane) -> None:
    watched = WatchedErrors(records=plane.parts.records, ask=Asking())
    await plane.by_hand(MigrationRecord(name="m", link="l", file='{"of": "later"}'))
    await watched.look()
    assert watched.of("m") is None
