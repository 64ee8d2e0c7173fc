"""A gateway that follows answers for itself, and passes everything else on to the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from gateway.api.access.audit import AuditTrail
from gateway.api.access.roles import CALLER, Caller, Role
from gateway.api.leader_forwarding import LeaderForwarding
from gateway.fleet.peers.channel import PeerRefused, PeerUnavailable
from gateway.kafka.connection.errors import NetError
from tests.support.control.shared_app import every_route


class Wires:
    """Hands questions to the other gateway's handlers; nobody there: PeerUnavailable."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.leader: Wires | None = None

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        if self.leader is None:
            raise PeerUnavailable("nobody there")
        try:
            answer: Mapping[str, Any] = await self.leader.handlers[what](body)
        except NetError as exc:
            raise PeerRefused(str(exc)) from exc
        return answer


def own() -> FastAPI:
    app = FastAPI()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "mine"}

    return app


def led(slow: asyncio.Event | None = None) -> FastAPI:
    app = FastAPI()

    @app.post("/v3/links/l/groups/{name:path}:promote", status_code=202)
    async def thing(name: str, request: Request, force: bool = False) -> dict[str, Any]:
        if slow is not None:
            await slow.wait()
        return {"name": name, "force": force, "body": await request.json()}

    return app


class Scene:
    def __init__(self) -> None:
        self.wires = [Wires(), Wires()]
        self.wires[1].leader = self.wires[0]
        self.knows = "leader"
        peers: list[Any] = list(self.wires)
        audit = AuditTrail(str, None, lambda: 0)
        self.leader, self.follower = (
            LeaderForwarding(own(), each, lambda: self.knows, audit, every_route()) for each in peers
        )
        self.caller = Caller("anna", Role.ADMIN, "token", "10.0.0.9:1")

    async def call(self, forwarding: LeaderForwarding, method: str, path: str, **options: Any) -> httpx.Response:
        async def app(scope: Any, receive: Any, send: Any) -> None:  # what `Guard` does
            await forwarding({**scope, CALLER: self.caller}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gw") as client:
            return await client.request(method, path, **options)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_request_is_answered_by_the_leader_whoever_is_asked(scene: Scene) -> None:
    scene.leader.lead(led())
    for forwarding in (scene.leader, scene.follower):
        answer = await scene.call(forwarding, "POST", "/v3/links/l/groups/a%2Fb:promote?force=true", json={"x": "ü"})
        assert answer.status_code == 202
        assert answer.json() == {"name": "a/b", "force": True, "body": {"x": "ü"}}
        assert (await scene.call(forwarding, "GET", "/v3/none")).status_code == 404


async def test_the_application_is_told_who_asks_whoever_was_asked(scene: Scene) -> None:
    app = FastAPI()

    @app.get("/v3/migrations")
    async def asks(request: Request) -> str:
        caller: Caller = request.scope[CALLER]
        return caller.name

    scene.leader.lead(app)
    for gateway in (scene.leader, scene.follower):
        assert (await scene.call(gateway, "GET", "/v3/migrations")).json() == "anna"


async def test_of_itself_each_tells_itself(scene: Scene) -> None:
    assert (await scene.call(scene.follower, "GET", "/health")).json() == {"status": "mine"}


async def test_without_a_leader_it_says_so(scene: Scene) -> None:
    answer = await scene.call(scene.follower, "GET", "/v3/links")
    assert (answer.status_code, answer.json()["error_code"]) == (503, 503)
    assert "does not lead" in answer.json()["message"]
    scene.wires[1].leader = None
    assert "nobody there" in (await scene.call(scene.follower, "GET", "/v3/links")).json()["message"]
    scene.knows = ""
    assert "no gateway leads" in (await scene.call(scene.follower, "GET", "/v3/links")).json()["message"]


async def test_what_is_under_way_ends_with_the_term(scene: Scene) -> None:
    begun = asyncio.Event()
    scene.leader.lead(led(begun))
    asked = asyncio.create_task(scene.call(scene.follower, "POST", "/v3/links/l/groups/x:promote", json={}))
    done, _ = await asyncio.wait({asked}, timeout=0.2)
    assert not done
    scene.leader.follow()
    answer = await asyncio.wait_for(asked, 5)
    assert answer.status_code == 503
    assert "any more" in answer.json()["message"]


async def test_a_gateway_that_stops_answers_what_it_does_not_wait_for(scene: Scene) -> None:
    scene.leader.lead(led(asyncio.Event()))
    asked = asyncio.create_task(scene.call(scene.follower, "POST", "/v3/links/l/groups/x:promote", json={}))
    done, _ = await asyncio.wait({asked}, timeout=0.2)
    assert not done
    asked.cancel()  # what uvicorn does to a request; the client of this test runs in the same task
    answer = await asyncio.wait_for(asked, 5)
    assert answer.status_code == 503
    assert "this gateway stops" in answer.json()["message"]


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("gw-2:8642", "http://gw-2:8642/"),
        ("[::1]:8642", "http://[::1]:8642/"),
        ("gw/../x", "http://gateway/"),
        ("user@gw", "http://gateway/"),
        ("", "http://gateway/"),
    ],
)
async def test_an_answer_names_things_as_the_client_addresses_the_gateway_that_it_asked(scene, host, base):
    app = FastAPI()

    @app.get("/v3/links")
    async def where(request: Request) -> dict[str, str]:
        return {"base": str(request.base_url)}

    scene.leader.lead(app)
    for each in (scene.leader, scene.follower):
        answer = await scene.call(each, "GET", "/v3/links", headers={"host": host})
        assert answer.json() == {"base": base}
