"""Trends at one gateway: what it hears from the leader, what others tell one that begins, and a gap for silence."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.console.rules.trends import HOUR, HOUR_STEP_MS
from gateway.fleet.peers.channel import PeerUnavailable
from gateway.runtime.trends import TOLD, TrendKeeper
from tests.support.control.secured_api import SecuredApi, secured_api
from tests.support.pages.console import measured


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[SecuredApi]:
    async with secured_api(tmp_path) as made:
        await made.plane.with_mirror("orders", 1)
        yield made


class OtherGateways:
    """`told`: by name; the pages of one that has a trend of `orders`, or an exception."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.handlers: dict[str, Any] = {}
        self.told = told
        self.asked: list[tuple[str, str]] = []

    def connected(self) -> frozenset[str]:
        return frozenset(self.told)

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        self.asked.append((peer, body["after"]))
        answer = self.told[peer]
        if isinstance(answer, Exception):
            raise answer
        said: Mapping[str, Any] = json.loads(json.dumps(await answer.handlers[TOLD](body)))
        return said


def lags(keeper: TrendKeeper) -> Any:
    points = keeper.trends.of("topic/l/orders", HOUR).get("lag")
    return None if points is None else points.values


async def heard(api: SecuredApi, keeper: TrendKeeper, lag: int) -> None:
    api.plane.engine.numbers["l", "orders"] = [measured(0, lag)]
    await keeper.look()


async def test_every_gateway_hears_the_leader_and_silence_is_a_gap(api: SecuredApi) -> None:
    keeper = api.trends
    await heard(api, keeper, 7)
    api.plane.now_ms += HOUR_STEP_MS
    api.forwarding.follow()
    api.leader = ""
    await heard(api, keeper, 8)
    api.plane.now_ms += HOUR_STEP_MS
    api.forwarding.lead(api.app)
    await heard(api, keeper, 9)
    assert lags(keeper) == [7, None, 9]


async def test_a_gateway_that_begins_is_told_by_the_first_that_knows(api: SecuredApi) -> None:
    old: Any = OtherGateways({})
    former = TrendKeeper(old, lambda: api.forwarding)
    await heard(api, former, 7)
    api.plane.now_ms += HOUR_STEP_MS
    peers: Any = OtherGateways({"a": PeerUnavailable("gone"), "b": old})
    keeper = TrendKeeper(peers, lambda: api.forwarding)
    await heard(api, keeper, 9)
    assert lags(keeper) == [7, 9]
    asked = list(peers.asked)
    assert [name for name, _ in asked] == ["a", "b", "b"]
    await keeper.look()
    assert peers.asked == asked  # once


async def test_one_that_tells_nonsense_harms_nothing(api: SecuredApi) -> None:
    class OfAnotherVersion(OtherGateways):
        async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
            return {TOLD: {"topic/l/orders": {"hour": "what"}}}

    peers: Any = OfAnotherVersion({"a": None})
    keeper = TrendKeeper(peers, lambda: api.forwarding)
    await heard(api, keeper, 9)
    assert lags(keeper) == [9]


async def test_trends_are_asked_for_by_kind_span_and_name(api: SecuredApi) -> None:
    await heard(api, api.trends, 7)
    async with api.client() as client:
        found = (await client.get("/v3/console/trends", params={"of": "topic", "link": "l", "name": "orders"})).json()
        assert [one["series"] for one in found["data"]] == ["lag", "bytes_per_s", "pause_ms"]
        assert (found["data"][0]["step_ms"], found["data"][0]["values"]) == (HOUR_STEP_MS, [7])
        links = (await client.get("/v3/console/trends", params={"of": "link", "span": "whole"})).json()
        assert {(one["name"], one["step_ms"]) for one in links["data"]} == {("l", 60_000)}
        lag = (await client.get("/v3/console/trends", params={"of": "topic", "series": "lag"})).json()
        assert [one["series"] for one in lag["data"]] == ["lag"]
        none = await client.get("/v3/console/trends", params={"of": "topic", "name": "unheard"})
        assert none.json() == {"kind": "LockgateTrendList", "data": []}
        assert (await client.get("/v3/console/trends", params={"of": "moon"})).status_code == 400
