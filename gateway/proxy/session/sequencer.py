"""Responses leave a connection in the order of its requests, whatever order they become known in.

Pure: no socket. The session feeds it exchanges and writes what it returns. The order rule is Kafka's own:
a client matches responses by position and checks the correlation id.
"""

from __future__ import annotations

from collections import deque

from gateway.proxy.session.exchange import Exchange
from protocol.wire import Buffer


class Sequencer:
    """The exchanges of one connection, oldest first. `waiting_bytes`: of responses that wait for their turn."""

    __slots__ = ("queue", "waiting_bytes")

    def __init__(self) -> None:
        self.queue: deque[Exchange] = deque()
        self.waiting_bytes = 0

    def __len__(self) -> int:
        return len(self.queue)

    def forget(self) -> None:
        """The connection is closed: nobody is answered."""
        self.queue.clear()
        self.waiting_bytes = 0

    def begin(self, exchange: Exchange) -> None:
        """Take a place at the end."""
        self.queue.append(exchange)

    def is_head(self, exchange: Exchange) -> bool:
        """True when every earlier exchange has been answered: its bytes may leave as they come."""
        return bool(self.queue) and self.queue[0] is exchange

    def finish_head(self) -> list[Buffer]:
        """The head's response has left in pieces: remove it, return the responses that were waiting on it."""
        self.queue.popleft()
        return self._ready()

    def answer(self, exchange: Exchange, response: Buffer) -> list[Buffer]:
        """Give the exchange its framed response (empty = none is due); return what may leave now, in order."""
        exchange.response = response
        self.waiting_bytes += len(response)
        return self._ready() if self.queue and self.queue[0] is exchange else []

    def _ready(self) -> list[Buffer]:
        ready: list[Buffer] = []
        queue = self.queue
        while queue and (response := queue[0].response) is not None:
            if response:
                ready.append(response)
                self.waiting_bytes -= len(response)
            queue.popleft()
        return ready
