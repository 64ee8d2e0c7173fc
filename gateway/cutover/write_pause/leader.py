"""Write pauses over the fleet, at the leader: asks every gateway that may write to pause, and later to resume.

The other side is `follower.py`; `cutover/write_pause/rules/write_pause.py` decides which commands count.
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
from gateway.fleet.peers.wire import unknown_question
from gateway.kafka.connection.errors import NetError

PAUSE: Final = "pause"
DRAIN: Final = "drain"
DRAIN_ALL: Final = "drain_all"
CUT: Final = "cut"
RESUME: Final = "resume"
RESUME_ALL: Final = "resume_all"
STALLS: Final = "stalls"
_DRAIN_S: Final = 600.0  # the caller's timeout is shorter
_PAUSE_S: Final = 3.0
_RESUME_S: Final = 2.0
_STALLS_S: Final = 2.0
_AGAIN_S: Final = 0.5
_TOPICS: Final = 5_000  # in one question: some 0.3 MB of the 8 that go to a peer
_log = structlog.get_logger("lockgate.fleet")


class AskPeers(Protocol):
    """The part of `Peers` that is used here."""

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """See `Peers.ask`."""


class RemotePauses:
    """`PausesWrites` of another gateway.

    Args:
        blocked: (gateway, topic) -> what a pause of the topic waits for there, from its heartbeats.
    """

    def __init__(self, peers: AskPeers, gateway: str, blocked: Callable[[str, str], str] = lambda _g, _t: "") -> None:
        self._peers = peers
        self.gateway = gateway
        self._blocked = blocked
        self._asks_singly = False

    async def pause(self, pause: Pause) -> None:
        """Make new writes wait there, and stop its mirror of the topic.

        Raises:
            PeerUnavailable, PeerRefused: not acknowledged; ask again.
        """
        await self._peers.ask(self.gateway, PAUSE, pause._asdict(), _PAUSE_S)

    async def drain(self, pause: Pause) -> PauseAck:
        """Same as `pause`, and wait until no write is in flight there. Raises as `pause`."""
        answer = await self._peers.ask(self.gateway, DRAIN, pause._asdict(), _DRAIN_S)
        unknown, phase = int(answer["unknown_outcomes"]), WritePhase(answer["phase"])
        groups = frozenset(str(group) for group in answer.get("groups", ()))  # an older gateway knows of none
        acked = _pairs(answer.get("acked", ()))  # nor of these
        return PauseAck(self.gateway, pause.topic, int(answer["epoch"]), unknown, phase, groups, acked)

    async def drain_all(self, pauses: Sequence[Pause]) -> Sequence[PauseAck]:
        """Same as `drain`, for a set of topics, in as few requests as possible. Raises as `pause`."""
        if len(pauses) == 1 or self._asks_singly:
            return await asyncio.gather(*map(self.drain, pauses))
        parts = (pauses[at : at + _TOPICS] for at in range(0, len(pauses), _TOPICS))
        try:
            found = await asyncio.gather(*map(self._drain_some, parts))
        except PeerRefused as exc:
            if not str(exc).endswith(unknown_question(DRAIN_ALL)):
                raise
            self._asks_singly = True  # a gateway of an older version
            return await self.drain_all(pauses)
        return [ack for part in found for ack in part]

    async def _drain_some(self, pauses: Sequence[Pause]) -> Sequence[PauseAck]:
        body = {"pauses": [list(each) for each in pauses]}
        answer = await self._peers.ask(self.gateway, DRAIN_ALL, body, _DRAIN_S)
        return decode_acks(self.gateway, answer)

    async def cut(self, pause: Pause) -> None:
        """Same as `pause`, and no answer to a write in flight there reaches a client any more. Raises as `pause`."""
        await self._peers.ask(self.gateway, CUT, pause._asdict(), _PAUSE_S)

    async def resume(self, pauses: Sequence[Pause]) -> None:
        """End these pauses there: their operations were given up. Raises as `pause`."""
        if len(pauses) == 1 or self._asks_singly:
            await asyncio.gather(*(self._peers.ask(self.gateway, RESUME, each._asdict(), _RESUME_S) for each in pauses))
            return
        try:
            for at in range(0, len(pauses), _TOPICS):
                body = {"pauses": [list(each) for each in pauses[at : at + _TOPICS]]}
                await self._peers.ask(self.gateway, RESUME_ALL, body, _RESUME_S)
        except PeerRefused as exc:
            if not str(exc).endswith(unknown_question(RESUME_ALL)):
                raise
            self._asks_singly = True  # a gateway of an older version
            await self.resume(pauses)

    async def stalls(self, pause: Pause) -> Sequence[Stall]:
        """See `PausesWrites`. Raises as `pause`."""
        answer = await self._peers.ask(self.gateway, STALLS, pause._asdict(), _STALLS_S)
        return [Stall(str(who), str(where), float(seconds)) for who, where, seconds in answer["stalls"]]

    def blocked_by(self, topic: str) -> str:
        """What the pause waits for there, by the gateway's last heartbeat; '' when it said nothing."""
        held = self._blocked(self.gateway, topic)
        return f"gateway '{self.gateway}': {held}" if held else ""


def encode_acks(acks: Sequence[PauseAck]) -> dict[str, Any]:
    """Acknowledgements of a set as JSON. Each set of groups, which the topics share, is named once.

    Newer fields have keys of their own, which a gateway of an older version ignores.
    """
    groups = list(dict.fromkeys(ack.groups for ack in acks))
    numbers = {each: number for number, each in enumerate(groups)}
    return {
        "groups": [sorted(each) for each in groups],
        "acks": [[a.topic, a.epoch, a.unknown_outcomes, a.phase.value, numbers[a.groups]] for a in acks],
        "acked": {a.topic: a.acked for a in acks if a.acked},
    }


def decode_acks(gateway: str, answer: Mapping[str, Any]) -> list[PauseAck]:
    """A gateway's acknowledgements. Raises KeyError, IndexError, TypeError or ValueError for a malformed answer."""
    groups = [frozenset(map(str, each)) for each in answer["groups"]]
    acked = {str(topic): _pairs(pairs) for topic, pairs in answer.get("acked", {}).items()}
    return [
        PauseAck(gateway, str(topic), int(epoch), int(unknown), WritePhase(phase), groups[number], acked.get(topic, ()))
        for topic, epoch, unknown, phase, number in answer["acks"]
    ]


def _pairs(found: Iterable[Sequence[Any]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(partition), int(end)) for partition, end in found)


class FleetPauses(Mapping[str, PausesWrites]):
    """Every gateway that must acknowledge a pause, by name; used by `TopicPromoter` and `Failbacks`.

    When the leader resumes a topic, it tells the other gateways until they have heard it. After a cutover it resumes
    nothing: the record has ended its own pause, and ends the others' when they read it.

    Args:
        name: this gateway's; `local` is this gateway itself.
        required: all gateways that may write to a source now, including this one (`membership.must_acknowledge`).
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
        """The term is over: the next leader continues from the records."""
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
        """Tell all other gateways, also those that joined meanwhile: their assignment has named the pause."""
        for gateway in frozenset(self) - {self._name} if pauses else ():
            work = self._tell(self._other(gateway), pauses)
            task = asyncio.get_running_loop().create_task(work, name=f"resume {pauses[0].topic} at {gateway}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell(self, other: RemotePauses, pauses: Sequence[Pause]) -> None:
        told, which = False, {"topic": pauses[0].topic, "topics": len(pauses)}
        while other.gateway in frozenset(self._required()):
            try:
                await other.resume(pauses)
            except PeerRefused as exc:
                _log.warning("the end of a pause was refused", **which, reason=str(exc))
                return
            except NetError as exc:
                if not told:
                    _log.info("the end of a pause was not heard yet", **which, reason=str(exc))
                told = True
                await asyncio.sleep(_AGAIN_S)
            else:
                return
