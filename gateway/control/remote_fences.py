"""Fences over the fleet, at the leader: every gateway that may write is asked to hold, and told when it is over.

The other side is `fence_answers.py`; which commands count is decided by epochs, see `domain/fence_view.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import structlog

from gateway.control.routing_publisher import RoutingPublisher
from gateway.domain.ports import FenceAck, Fences
from gateway.domain.records import MirrorRecord, MirrorState
from gateway.domain.routing_build import written_on_target
from gateway.net.errors import NetError
from gateway.net.peers import PeerRefused

FENCE: Final = "fence"
HOLD: Final = "hold_writes"
UNFENCE: Final = "unfence"
_FENCE_S: Final = 600.0  # whoever fences has a shorter patience
_HOLD_S: Final = 3.0
_UNFENCE_S: Final = 2.0
_AGAIN_S: Final = 0.5
_log = structlog.get_logger("lockgate.fleet")


class AskPeers(Protocol):
    """Of `net.peers.Peers`."""

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """See there."""


def is_in_force(record: MirrorRecord, epoch: int) -> bool:
    """True while a fence with this epoch holds a topic with this record.

    A promote has marked its record PENDING_STOPPED with the epoch before it fences; a failover marks nothing before its
    flip, which has the epoch. Between a flip and the end of the hold the fence is in force no more: an assignment that
    named it would have it begin anew.
    """
    if record.state is MirrorState.PENDING_STOPPED:
        return epoch >= record.fence_epoch
    return epoch > record.fence_epoch and not written_on_target(record)


class RemoteFences:
    """`domain.ports.Fences` of one other gateway.

    Args:
        held_up: what a fence of a topic waits for there, from its beats: (gateway, topic).
        term: of this leader.

    Attributes:
        asked: the fences it was asked for, mirror topic -> epoch; some may not have come to it.
    """

    def __init__(
        self, peers: AskPeers, gateway: str, held_up: Callable[[str, str], str] = lambda _g, _t: "", term: int = -1
    ) -> None:
        self._peers = peers
        self._term = term
        self.gateway = gateway
        self._held_up = held_up
        self.asked: dict[str, int] = {}

    async def fence(self, topic: str, epoch: int) -> FenceAck:
        """Ask it, and wait until it has nothing in flight and mirrors nothing of the topic.

        Raises:
            PeerUnavailable, PeerRefused: not acknowledged; to be asked again.
        """
        self.asked[topic] = epoch
        answer = await self._peers.ask(self.gateway, FENCE, self._said(topic, epoch), _FENCE_S)
        return FenceAck(self.gateway, topic, int(answer["epoch"]), int(answer["unknown_outcomes"]))

    async def hold_writes(self, topic: str, epoch: int) -> None:
        """As `fence`, without waiting for what is in flight to the source; it mirrors nothing of the topic any more."""
        self.asked[topic] = epoch
        await self._peers.ask(self.gateway, HOLD, self._said(topic, epoch), _HOLD_S)

    async def unfence(self, topic: str, epoch: int) -> None:
        """Tell it that nothing came of the fence. Raises as `fence`."""
        await self._peers.ask(self.gateway, UNFENCE, self._said(topic, epoch), _UNFENCE_S)

    def _said(self, topic: str, epoch: int) -> Mapping[str, Any]:
        return {"topic": topic, "epoch": epoch, "term": self._term}

    def held_up_by(self, topic: str) -> str:
        """As it said in its last beat; or that it did not answer yet."""
        held = self._held_up(self.gateway, topic)
        return f"gateway '{self.gateway}': {held}" if held else ""


class FleetFences(Mapping[str, Fences]):
    """Every gateway that has to acknowledge a fence, by name; what `TopicPromoter` and `WaysBack` are given.

    When a fence ends without a flip the others are told so, until they have heard it; a flip they learn from the
    record, and from nothing else: who went by a command could take it for the end of another fence.

    Args:
        name: this gateway's; `local` are its own fences.
        required: all gateways that may write to a source now, this one too (`membership.fence_quorum`).
        record: a mirror topic's record as it is now; None when there is none.
        term: of this leader, as its assignments tell it.
    """

    def __init__(
        self,
        *,
        name: str,
        local: Fences,
        peers: AskPeers,
        required: Callable[[], Iterable[str]],
        publisher: RoutingPublisher,
        record: Callable[[str], MirrorRecord | None],
        held_up: Callable[[str, str], str] = lambda _g, _t: "",
        term: int = -1,
    ) -> None:
        self._name = name
        self._term = term
        self._local = local
        self._peers = peers
        self._required = required
        self._publisher = publisher
        self._record = record
        self._held_up = held_up
        self._remote: dict[str, RemoteFences] = {}
        self._before: dict[str, bool] = {}  # fenced topic -> was it written on the target when the fence began?
        self._tasks: set[asyncio.Task[None]] = set()
        publisher.on_unfence.append(self._unfenced)

    def __getitem__(self, gateway: str) -> Fences:
        if gateway == self._name:
            return self._local
        if gateway not in frozenset(self._required()):
            raise KeyError(gateway)
        if gateway not in self._remote:
            self._remote[gateway] = _Noted(self._peers, gateway, self._held_up, self._term, self._begins)
        return self._remote[gateway]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({self._name, *self._required()}))

    def __len__(self) -> int:
        return len({self._name, *self._required()})

    async def close(self) -> None:
        """The term is over: the next leader goes on from the records."""
        self._publisher.on_unfence.remove(self._unfenced)
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _begins(self, topic: str) -> None:
        record = self._record(topic)
        if record is not None:
            self._before.setdefault(topic, written_on_target(record))

    def _unfenced(self, topics: Iterable[str]) -> None:
        for topic in topics:
            before, record = self._before.pop(topic, None), self._record(topic)
            flipped = record is None or before is None or written_on_target(record) != before
            epochs = [epoch for one in self._remote.values() if (epoch := one.asked.pop(topic, None)) is not None]
            if epochs and not flipped:
                self._tell_all(topic, max(epochs))

    def _tell_all(self, topic: str, epoch: int) -> None:
        """Also who came in the meantime: its assignment has named the fence."""
        for gateway in self:
            fences = self[gateway]
            if isinstance(fences, RemoteFences):
                task = asyncio.get_running_loop().create_task(self._tell(fences, topic, epoch), name=f"unfence {topic}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _tell(self, fences: RemoteFences, topic: str, epoch: int) -> None:
        told = False
        while topic not in fences.asked and fences.gateway in frozenset(self._required()):
            try:
                await fences.unfence(topic, epoch)
            except PeerRefused as exc:
                _log.warning("the end of a fence was refused", topic=topic, reason=str(exc))
                return
            except NetError as exc:
                if not told:
                    _log.info("the end of a fence was not heard yet", topic=topic, reason=str(exc))
                told = True
                await asyncio.sleep(_AGAIN_S)
            else:
                return


class _Noted(RemoteFences):
    """Tells the mapping of each fence that begins."""

    def __init__(
        self,
        peers: AskPeers,
        gateway: str,
        held_up: Callable[[str, str], str],
        term: int,
        begins: Callable[[str], None],
    ) -> None:
        super().__init__(peers, gateway, held_up, term)
        self._begins = begins

    async def fence(self, topic: str, epoch: int) -> FenceAck:
        self._begins(topic)
        return await super().fence(topic, epoch)

    async def hold_writes(self, topic: str, epoch: int) -> None:
        self._begins(topic)
        await super().hold_writes(topic, epoch)
