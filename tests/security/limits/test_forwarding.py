"""A gateway that follows passes on who asks, and nobody else can say that. Over a real channel between gateways."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.api.access.roles import CALLER, Caller, Role
from gateway.api.leader_forwarding import REST, Question
from gateway.config.api import Api
from gateway.devcluster import claim_ports, release_ports
from gateway.fleet.peers.channel import PeerRefused, Peers
from tests.support.control.control_plane import Plane
from tests.support.control.secured_api import SecuredApi

HOST = "127.0.0.1"
FORGED = (
    ("X-Lockgate-Caller", '{"name": "root", "role": "admin", "proof": "token", "address": ""}'),
    ("Lockgate.Caller", "admin"),
    ("X-Forwarded-User", "root"),
    ("X-Remote-User", "root"),
    ("X-Forwarded-For", "127.0.0.1"),
    ("Forwarded", "for=127.0.0.1"),
)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[tuple[SecuredApi, SecuredApi]]:
    """A leader and a follower, before one control plane. The follower's tokens are its own."""
    ports, plane = claim_ports(2), Plane()
    await plane.start()
    tokens = {}
    for role in ("viewer", "operator", "admin"):
        tokens[role] = tmp_path / role
        tokens[role].write_text(f"a-token-of-the-{role}", encoding="ascii")
        tokens[role].chmod(0o600)
    principals = [{"name": f"f-{role}", "role": role, "token_file": file} for role, file in tokens.items()]
    made = []
    for name, port, known in (("leader", ports[0], []), ("follower", ports[1], principals)):
        peers = Peers(name, "1", lambda: "the-fleets-secret", lambda *_: None)
        settings: dict[str, Any] = {"port": port, "token_file": str(tmp_path / f"{name}.token"), "principals": known}
        made.append(SecuredApi(plane, Api(**settings), name=name, peers=peers))
    addresses = {one.name: f"{HOST}:{await one.peers.listen(HOST, 0)}" for one in made}
    for one in made:
        one.leader = "leader"
        one.peers.expect(addresses)
        await one.start(leads=one.name == "leader")
    yield made[0], made[1]
    await asyncio.gather(*(one.close() for one in made))
    await plane.close()
    release_ports(ports)


async def test_who_asks_goes_on_with_the_request(fleet: tuple[SecuredApi, SecuredApi]) -> None:
    leader, follower = fleet
    await leader.plane.with_mirror("orders", 1)
    async with follower.client("a-token-of-the-operator") as client:
        assert (await client.post("/v3/links/l/mirrors/orders:pause")).status_code == 200
        assert (await client.delete("/v3/links/l")).status_code == 403
    async with follower.client("a-token-of-the-admin") as client:
        assert (await client.delete("/v3/links/l", params={"force": True})).status_code == 204
    carried_out = [line for line in map(json.loads, leader.audit) if "through" in line]
    assert [(line["principal"], line["role"], line["through"], line["gateway"]) for line in carried_out] == [
        ("f-operator", "operator", "follower", "leader"),
        ("f-admin", "admin", "follower", "leader"),
    ]
    assert all(line["from"].startswith("127.0.0.1:") for line in carried_out)


async def test_the_leader_looks_at_the_role_again(fleet: tuple[SecuredApi, SecuredApi]) -> None:
    """A follower whose own look fails, as of a version with another table, changes nothing by that."""
    leader, follower = fleet
    await leader.plane.with_mirror("orders", 1)
    viewer = Caller("victor", Role.VIEWER, "token", "10.0.0.9:1")
    for path, status in (("/v3/links/l/mirrors/orders:pause", 403), ("/v3/links/l/mirrors/x/../orders:pause", 400)):
        question = Question("POST", path, "", b"", viewer, "follower")
        told = await follower.peers.ask("leader", REST, question.to_wire(), 10)
        assert told["status"] == status, told
    assert leader.plane.state("orders").value == "ACTIVE"


async def test_without_a_caller_nothing_is_done(fleet: tuple[SecuredApi, SecuredApi]) -> None:
    leader, follower = fleet
    await leader.plane.with_link("l")
    asked = {"method": "DELETE", "path": "/v3/links/l", "query": "force=true", "body": ""}
    for caller in (
        None,
        {},
        "admin",
        {"name": "x", "role": "root", "proof": "token", "address": ""},
        {"role": "admin"},
    ):
        with pytest.raises(PeerRefused):
            await follower.peers.ask("leader", REST, {**asked, "caller": caller}, 10)
    assert "l" in leader.plane.store.links


async def test_nobody_can_forge_it(fleet: tuple[SecuredApi, SecuredApi]) -> None:
    """Neither by headers, nor in the query or the body; with another role's token or with none."""
    leader, _follower = fleet
    await leader.plane.with_link("l")
    for gateway in fleet:
        for token, status in (("", 401), ("a-token-of-the-viewer", 403)):
            if gateway is leader and token:
                continue  # which does not know it
            async with gateway.client(token) as client:
                for name, value in FORGED:
                    answer = await client.delete("/v3/links/l?force=true&caller=admin", headers={name: value})
                    assert answer.status_code == status
                body = {"caller": {"name": "root", "role": "admin", "proof": "token", "address": ""}}
                answer = await client.request("DELETE", "/v3/links/l", json=body)
                assert answer.status_code == status
    assert "l" in leader.plane.store.links


async def test_a_token_of_one_gateway_is_not_another_ones(fleet: tuple[SecuredApi, SecuredApi]) -> None:
    leader, follower = fleet
    async with leader.client(follower.token) as client:
        assert (await client.get("/v3/links")).status_code == 401


async def test_what_comes_without_the_door_is_nobodys(fleet: tuple[SecuredApi, SecuredApi]) -> None:
    """The application behind the door asks for a caller by itself: a door left open is a closed house."""
    leader, _ = fleet
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Any) -> None:
        sent.append(event)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v3/links",
        "raw_path": b"/v3/links",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer x")],
        "state": {CALLER: "admin"},
    }
    await leader.forwarding(scope, receive, send)
    assert sent[0]["status"] == 401
