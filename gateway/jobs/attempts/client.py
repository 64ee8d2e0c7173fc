"""A task's side: it asks the driver before it appends, and again and again while it does."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from gateway.fleet.rules.leases import WriteLease
from gateway.jobs.attempts.book import LEASE_S
from gateway.jobs.attempts.wire import ENDED, FENCED, HEARTBEAT, LIMIT, MAY, TOLD, Address, Hello, lost_line
from gateway.jobs.lost_records import LostRange
from gateway.kafka.topic_partition import TopicPartition
from gateway.transport.host import boot_clock

EVERY_S: Final = 2.0
_CONNECT_S: Final = 20.0

T = TypeVar("T")


class AttemptFenced(Exception):
    """This attempt of the task may not append any more. Says why."""


class Attempt:
    """Args.

    address: the driver's.
    attempt: Spark's `taskAttemptId`.
    """

    def __init__(
        self, address: Address, attempt: int, *, lease_s: float = LEASE_S, clock: Callable[[], float] = boot_clock
    ) -> None:
        self._address = address
        self._attempt = attempt
        self._clock = clock
        self._lease = WriteLease(lease_s)
        self._fenced = False
        self._asked: list[float] = []
        self._writer: asyncio.StreamWriter | None = None
        self._telling: deque[Callable[[], None]] = deque()  # what to call when it is told, in the order of the lines
        self.renewed: Callable[[], None] = lambda: None  # called when `may_append` may have become true

    def may_append(self) -> bool:
        """Asked before each request to the target."""
        return not self._fenced and self._lease.valid(self._clock())

    def tell_lost(self, lost: LostRange, told: Callable[[], None]) -> None:
        """Tell the driver what this attempt goes on without; `told` is called when that is counted. A `TellLost`.

        Never for one that may not append any more: it must not write where it would have gone on.
        """
        if self._writer is not None and not self._fenced:
            self._telling.append(told)
            self._writer.write(lost_line(lost))

    async def guard(self, keys: Sequence[TopicPartition], work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do the work once no other attempt can append to these partitions, and only as long as this one may.

        Raises:
            AttemptFenced: a newer attempt is here, or the driver ended or cannot be reached.
        """
        where = f"{self._address.host}:{self._address.port}"
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(self._address.host, self._address.port, limit=LIMIT)
        except OSError as exc:
            raise AttemptFenced(
                f"the driver cannot be reached at {where} ({exc}): tasks need that connection to copy; set "
                "spark.driver.host, or spark.lockgate.attempts.port and open it"
            ) from None
        self._writer = writer
        try:
            hello = Hello(attempt=self._attempt, keys=tuple(keys))
            writer.write(self._address.word() + hello.line())
            await self._first(reader)
            return await self._while_allowed(reader, writer, work)
        finally:
            self._fenced = True
            writer.write(ENDED)
            writer.close()

    async def _first(self, reader: asyncio.StreamReader) -> None:
        line = await _line(reader)
        if line != MAY:  # it may have taken long: the lease begins with the first word after it
            raise AttemptFenced(_why(line))

    async def _while_allowed(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        doing: asyncio.Task[T] = asyncio.create_task(work(), name="copy")
        hearing = asyncio.create_task(self._hear(reader), name="hear the driver")
        beating = asyncio.create_task(self._beat(writer), name="ask the driver")
        try:
            await asyncio.wait((doing, hearing), return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            self._fenced = True
            raise AttemptFenced(hearing.result())
        finally:
            for task in (doing, hearing, beating):
                task.cancel()
            await asyncio.gather(doing, hearing, beating, return_exceptions=True)

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        while True:
            self._asked.append(self._clock())
            writer.write(HEARTBEAT)
            await asyncio.sleep(EVERY_S)

    async def _hear(self, reader: asyncio.StreamReader) -> str:
        """Until this attempt must stop; returns why."""
        while (line := await _line(reader)) in (MAY, TOLD):
            if line == TOLD:
                self._telling.popleft()()
            else:
                self._lease.renewed(self._asked.pop(0))
                self.renewed()
        return _why(line)


def _why(line: bytes) -> str:
    return "a newer attempt of this task has begun" if line == FENCED else "the driver has ended, or is out of reach"


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Empty once there will be no more."""
    try:
        return await reader.readline()
    except (OSError, ValueError):
        return b""
