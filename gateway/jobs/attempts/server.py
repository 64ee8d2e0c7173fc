"""The driver's side: listens for attempts, on a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from gateway.jobs.attempts.book import LEASE_S, AttemptRegistry
from gateway.jobs.attempts.wire import ENDED, FENCED, HEARTBEAT, LIMIT, LOST, MAY, TOLD, Address, Hello, parse_lost
from gateway.jobs.lost_records import TellLost, notify_immediately
from gateway.transport.host import boot_clock

PORT: Final = "spark.lockgate.attempts.port"
"""Spark setting: the port on the driver; 0, the default, for any."""

STRANGERS: Final = 64
"""Connections that have not said the word yet, at a time."""

_HELLO_S: Final = 10.0
_LAST_PORT: Final = 65535
_log = logging.getLogger(__name__)


class AttemptServer:
    """Args.

    bind: the address to listen on. host: the name under which executors reach this machine.
    port: 0 for any.
    tell_lost: told of what attempts go on without; the attempt hears when that is counted.
    """

    def __init__(
        self,
        bind: str,
        host: str,
        port: int = 0,
        *,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = boot_clock,
        tell_lost: TellLost = notify_immediately,
    ) -> None:
        self._tell_lost = tell_lost
        self._bind = bind
        self._host = host
        self._port = port
        self._clock = clock
        self._book = AttemptRegistry(lease_s)
        self._token = secrets.token_hex(16)
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._strangers: dict[asyncio.StreamWriter, None] = {}  # in the order of their coming
        self._changed = asyncio.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="task attempts", daemon=True)
        self._started = threading.Event()
        self._stop = asyncio.Event()
        self._error: OSError | None = None

    @property
    def address(self) -> Address:
        """Once started."""
        return Address(host=self._host, port=self._port, token=self._token)

    def start(self) -> None:
        """Listen. Raises OSError when that is not possible."""
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End all connections: no attempt appends any more. From any thread, and more than once."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        try:
            server = await asyncio.start_server(self._connected, self._bind, self._port, limit=LIMIT)
        except OSError as exc:
            self._error = exc
            self._started.set()
            return
        self._port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for writer in self._writers.values():
            writer.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await self._is_let_in(reader, writer):
                async with asyncio.timeout(_HELLO_S):
                    hello = Hello.parse(await reader.readline())
                await self._attempt(hello, reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError) as exc:
            _log.debug("a connection of a task: %s", exc)
        finally:
            writer.close()

    async def _is_let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """By the word. So many may be without it at a time; for one more the one that is so for longest is closed."""
        if len(self._strangers) >= STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.transport.abort()
        self._strangers[writer] = None
        try:
            word = self.address.word()
            async with asyncio.timeout(_HELLO_S):
                return hmac.compare_digest(await reader.readexactly(len(word)), word)
        finally:
            self._strangers.pop(writer, None)

    async def _attempt(self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attempt = hello.attempt
        if not self._book.claim(attempt, hello.keys, self._clock()):
            writer.write(FENCED)
            return
        self._writers[attempt] = writer
        try:
            for older in self._book.older(attempt):
                if older in self._writers:
                    self._writers[older].write(FENCED)
            await self._until_alone(attempt)
            await self._talk(attempt, reader, writer)
        except ConnectionError:  # not the process's end, but the network's: its lease has to run out
            return
        finally:
            del self._writers[attempt]
        await self._ended(attempt)

    async def _until_alone(self, attempt: int) -> None:
        while (left := self._book.wait_s(attempt, self._clock())) > 0 and self._book.holds(attempt):
            async with self._changed:
                try:
                    async with asyncio.timeout(left):
                        await self._changed.wait()
                except TimeoutError:  # the lease is over
                    continue

    async def _talk(self, attempt: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until it ends: by its word, or by the end of its stream, which the kernel of a dead process sends."""
        self._answer(attempt, writer)
        while (line := await reader.readline()) and line != ENDED:
            if line == HEARTBEAT:
                self._answer(attempt, writer)
            elif line.startswith(LOST):
                self._tell_lost(parse_lost(line), partial(self._told, writer))

    def _answer(self, attempt: int, writer: asyncio.StreamWriter) -> None:
        if self._book.holds(attempt):
            self._book.answered(attempt, self._clock())
            writer.write(MAY)
        else:
            writer.write(FENCED)

    def _told(self, writer: asyncio.StreamWriter) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed: the driver has ended, and its attempts with it
            self._loop.call_soon_threadsafe(writer.write, TOLD)

    async def _ended(self, attempt: int) -> None:
        self._book.ended(attempt)
        async with self._changed:
            self._changed.notify_all()


@contextmanager
def attempts_of(spark: SparkSession, tell_lost: TellLost = notify_immediately) -> Iterator[AttemptServer]:
    """Listen on the driver, where its executors reach it, during the block.

    Args:
        tell_lost: see `AttemptServer`.

    Raises:
        ValueError: it cannot listen there.
    """
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
    bind = conf.get("spark.driver.bindAddress", host) or host
    port = conf.get(PORT, "0") or "0"
    if not port.isdecimal() or int(port) > _LAST_PORT:
        raise ValueError(f"{PORT}: {port!r} is no port: give one from 1 to {_LAST_PORT}, or 0 for any")
    server = AttemptServer(bind, host, int(port), tell_lost=tell_lost)
    try:
        server.start()
    except OSError as exc:
        raise ValueError(f"{PORT}: cannot listen on {bind}:{port} for the tasks: {exc}") from None
    try:
        yield server
    finally:
        server.close()
