"""Why the fleet's coordinator does not agree is told, and not only logged."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.fleet import group as group_module
from gateway.fleet.group import FleetGroup
from gateway.fleet.rules.group import MembershipPhase
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from protocol.errors import ErrorCode
from tests.support.waiting import wait_until_async


class State:
    """Of a member: as `FleetGroupState`, as far as it is asked here."""

    def __init__(self) -> None:
        self.phase = MembershipPhase.HEARTBEAT
        self.refusals, self.refusal, self.assignment, self.left = 0, "", None, False
        self.lease = SimpleNamespace(lease_s=10.0)

    def refused(self, code: int, what: str) -> None:
        self.refusals += 1
        self.refusal = f"{what}: {ErrorCode(code).name}"


async def test_it_is_told_until_the_group_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "_AGAIN_S", 0.0)
    monkeypatch.setattr(group_module, "_BACKOFF_S", (0.0, 0.0))
    state = State()
    nothing: Any = None
    cluster = cast("Any", SimpleNamespace(rng=Random(1).random))
    group = FleetGroup(cluster, "g", cast("Any", state), nothing, nothing, nothing)
    turned = asyncio.Event()
    turned.set()
    answers: list[Exception | None] = [ClusterUnavailable("the fleet is too large")]

    async def heartbeat() -> None:
        await turned.wait()
        if answers[0] is not None:
            raise answers[0]
        state.refusals = 0
        turned.clear()

    monkeypatch.setattr(group, "_heartbeat", heartbeat)
    running = asyncio.create_task(group._take_part(), name="group")
    try:
        assert group.trouble == ""
        await wait_until_async(lambda: group.trouble == "the fleet is too large", what="a reason")
        answers[0] = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "x")
        await wait_until_async(lambda: group.trouble == "FindCoordinator: UNKNOWN_SERVER_ERROR", what="another one")
        answers[0] = None
        await wait_until_async(lambda: not group.trouble, what="none any more")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
