"""What the quotas of sources hold back of clients' writes: kept to, counted, and said to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from gateway.kafka.connection.connection import Connection


class SourceRests:
    """`clock`: monotonic seconds.

    Attributes:
        seconds: by link, for how long its brokers have said that they throttle forwarded writes, over all connections.
    """

    __slots__ = ("_clock", "_until", "seconds")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def told(self, link: str, connection: Connection, throttle_ms: int) -> None:
        """An answer on a connection to the link's source says this; 0 is of interest while the connection rests."""
        connection.rest.told(throttle_ms)
        if throttle_ms > 0:
            seconds = throttle_ms / 1000
            self.seconds[link] = self.seconds.get(link, 0.0) + seconds
            self._until[link] = max(self._until.get(link, 0.0), self._clock() + seconds)

    def why(self, link: str) -> str:
        """What writes that are in flight to the link's source wait for, if it throttles them; else ''."""
        left = self._until.get(link, 0.0) - self._clock()
        if left <= 0:
            return ""
        return (
            f"the source throttles writes of link '{link}' for {ceil(left)} s more (throttle_time_ms); raise the "
            "produce quota of the link's principal there"
        )
