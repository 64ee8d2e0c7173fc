"""What a process that serves sets for itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest

from gateway.runtime import process


class Served:
    """A gateway that is told to stop at once."""

    failed = False

    def __init__(self, _settings: Any, worker: Any) -> None:
        self.stopped = asyncio.Event()

    def stop(self) -> None:
        self.stopped.set()

    def watched_by(self, _watch: Any) -> None:
        pass

    async def start(self) -> None:
        self.stop()

    async def close(self) -> None:
        pass


@pytest.fixture
def _as_before() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_as_before")
async def test_a_thread_that_computes_gives_way_to_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "Gateway", Served)
    monkeypatch.setattr(process, "spare_what_stays", lambda: None)
    assert await process._serve(cast("Any", None)) == 0
    assert sys.getswitchinterval() == pytest.approx(process.SWITCH_S)
    assert process.SWITCH_S <= 0.001
