"""The write pause as a promote and the fleet see it. Everything is called on the one event loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.cutover.write_pause.rules.write_pause import Pause, WritePhase


@dataclass(frozen=True, slots=True)
class PauseAck:
    """A gateway's answer to a pause: nothing of `topic` is in flight through it, and it copies nothing of it.

    `phase`: where writes go at that gateway when it answers. `unknown_outcomes`: forwarded requests whose connection
    broke before the source answered. `groups`: those that it holds with the topic, since the record that it has read
    says that they change sides together: no transaction takes them in, and none that has them is open. `acked`: per
    partition the source offset behind the last record of late that all replicas had when its client was told so; of no
    use, and empty, while the topic is written on the target.
    """

    gateway: str
    topic: str
    epoch: int
    unknown_outcomes: int
    phase: WritePhase
    groups: frozenset[str] = frozenset()
    acked: tuple[tuple[int, int], ...] = ()


class Stall(NamedTuple):
    """For how long a client's requests waited under a write pause: from its first one to the last that was let go.

    `address`: the client's, as the gateway sees it.
    """

    client_id: str
    address: str
    seconds: float


class PausesWrites(Protocol):
    """One gateway, this one or another, as whoever leads a cutover sees it."""

    async def pause(self, pause: Pause) -> None:
        """New writes wait from here on. What is in flight goes on."""

    async def drain(self, pause: Pause) -> PauseAck:
        """As `pause`, and wait until nothing is in flight.

        Raises:
            NetError: it did not answer, or it was too late: the pause is over there.
        """

    async def drain_all(self, pauses: Sequence[Pause]) -> Sequence[PauseAck]:
        """As `drain`, of a set: its topics are asked for together, and all of them are acknowledged, or none.

        Raises:
            NetError: as `drain`, of any of them.
        """

    async def cut(self, pause: Pause) -> None:
        """As `pause`, and whatever is in flight is not waited for any more: no answer to it reaches a client.

        Raises:
            NetError: as `drain`.
        """

    async def stalls(self, pause: Pause) -> Sequence[Stall]:
        """Whose requests waited under the pause, and for how long: a bounded number of clients.

        Raises:
            NetError: it did not answer, or is of a version that does not know.
        """

    def blocked_by(self, topic: str) -> str:
        """What a pause of the topic waits for there, such as an open transaction; '' when nothing but an answer."""


class InFlight(Protocol):
    """The writes that are in flight through this gateway."""

    async def drain(self, topic: str) -> int:
        """Wait until none of the topic's is, new ones being paused. Returns how many of late had no known outcome."""

    async def drain_all(self, topics: Collection[str]) -> Mapping[str, int]:
        """As `drain`, of each; what is asked of a cluster is asked once for all of them."""

    def acked(self, topic: str) -> tuple[tuple[int, int], ...]:
        """See `PauseAck`."""

    def cut(self, topic: str) -> None:
        """Give up what is in flight of the topic: its outcome is unknown."""

    def blocked_by(self, topic: str) -> str:
        """See `PausesWrites`."""

    def stalls(self, topic: str, epoch: int) -> Sequence[Stall]:
        """Whose requests waited under the topic's pause of that epoch."""


class Coverage(Protocol):
    """Whom a pause covers beside the gateways that are asked. Times are monotonic seconds."""

    def lost(self) -> str:
        """Why a pause would not be acknowledged by all now, and until when; '' when nobody is lost."""

    def departed(self, since: float, acknowledged: Collection[str]) -> int:
        """Gateways that went since then without having acknowledged: their last writes may land yet."""

    def last_departure(self) -> float:
        """When the last gateway went; minus infinity when none has."""
