"""The write pause's interface to promotes and the fleet. Everything is called on the one event loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.cutover.write_pause.rules.write_pause import Pause, WritePhase


@dataclass(frozen=True, slots=True)
class PauseAck:
    """A gateway's answer to a pause: it has no write to `topic` in flight, and its mirror copies none of it.

    `phase`: where writes go at that gateway when it answers. `unknown_outcomes`: forwarded requests whose connection
    broke before the source answered. `groups`: the groups that it holds with the topic, because its record says that
    they change sides together: no transaction adds them, and none that has them is open. `acked`: (partition, source
    offset after the last record that was lately acknowledged to a client with acks=all); empty while the topic is
    written on the target.
    """

    gateway: str
    topic: str
    epoch: int
    unknown_outcomes: int
    phase: WritePhase
    groups: frozenset[str] = frozenset()
    acked: tuple[tuple[int, int], ...] = ()


class Stall(NamedTuple):
    """How long a client's requests waited under a write pause: from its first one to the last one released.

    `address`: the client's, as the gateway sees it.
    """

    client_id: str
    address: str
    seconds: float


class PausesWrites(Protocol):
    """One gateway, this one or another, as the leader of a cutover commands it."""

    async def pause(self, pause: Pause) -> None:
        """Make new writes wait. Writes in flight go on."""

    async def drain(self, pause: Pause) -> PauseAck:
        """Same as `pause`, and wait until no write is in flight.

        Raises:
            NetError: no answer, or too late: the pause is over there.
        """

    async def drain_all(self, pauses: Sequence[Pause]) -> Sequence[PauseAck]:
        """Same as `drain`, for a set of topics: it acknowledges all of them, or none.

        Raises:
            NetError: as `drain`, for any of them.
        """

    async def cut(self, pause: Pause) -> None:
        """Same as `pause`, and give up writes in flight: no answer to them reaches a client.

        Raises:
            NetError: as `drain`.
        """

    async def stalls(self, pause: Pause) -> Sequence[Stall]:
        """Whose requests waited under the pause, and for how long; a bounded number of clients.

        Raises:
            NetError: no answer, or the gateway's version does not know this question.
        """

    def blocked_by(self, topic: str) -> str:
        """What a pause of the topic waits for there, such as an open transaction; '' for nothing but an answer."""


class InFlight(Protocol):
    """The writes in flight through this gateway."""

    async def drain(self, topic: str) -> int:
        """Wait until no write to the paused topic is in flight. Returns how many recent ones had no known outcome."""

    async def drain_all(self, topics: Collection[str]) -> Mapping[str, int]:
        """Same as `drain`, for several topics; asks each cluster once for all of them."""

    def acked(self, topic: str) -> tuple[tuple[int, int], ...]:
        """See `PauseAck`."""

    def cut(self, topic: str) -> None:
        """Give up the topic's writes in flight: their outcome is unknown."""

    def blocked_by(self, topic: str) -> str:
        """See `PausesWrites`."""

    def stalls(self, topic: str, epoch: int) -> Sequence[Stall]:
        """Whose requests waited under the topic's pause of that epoch."""


class Coverage(Protocol):
    """Gateways that a pause must cover although they cannot be asked. Times are monotonic seconds."""

    def lost(self) -> str:
        """Why not every gateway would acknowledge a pause now, and until when; '' when none is lost."""

    def departed(self, since: float, acknowledged: Collection[str]) -> int:
        """How many gateways left since then without an acknowledgement: their last writes may still land."""

    def last_departure(self) -> float:
        """When the last gateway left; minus infinity when none has."""
