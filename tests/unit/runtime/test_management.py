"""Probes and Prometheus ask in plain HTTP: what they are told, when, and what strangers cannot take."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from gateway.config.api import Management
from gateway.config.settings import Settings
from gateway.devcluster import claim_ports, release_ports
from gateway.runtime.free_ports import StartError, require_free
from gateway.runtime.health import Vitals, checks, not_ready
from gateway.runtime.management import ManagementListener

SECRET = "broker-7.internal:9093 refused User:alice"


@pytest.fixture
def port() -> Iterator[int]:
    (port,) = claim_ports(1)
    yield port
    release_ports([port])


class Scene:
    """A gateway whose state is what a test says."""

    def __init__(self, settings: Management) -> None:
        self.now = 0.0
        self.asked = 0
        self.stopping = False
        self.closed: list[str] = []
        self.vitals = Vitals()
        self.listener = ManagementListener(settings, lambda: self.closed, lambda: self.stopping, lambda: self.now)
        self.url = f"http://127.0.0.1:{settings.port}"

    async def checks(self) -> dict[str, str]:
        self.asked += 1
        return checks(self.vitals)

    async def text(self) -> tuple[bytes, str]:
        self.asked += 1
        return b"lockgate_up 1\n", "text/plain; version=0.0.4"

    def serves(self) -> None:
        self.listener.siblings = cast("Any", SimpleNamespace(checks=self.checks, text=self.text))
        self.listener.serves()

    async def get(self, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.request(method, self.url + path, **more)

    async def ready(self) -> tuple[int, str]:
        self.now += 1  # what was found out is kept for a second
        answer = await self.get("/ready")
        return answer.status_code, answer.text


@pytest.fixture
async def scene(port: int) -> AsyncIterator[Scene]:
    made = Scene(Management(port=port))
    made.listener.start()
    yield made
    await made.listener.close()


async def test_ready_says_in_one_line_why_not(scene: Scene) -> None:
    assert await scene.ready() == (503, "starting\n")
    scene.serves()
    assert await scene.ready() == (200, "ok\n")
    scene.vitals = Vitals(target_error=SECRET, lease_left_s=0)
    assert await scene.ready() == (503, "target unreachable\n")
    scene.vitals = Vitals(lease_left_s=0, fleet_trouble=SECRET)
    assert await scene.ready() == (503, "no lease: nothing is written to sources\n")
    scene.vitals = Vitals(read_error=SECRET)
    assert await scene.ready() == (503, "the state topic is not read\n")
    scene.vitals = Vitals(closed_ports=["3"])
    assert await scene.ready() == (503, "not listening on all ports\n")
    scene.stopping = True
    assert await scene.ready() == (503, "draining\n")


async def test_a_restart_is_only_asked_for_where_it_may_mend_something(scene: Scene) -> None:
    async def health() -> int:
        return (await scene.get("/health")).status_code

    scene.closed = ["bootstrap"]
    assert await health() == 200
    scene.serves()
    assert await health() == 503
    scene.closed = []
    scene.vitals = Vitals(target_error=SECRET)
    assert await health() == 200
    scene.closed, scene.stopping = ["bootstrap"], True
    assert await health() == 200


async def test_metrics_are_there_from_the_beginning(scene: Scene) -> None:
    assert "lockgate_build_info" in (await scene.get("/metrics")).text
    scene.serves()
    answer = await scene.get("/metrics")
    assert (answer.text, answer.headers["content-type"]) == ("lockgate_up 1\n", "text/plain; version=0.0.4")


async def test_nothing_else_is_there_and_nobody_writes(scene: Scene) -> None:
    scene.serves()
    for path in ("/", "/v3/status", "/v3/links", "/docs", "/console", "/metrics/", "/ready/../v3/status"):
        assert (await scene.get(path)).status_code == 404, path
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = await scene.get("/metrics", method, content=b"x" * 100_000)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD"), method
    head = await scene.get("/metrics", "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert "server" not in head.headers


async def test_many_who_ask_cost_what_one_costs(scene: Scene) -> None:
    scene.serves()
    await asyncio.gather(*(scene.get(path) for path in ("/metrics", "/ready") for _ in range(4)))
    assert scene.asked == 2
    scene.now += 1
    await scene.get("/metrics")
    assert scene.asked == 3


async def _closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), 10) == b""
    except ConnectionResetError:
        return True


async def test_silent_strangers_keep_nobody_out(port: int) -> None:
    scene = Scene(Management(port=port, connections_per_address=2, request_timeout_s=60))
    scene.listener.start()
    try:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert (await scene.get("/health")).status_code == 200
        assert await _closed(opened[0][0])
        for _, writer in opened:
            writer.close()
    finally:
        await scene.listener.close()


async def test_a_request_that_does_not_come_to_its_end_is_cut_off(port: int) -> None:
    scene = Scene(Management(port=port, request_timeout_s=0.05))
    scene.listener.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\n")
        assert await _closed(reader)
        writer.close()
    finally:
        await scene.listener.close()


async def test_endless_headers_are_refused(scene: Scene) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(scene.url.rpartition(":")[2]))
    writer.write(b"GET /health HTTP/1.1\r\nHost: a\r\nx: " + b"y" * 100_000)
    assert b" 400 " in (await asyncio.wait_for(reader.readline(), 10))
    writer.close()


def test_a_gateway_that_stops_says_so_whatever_else_is_wrong() -> None:
    failing = checks(Vitals(target_error="gone"))
    assert not_ready(failing, serving=True, stopping=True) == "draining"
    assert not_ready(failing, serving=False, stopping=False) == "starting"
    assert not not_ready(checks(Vitals()), serving=True, stopping=False)


def settings(**more: Any) -> Settings:
    return Settings.model_validate({"target": {"bootstrap.servers": "localhost:1"}, **more})


def test_it_takes_any_address_and_a_port_of_its_own() -> None:
    assert settings(management={"host": "0.0.0.0", "port": 8643}).management.port == 8643
    with pytest.raises(ValueError, match=r"listener.bootstrap_port: 9292 is management.port, too"):
        settings(management={"port": 9292})
    with pytest.raises(ValueError, match=r"management.port: 8642 is api.port, too"):
        settings(management={"port": 8642})


def test_a_port_that_is_taken_is_named(port: int) -> None:
    first = {"bootstrap_port": claim_ports(1)[0], "base_port": 1}
    made = settings(management={"port": port}, listener=first, api={"socket": "/nowhere"})
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(StartError, match=rf"^management.port: cannot listen on 127.0.0.1:{port}: Address already"),
    ):
        require_free(made)
    release_ports([first["bootstrap_port"]])
