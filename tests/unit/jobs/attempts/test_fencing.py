"""Attempts of a task and the driver, over sockets of this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from gateway.jobs.attempts.client import Attempt, AttemptFenced
from gateway.jobs.attempts.server import STRANGERS, AttemptServer
from gateway.jobs.attempts.wire import MAY, Hello, lost_line
from gateway.jobs.lost_records import LostRange, LostRecordLog
from tests.support.waiting import wait_until_async

KEYS = [("orders", 0)]


@pytest.fixture
def server() -> Iterator[AttemptServer]:
    server = AttemptServer("127.0.0.1", "127.0.0.1")
    server.start()
    yield server
    server.close()


class Copy:
    """What a task does: appends whenever it may, until it is told to end."""

    def __init__(self, attempt: Attempt, log: list[str], name: str) -> None:
        self._attempt = attempt
        self._log = log
        self._name = name
        self.began = asyncio.Event()
        self.end = asyncio.Event()

    async def run(self) -> str:
        self._attempt.renewed = self._append
        await self.end.wait()
        return self._name

    def _append(self) -> None:
        if self._attempt.may_append():
            self._log.append(self._name)
            self.began.set()


def a_copy(server: AttemptServer, number: int, log: list[str]) -> tuple[Copy, asyncio.Task[str]]:
    attempt = Attempt(server.address, number)
    copy = Copy(attempt, log, str(number))
    return copy, asyncio.create_task(attempt.guard(KEYS, copy.run), name=str(number))


async def test_an_attempt_appends_while_it_hears_the_driver(server: AttemptServer) -> None:
    log: list[str] = []
    copy, task = a_copy(server, 1, log)
    async with asyncio.timeout(10):
        await copy.began.wait()
        copy.end.set()
        assert await task == "1"
    assert log


async def test_an_older_attempt_stops_before_the_newer_one_begins(server: AttemptServer) -> None:
    log: list[str] = []
    async with asyncio.timeout(30):
        zombie, first = a_copy(server, 1, log)
        await zombie.began.wait()

        newer, second = a_copy(server, 2, log)
        with pytest.raises(AttemptFenced, match="a newer attempt of this task has begun"):
            await first
        await newer.began.wait()
        newer.end.set()
        assert await second == "2"
    assert log == sorted(log)


async def test_an_older_attempt_that_comes_late_may_not_begin(server: AttemptServer) -> None:
    async with asyncio.timeout(30):
        newer, second = a_copy(server, 2, [])
        await newer.began.wait()
        log: list[str] = []
        zombie, first = a_copy(server, 1, log)
        with pytest.raises(AttemptFenced, match="a newer attempt of this task has begun"):
            await first
        newer.end.set()
        await second
    assert log == []
    assert not zombie.began.is_set()


async def test_a_driver_that_ends_takes_its_attempts_along(server: AttemptServer) -> None:
    async with asyncio.timeout(30):
        copy, task = a_copy(server, 1, [])
        await copy.began.wait()
        await asyncio.to_thread(server.close)
        with pytest.raises(AttemptFenced, match="the driver has ended, or is out of reach"):
            await task


def frozen(server: AttemptServer, number: int) -> socket.socket:
    """An attempt that was told that it may append, and says nothing more: its process stands still."""
    address = server.address
    connection = socket.create_connection((address.host, address.port), timeout=10)
    connection.sendall(address.word() + Hello(attempt=number, keys=tuple(KEYS)).line())
    assert connection.recv(len(MAY)) == MAY
    return connection


async def test_one_that_stands_still_is_waited_for_until_its_lease_is_over() -> None:
    now = 0.0
    server = AttemptServer("127.0.0.1", "127.0.0.1", lease_s=0.5, clock=lambda: now)
    await asyncio.to_thread(server.start)
    with frozen(server, 1):
        async with asyncio.timeout(30):
            log: list[str] = []
            newer, task = a_copy(server, 2, log)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5):  # of a clock that goes on, while the driver's stands still
                    await newer.began.wait()
            assert log == []
            now = 0.6
            await newer.began.wait()
            newer.end.set()
            await task
    await asyncio.to_thread(server.close)


async def test_one_whose_process_is_gone_is_not_waited_for(server: AttemptServer) -> None:
    frozen(server, 1).close()
    async with asyncio.timeout(5):  # less than a lease
        newer, task = a_copy(server, 2, [])
        await newer.began.wait()
        newer.end.set()
        await task


async def test_who_does_not_know_the_word_is_not_heard(server: AttemptServer) -> None:
    stranger = Attempt(replace(server.address, token="0" * 32), 9)
    with pytest.raises(AttemptFenced):
        await stranger.guard(KEYS, asyncio.Event().wait)
    async with asyncio.timeout(10):
        copy, task = a_copy(server, 1, [])
        await copy.began.wait()
        copy.end.set()
        await task


async def test_a_driver_out_of_reach_is_told_with_the_remedy(server: AttemptServer) -> None:
    address = server.address
    await asyncio.to_thread(server.close)
    with pytest.raises(
        AttemptFenced, match=r"the driver cannot be reached at 127\.0\.0\.1:.*spark\.lockgate\.attempts"
    ):
        await Attempt(address, 1).guard(KEYS, asyncio.Event().wait)


async def test_what_an_attempt_goes_on_without_is_told_before_it_hears_so() -> None:
    """Of one that is waited for; meanwhile it may append."""
    book = LostRecordLog()
    server = AttemptServer("127.0.0.1", "127.0.0.1", tell_lost=book.add)
    await asyncio.to_thread(server.start)
    attempt = Attempt(server.address, 1)
    lost = [LostRange("orders", 0, 100, 200), LostRange("käse", 1, 5, 6)]
    heard: list[LostRange] = []
    all_heard, renewed = asyncio.Event(), asyncio.Event()

    def told(one: LostRange) -> None:
        heard.append(one)
        if heard == lost:
            all_heard.set()

    async def run() -> None:
        for one in lost:
            attempt.tell_lost(one, partial(told, one))
        attempt.renewed = renewed.set
        await all_heard.wait()

    async with asyncio.timeout(30):
        task = asyncio.create_task(attempt.guard(KEYS, run), name="1")
        await wait_until_async(lambda: len(book.all) == len(lost), 10)
        await renewed.wait()
        assert heard == []
        assert await asyncio.to_thread(book.tell, lambda said: list(said) == lost)
        await task
    await asyncio.to_thread(server.close)


async def test_an_answer_that_comes_after_the_drivers_end_is_nobodys() -> None:
    book = LostRecordLog()
    server = AttemptServer("127.0.0.1", "127.0.0.1", tell_lost=book.add)
    await asyncio.to_thread(server.start)
    with frozen(server, 1) as connection:
        connection.sendall(lost_line(LostRange("orders", 0, 1, 2)))
        await wait_until_async(lambda: bool(book.all), 10)
        await asyncio.to_thread(server.close)
        assert book.tell(lambda _: True)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


async def test_a_stranger_is_judged_by_its_first_bytes(server: AttemptServer) -> None:
    """Finding 20: 16 MiB of each were read before the token was looked at."""
    address = server.address
    with socket.create_connection((address.host, address.port), timeout=10) as stranger:
        stranger.sendall(b"x" * (len(address.token) + 1))
        assert await asyncio.to_thread(is_closed, stranger)


async def test_silent_strangers_shut_no_attempt_out(server: AttemptServer) -> None:
    """Finding 20: there was any number of them. The oldest gives its place up."""
    address = server.address
    silent = [socket.create_connection((address.host, address.port), timeout=10) for _ in range(STRANGERS + 1)]
    try:
        assert await asyncio.to_thread(is_closed, silent[0])
        async with asyncio.timeout(10):
            copy, task = a_copy(server, 1, [])
            await copy.began.wait()
            copy.end.set()
            assert await task == "1"
    finally:
        for each in silent:
            each.close()
