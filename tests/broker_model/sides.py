"""The two sides that are asked the same: a real cluster over sockets, and the model in memory and in virtual time.

A side sends one request to one broker on a connection of a name of its own (requests of one connection are served one
after another, those of different ones are not), and gives back the decoded answer, `CLOSED` when the broker closes the
connection instead, or None where there is no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, Final, Protocol

from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_request
from protocol.header import response_body_offset
from tests.simulation.kafka.acls import Authorizer
from tests.simulation.kafka.broker import CloseConnection, Session
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop

CLOSED: Final = "the connection was closed"
CLIENT_ID: Final = "lab"
_ANSWER_S: Final = 30.0

CONFIGS: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "max.incremental.fetch.session.cache.slots": "1000",
}
"""Broker configurations of both sides."""
AUTHORIZER: Final[Mapping[str, str]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Of real brokers, beside those. The model's authorizer forbids nobody anything."""


class Side(Protocol):
    """One of the two."""

    name: str
    settle_s: float
    """How long an answer that comes at once may take to come."""

    @property
    def nodes(self) -> list[int]:
        """Broker ids, in order."""

    async def send(self, node: int, connection: str, key: int, version: int, message: Any) -> Any:
        """See the module."""

    def wall_ms(self) -> int:
        """The brokers' clock."""

    async def close(self) -> None:
        """Close all connections."""


def frame(key: int, version: int, message: Any) -> bytes:
    """A request with its size."""
    return encode_request(message, version, 1, CLIENT_ID)


def decoded(key: int, version: int, answer: bytes) -> Any:
    """The answer in a response frame without its size."""
    return decode_response(key, version, memoryview(answer)[response_body_offset(key, version, answer) :])


def has_answer(key: int, message: Any) -> bool:
    """False for Produce with acks=0."""
    return key != ApiKey.PRODUCE or message.acks != 0


class RealSide:
    """A running cluster: node id -> (host, port)."""

    name = "real"
    settle_s = 0.15

    def __init__(self, addresses: Mapping[int, tuple[str, int]], clock: Callable[[], float]) -> None:
        self._addresses = dict(addresses)
        self._clock = clock
        self._open: dict[tuple[int, str], tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    @property
    def nodes(self) -> list[int]:
        """Broker ids, in order."""
        return sorted(self._addresses)

    def wall_ms(self) -> int:
        """The machine's clock."""
        return int(self._clock() * 1000)

    async def send(self, node: int, connection: str, key: int, version: int, message: Any) -> Any:
        """See the module."""
        place = (node, connection)
        if place not in self._open:
            self._open[place] = await asyncio.open_connection(*self._addresses[node])
        reader, writer = self._open[place]
        writer.write(frame(key, version, message))
        if not has_answer(key, message):
            return await self._closes(place, reader)
        try:
            async with asyncio.timeout(_ANSWER_S):
                size = int.from_bytes(await reader.readexactly(4), "big")
                return decoded(key, version, await reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            self._forget(place)
            return CLOSED

    async def _closes(self, place: tuple[int, str], reader: asyncio.StreamReader) -> Any:
        """Whether the broker closes the connection, as it does when it cannot say what is wrong."""
        try:
            async with asyncio.timeout(self.settle_s):
                await reader.read(1)
        except TimeoutError:
            return None
        except ConnectionError:
            pass
        self._forget(place)
        return CLOSED

    def _forget(self, place: tuple[int, str]) -> None:
        self._open.pop(place)[1].close()

    async def close(self) -> None:
        """Close all connections."""
        for place in list(self._open):
            self._forget(place)


class ModelSide:
    """A fresh model of a cluster."""

    name = "model"
    settle_s = 0.15

    def __init__(self, loop: SimLoop, version: str, brokers: int) -> None:
        configs = dict(CONFIGS)
        self.cluster = ClusterModel(loop, brokers=brokers, version=version, rng=Random(1), configs=configs)
        self.cluster.authorizer = Authorizer()
        self._sessions: dict[tuple[int, str], Session] = {}

    @property
    def nodes(self) -> list[int]:
        """Broker ids, in order."""
        return sorted(self.cluster.brokers)

    def wall_ms(self) -> int:
        """The virtual clock."""
        return self.cluster.wall_ms()

    async def send(self, node: int, connection: str, key: int, version: int, message: Any) -> Any:
        """See the module."""
        session = self._sessions.setdefault((node, connection), Session(peer="127.0.0.1:1"))
        try:
            answer = await self.cluster.brokers[node].handle(frame(key, version, message)[4:], session)
        except CloseConnection:
            self._sessions.pop((node, connection), None)
            return CLOSED
        return None if answer is None else decoded(key, version, answer)

    async def close(self) -> None:
        """Nothing is open."""


def in_virtual_time(story: Callable[[SimLoop], Coroutine[Any, Any, Any]]) -> Any:
    """Run something on a loop of its own, without waiting."""
    with SimLoop(seed=1) as loop:
        return loop.run_until_complete(story(loop))
