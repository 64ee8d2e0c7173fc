"""A gateway's end, in order: what a promote of its own stands on is there until the promote has come to its end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from gateway.config.settings import Settings
from gateway.runtime import gateway as module
from gateway.runtime.free_ports import StartError
from gateway.runtime.gateway import Gateway
from gateway.transport.host import Host
from tests.support.waiting import wait_until_async


class Part:
    """Something with a life; each step of its end is noted."""

    def __init__(self, name: str, trace: list[str]) -> None:
        self._name = name
        self._trace = trace
        self.cluster = SimpleNamespace(on_view=[], view=SimpleNamespace(brokers={1: ("b", 1, None)}))

    async def start(self) -> None:
        """Nothing to do."""

    open = start

    def cluster_id(self) -> str:
        return "T"

    async def close(self, *_: object) -> None:
        self._trace.append(self._name)


class Term:
    """A term of leadership with a promote that holds writes: `leave` returns when that has ended."""

    def __init__(self, trace: list[str]) -> None:
        self._trace = trace
        self.promote_ended = asyncio.Event()

    async def leave(self) -> None:
        self._trace.append("asked to leave")
        await self.promote_ended.wait()
        self._trace.append("promote ended")


def build(monkeypatch: pytest.MonkeyPatch, trace: list[str], term: Term | None) -> Gateway:
    """A gateway whose parts only note that they are closed."""
    for name in ("NetAccess", "Cluster", "StateStore"):
        monkeypatch.setattr(module, name, lambda *_, part=name, **__: Part(part, trace))

    def wire(self: Gateway, group: object) -> None:
        made: Any = self

        async def opened(*_: object) -> None:
            made._term = term

        made._sources = Part("sources", trace)
        made._peering = SimpleNamespace(
            engine=Part("engine", trace), close=Part("peering", trace).close, open=opened, name="g"
        )
        made._data = SimpleNamespace(
            forwarder=None,
            sessions=SimpleNamespace(lease_over=None),
            listeners=Part("listeners", trace),
            tokens=Part("tokens", trace),
            expiry=SimpleNamespace(run=asyncio.Event().wait),
            names=lambda: {"bootstrap": "localhost:1"},
            ports_for=lambda nodes: {1: 9293},
            stored_ports={},
        )
        made._publisher = SimpleNamespace(refresh=lambda: None)
        made._forwarding = None

    monkeypatch.setattr(Gateway, "_wire", wire)
    api = SimpleNamespace(start=lambda: None, close=Part("api", trace).close)
    host = Host(plain_sockets=False, serve_api=lambda *_: api)
    return Gateway(Settings(target={"bootstrap.servers": "localhost:1"}), host)


async def test_a_leader_ends_its_promotes_before_anything_that_they_stand_on(monkeypatch: pytest.MonkeyPatch) -> None:
    trace: list[str] = []
    term = Term(trace)
    gateway = build(monkeypatch, trace, term)
    await gateway.start()
    leaving = asyncio.create_task(gateway.close())
    await wait_until_async(lambda: "asked to leave" in trace)
    assert not {"peering", "engine", "sources", "StateStore", "Cluster", "NetAccess"} & set(trace)
    term.promote_ended.set()
    await asyncio.wait_for(leaving, 5)
    assert trace[trace.index("promote ended") :] == [
        "promote ended",
        "peering",
        "engine",
        "sources",
        "StateStore",
        "Cluster",
        "NetAccess",
    ]


async def test_a_gateway_that_does_not_lead_has_no_promotes_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    trace: list[str] = []
    gateway = build(monkeypatch, trace, None)
    await gateway.start()
    await asyncio.wait_for(gateway.close(), 5)
    assert trace[-1] == "NetAccess"


async def test_a_gateway_that_cannot_listen_does_not_join_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = build(monkeypatch, [], Term([]))
    gateway._host = replace(gateway._host, plain_sockets=True)
    asked: list[object] = []

    def taken(_: Settings, ports: object, *__: object, **___: object) -> None:
        asked.append(ports)
        raise ValueError("listener.ports: cannot listen")

    monkeypatch.setattr(module, "require_free", lambda _: None)
    monkeypatch.setattr(module, "require_token_listeners", AsyncMock())
    monkeypatch.setattr(module, "require_broker_ports", taken)
    with pytest.raises(StartError, match="listener.ports: cannot listen"):
        await gateway.start()
    assert asked == [{1: 9293}]
    assert gateway._term is None
    await gateway.close()
