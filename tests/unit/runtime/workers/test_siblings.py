"""What the first worker answers for all of its gateway, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.membership import worker_name
from gateway.runtime.workers import siblings
from gateway.runtime.workers.share import ALONE, Worker
from gateway.runtime.workers.siblings import Siblings
from gateway.telemetry.metrics import Metrics
from tests.support.waiting import wait_until_async


class Process:
    """One worker. `checks`: its own."""

    def __init__(self, index: int, count: int) -> None:
        self.name = worker_name("gw", index)
        self.peers = Peers(self.name, "1", lambda: "s", lambda *_: None)
        self.checks: dict[str, str] = {"lease": "", "target": ""}
        self.metrics = Metrics()
        self.metrics.pause_ended("l", "stopped", 0.01, {})
        self.siblings = Siblings(
            "gw", Worker(index, count), self.peers, self.metrics, lambda: self.checks, process=f"p{index}"
        )


@asynccontextmanager
async def running(count: int) -> AsyncIterator[list[Process]]:
    made = [Process(index, count) for index in range(count)]
    ports = {one.name: f"127.0.0.1:{await one.peers.listen('127.0.0.1', 0)}" for one in made}
    try:
        for one in made:
            one.peers.expect(ports)
        await wait_until_async(lambda: all(len(one.peers.connected()) == count - 1 for one in made), 5.0)
        yield made
    finally:
        for one in made:
            await one.peers.close()


def value(text: bytes, name: str) -> float:
    (line,) = [line for line in text.decode().splitlines() if line.startswith(name)]
    return float(line.rpartition(" ")[2])


async def test_metrics_are_summed() -> None:
    async with running(3) as made:
        text, _ = await made[0].siblings.text()
    assert value(text, "lockgate_workers ") == 3
    assert value(text, "lockgate_write_pause_duration_seconds_count") == 3


async def test_a_check_fails_when_it_fails_at_any() -> None:
    async with running(3) as made:
        assert not any((await made[0].siblings.checks()).values())
        made[2].checks["lease"] = "it is over"
        assert await made[0].siblings.checks() == {"lease": "gw#3: it is over", "target": ""}
        made[0].checks["lease"] = "mine"
        assert await made[0].siblings.checks() == {"lease": "mine", "target": ""}


async def test_one_that_does_not_answer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "_ANSWER_S", 0.2)
    async with running(3) as made:
        await made[1].peers.close()
        made[2].checks["lease"] = "it is over"
        text, _ = await made[0].siblings.text()
        checks = await made[0].siblings.checks()
    assert value(text, "lockgate_workers ") == 2
    assert value(text, "lockgate_write_pause_duration_seconds_count") == 2
    assert checks == {"lease": "gw#3: it is over", "target": ""}


async def test_what_one_had_counted_counts_on_while_it_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that falls and is whole again is, to a rate, all that was ever counted, in one scrape."""
    monkeypatch.setattr(siblings, "_ANSWER_S", 0.2)
    async with running(3) as made:
        await made[0].siblings.text()
        await made[1].peers.close()
        await made[0].siblings.text()
        text, _ = await made[0].siblings.text()
    assert value(text, "lockgate_workers ") == 2
    assert value(text, "lockgate_write_pause_duration_seconds_count") == 3


async def test_what_one_had_counted_counts_on_when_it_was_started_again() -> None:
    """Its successor begins with nothing: the sum goes on from where it was."""
    async with running(2) as made:
        await made[0].siblings.text()
        again = Metrics()
        Siblings("gw", Worker(1, 2), made[1].peers, again, dict, process="again")
        texts = [(await made[0].siblings.text())[0]]
        again.pause_ended("l", "stopped", 0.01, {})
        texts += [(await made[0].siblings.text())[0] for _ in range(2)]
    assert [value(text, "lockgate_workers ") for text in texts] == [2, 2, 2]
    assert [value(text, "lockgate_write_pause_duration_seconds_count") for text in texts] == [2, 3, 3]


async def test_what_the_others_had_counted_is_not_new_when_the_first_one_was_started_again() -> None:
    """Its own counters begin with nothing, so the sum falls, which is a restart to Prometheus: it took all that the
    others had ever counted for new."""
    async with running(2) as made:
        texts = [(await made[0].siblings.text())[0]]
        made[1].metrics.pause_ended("l", "stopped", 0.01, {})  # nobody has seen this one yet
        again = Metrics()
        first = Siblings("gw", Worker(0, 2), made[0].peers, again, dict, process="again")
        texts += [(await first.text())[0] for _ in range(2)]
        again.pause_ended("l", "stopped", 0.01, {})
        made[1].metrics.pause_ended("l", "stopped", 0.01, {})
        texts += [(await first.text())[0]]
    assert [value(text, "lockgate_write_pause_duration_seconds_count") for text in texts] == [2, 1, 1, 3]


async def test_a_gateway_of_one_process_asks_nobody() -> None:
    def none() -> Mapping[str, str]:
        return {"lease": "over"}

    peers = Peers("gw", "1", lambda: "s", lambda *_: None)
    alone = Siblings("gw", ALONE, peers, Metrics(), none, process="alone")
    assert await alone.checks() == {"lease": "over"}
    assert b"lockgate_workers" not in (await alone.text())[0]
    assert not peers.handlers
