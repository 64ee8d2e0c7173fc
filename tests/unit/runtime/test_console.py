"""The console at one gateway: clients of the whole fleet, and what the feed says while nobody leads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.fleet.peers.channel import PeerUnavailable
from gateway.runtime.console import ASK, FleetClients
from tests.support.control.secured_api import SecuredApi, secured_api


class FakePeers:
    """`said`: by peer; an exception is raised."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.handlers: dict[str, Any] = {}
        self.said = said

    def connected(self) -> frozenset[str]:
        return frozenset(self.said)

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        answer = self.said[peer]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


async def test_clients_are_those_of_all_gateways_that_tell() -> None:
    told = {"writes": {"source": 5, "held": 1}, "unmirrored": {"early": ["west", "a at h"]}}
    peers: Any = FakePeers({"b": told, "c": PeerUnavailable("gone"), "d": {"writes": "of another version"}})
    own = {"source": 2, "target": 3, "held": 0}
    clients = FleetClients(peers, lambda: own, lambda: {"soon": ("west", "b at h")})
    seen = await clients()
    assert dict(seen.writes) == {"source": 7, "target": 3, "held": 1}
    assert seen.unmirrored == {"soon": ("west", "b at h"), "early": ("west", "a at h")}
    assert await peers.handlers[ASK]({}) == {"writes": own, "unmirrored": {"soon": ("west", "b at h")}}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[SecuredApi]:
    async with secured_api(tmp_path) as made:
        yield made


async def test_a_feed_while_nobody_leads_says_so(api: SecuredApi) -> None:
    api.forwarding.follow()
    api.leader = ""
    stream = api.feed.listen(api.feed.enter("viewer"), {})
    await anext(stream)
    assert b"event: trouble" in (said := await anext(stream))
    assert b"no gateway leads the fleet now" in said
    await stream.aclose()  # type: ignore[attr-defined]


async def test_a_feed_has_what_the_leader_knows_and_what_happened(api: SecuredApi) -> None:
    await api.plane.with_mirror("orders", 1)
    stream = api.feed.listen(api.feed.enter("viewer"), {})
    await anext(stream)
    said = await anext(stream)
    assert said.startswith(b"event: all")
    assert b'"l/orders"' in said
    assert b"link l was created" in said
    await stream.aclose()  # type: ignore[attr-defined]
