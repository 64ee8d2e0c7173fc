"""A process whose gateway cannot start yet, or not at all."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from structlog.testing import capture_logs

from gateway.config.settings import Settings
from gateway.runtime import process
from gateway.runtime.free_ports import StartError
from gateway.runtime.gateway import Gateway

SETTINGS = Settings(target={"bootstrap.servers": "localhost:1"})


async def test_ctrl_c_ends_a_start_that_waits_for_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = asyncio.Event()

    async def waits(self: Gateway) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    monkeypatch.setattr(Gateway, "start", waits)
    async with asyncio.timeout(10):
        assert await process._serve(SETTINGS) == 0
    assert cancelled.is_set()


async def test_why_it_cannot_start_is_told_before_it_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(self: Gateway) -> None:
        raise StartError("no broker answers")

    monkeypatch.setattr(Gateway, "start", refused)
    with capture_logs() as lines:
        assert await process._serve(SETTINGS) == 1
    told = [(line["event"], line.get("reason")) for line in lines]
    assert told == [("cannot start", "no broker answers"), ("stopped", None)]
