"""Write pauses over the fleet, at the leader: every gateway that may write is asked to pause, and told when it is over.

The other side is `follower.py`; which commands count is decided in `cutover/write_pause/rules/write_pause.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from gateway.cutover.write_pause.interface import PauseAck, PausesWrites, Stall
from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.write_pause import Pause, WritePhase
from gateway.fleet.peers.channel import PeerRefused
from gateway.kafka.connection.errors import NetError

PAUSE: Final = "pause"
DRAIN: Final = "drain"
CUT: Final = "cut"
RESUME: Final = "resume"
STALLS: Final = "stalls"
_DRAIN_S: Final = 600.0  # whoever asks has a shorter patience
_PAUSE_S: Final = 3.0
_RESUME_S: Final = 2.0
_STALLS_S: Final = 2.0
_AGAIN_S: Final = 0.5
_log = structlog.get_logger("lockgate.fleet")


class AskPeers(Protocol):
    """Of `Peers`."""

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """See there."""


class RemotePauses:
    """`PausesWrites` of one other gateway.

    Args:
        blocked: what a pause of a topic waits for there, from its heartbeats: (gateway, topic).
    """

    def __init__(self, peers: AskPeers, gateway: str, blocked: Callable[[str, str], str] = lambda _g, _t: "") -> None:
        self._peers = peers
        self.gateway = gateway
        self._blocked = blocked

    async def pause(self, pause: Pause) -> None:
        """New writes wait from here on, and it mirrors nothing of the topic any more.

        Raises:
            PeerUnavailable, PeerRefused: not acknowledged; to be asked again.
        """
        await self._peers.ask(self.gateway, PAUSE, pause._asdict(), _PAUSE_S)

    async def drain(self, pause: Pause) -> PauseAck:
        """As `pause`, and wait until it has nothing in flight. Raises as `pause`."""
        answer = await self._peers.ask(self.gateway, DRAIN, pause._asdict(), _DRAIN_S)
        unknown, phase = int(answer["unknown_outcomes"]), WritePhase(answer["phase"])
        groups = frozenset(str(group) for group in answer.get("groups", ()))  # an older gateway knows of none
        return PauseAck(self.gateway, pause.topic, int(answer["epoch"]), unknown, phase, groups)

    async def cut(self, pause: Pause) -> None:
        """As `pause`, and no answer to what it has in flight reaches a client any more. Raises as `pause`."""
        await self._peers.ask(self.gateway, CUT, pause._asdict(), _PAUSE_S)

    async def resume(self, pause: Pause) -> None:
        """Tell it that nothing came of the pause. Raises as `pause`."""
        await self._peers.ask(self.gateway, RESUME, pause._asdict(), _RESUME_S)

    async def stalls(self, pause: Pause) -> Sequence[Stall]:
        """See `PausesWrites`. Raises as `pause`."""
        answer = await self._peers.ask(self.gateway, STALLS, pause._asdict(), _STALLS_S)
        return [Stall(str(who), str(where), float(seconds)) for who, where, seconds in answer["stalls"]]

    def blocked_by(self, topic: str) -> str:
        """As it said in its last heartbeat; or that it did not answer yet."""
        held = self._blocked(self.gateway, topic)
        return f"gateway '{self.gateway}': {held}" if held else ""


class FleetPauses(Mapping[str, PausesWrites]):
    """Every gateway that has to acknowledge a pause, by name; what `TopicPromoter` and `Failbacks` are given.

    When the leader resumes a topic the others are told so, until they have heard it. After a cutover it resumes
    nothing: the record has ended its own pause, as it ends the others' when they read it.

    Args:
        name: this gateway's; `local` is itself.
        required: all gateways that may write to a source now, this one too (`membership.must_acknowledge`).
        publisher: of this gateway.
    """

    def __init__(
        self,
        *,
        name: str,
        local: PausesWrites,
        peers: AskPeers,
        required: Callable[[], Iterable[str]],
        publisher: RoutingPublisher,
        blocked: Callable[[str, str], str] = lambda _g, _t: "",
    ) -> None:
        self._name = name
        self._local = local
        self._peers = peers
        self._required = required
        self._publisher = publisher
        self._blocked = blocked
        self._remote: dict[str, RemotePauses] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        publisher.on_resumed.append(self._resumed)

    def __getitem__(self, gateway: str) -> PausesWrites:
        return self._local if gateway == self._name else self._other(gateway)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({self._name, *self._required()}))

    def __len__(self) -> int:
        return len({self._name, *self._required()})

    async def close(self) -> None:
        """The term is over: the next leader goes on from the records."""
        self._publisher.on_resumed.remove(self._resumed)
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _other(self, gateway: str) -> RemotePauses:
        if gateway not in frozenset(self._required()):
            raise KeyError(gateway)
        if gateway not in self._remote:
            self._remote[gateway] = RemotePauses(self._peers, gateway, self._blocked)
        return self._remote[gateway]

    def _resumed(self, pauses: Sequence[Pause]) -> None:
        """Also who came in the meantime is told: its assignment has named the pause."""
        for pause in pauses:
            for gateway in frozenset(self) - {self._name}:
                work = self._tell(self._other(gateway), pause)
                task = asyncio.get_running_loop().create_task(work, name=f"resume {pause.topic}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _tell(self, other: RemotePauses, pause: Pause) -> None:
        told = False
        while other.gateway in frozenset(self._required()):
            try:
                await other.resume(pause)
            except PeerRefused as exc:
                _log.warning("the end of a pause was refused", topic=pause.topic, reason=str(exc))
                return
            except NetError as exc:
                if not told:
                    _log.info("the end of a pause was not heard yet", topic=pause.topic, reason=str(exc))
                told = True
                await asyncio.sleep(_AGAIN_S)
            else:
                return
