"""Fences over the fleet: the leader asks a gateway to hold writes (`RemoteFences`), which does so (`FenceAnswers`).

Epochs decide, see `domain/fence_view.py`: what an older leader commands late has no effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from gateway.control.routing_publisher import RoutingPublisher
from gateway.domain.fence_view import FenceView
from gateway.domain.ports import FenceAck, Fences
from gateway.domain.records import MirrorRecord, MirrorState
from gateway.net.errors import NetError

FENCE = "fence"
UNFENCE = "unfence"
_ASK_S = 60.0  # whoever fences has a shorter patience


class AskPeers(Protocol):
    """Of `net.peers.Peers`."""

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """See there."""


class FenceRefused(NetError):
    """The command is too late: its epoch is an older one, or its fence was ended while it was awaited."""


class RemoteFences:
    """`domain.ports.Fences` of one other gateway.

    Args:
        held_up: what a fence of a topic waits for there, from its beats.
    """

    def __init__(self, peers: AskPeers, gateway: str, held_up: Callable[[str, str], str] = lambda _g, _t: "") -> None:
        self._peers = peers
        self._gateway = gateway
        self._held_up = held_up

    async def fence(self, topic: str, epoch: int) -> FenceAck:
        """Ask it, and wait until it has nothing in flight.

        Raises:
            PeerUnavailable, PeerRefused: not acknowledged; to be asked again.
        """
        answer = await self._peers.ask(self._gateway, FENCE, {"topic": topic, "epoch": epoch}, _ASK_S)
        return FenceAck(self._gateway, topic, int(answer["epoch"]), int(answer["unknown_outcomes"]))

    async def unfence(self, topic: str, epoch: int) -> None:
        """Tell it that the promote was given up; its record will say so too, perhaps late. Raises as `fence`."""
        await self._peers.ask(self._gateway, UNFENCE, {"topic": topic, "epoch": epoch}, _ASK_S)

    def held_up_by(self, topic: str) -> str:
        """As it said in its last beat."""
        held = self._held_up(self._gateway, topic)
        return f"gateway '{self._gateway}': {held}" if held else ""


class FenceAnswers:
    """The other side: what this gateway does with the leader's commands. `handlers` go into `Peers.handlers`.

    Args:
        local: this gateway's own forwarder.
        quiet: wait until this gateway appends nothing to a topic any more.
    """

    def __init__(
        self,
        publisher: RoutingPublisher,
        local: Fences,
        quiet: Callable[[str], Awaitable[None]],
    ) -> None:
        self._publisher = publisher
        self._local = local
        self._quiet = quiet
        self._views: dict[str, FenceView] = {}
        self.handlers: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]] = {
            FENCE: self._fence,
            UNFENCE: self._unfence,
        }

    def records(self, records: Iterable[MirrorRecord]) -> None:
        """The records as read now; to be called after each change of the state topic, before routes are built."""
        found = {record.mirror_topic: record for record in records}
        for topic in self._views.keys() - found.keys():
            del self._views[topic]
            self._publisher.unfence([topic])
        for topic, record in found.items():
            view = self._views.get(topic)
            if view is None:
                self._views[topic] = FenceView(record.state, record.fence_epoch)
                continue
            was = view.held
            view.record(record.state, record.fence_epoch)
            if was and not view.held:
                self._publisher.unfence([topic])

    def assigned(self, fenced: Mapping[str, int]) -> None:
        """The fences in force that an assignment names: mirror topic -> epoch. After `records`."""
        held = [topic for topic, epoch in fenced.items() if topic in self._views and self._views[topic].fence(epoch)]
        if held:
            self._publisher.fence(held)

    def in_force(self) -> Mapping[str, int]:
        """The fences in force here: mirror topic -> epoch; what a leader names in its assignment."""
        return {topic: view.epoch for topic, view in self._views.items() if view.held}

    async def _fence(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        topic, epoch = str(body["topic"]), int(body["epoch"])
        view = self._views.setdefault(topic, FenceView(MirrorState.ACTIVE, epoch - 1))
        if not view.fence(epoch):
            raise FenceRefused(f"the fence of '{topic}' with epoch {epoch} is over here; epoch {view.epoch} is known")
        self._publisher.fence([topic])
        ack = await self._local.fence(topic, epoch)
        await self._quiet(topic)
        if not view.held or view.epoch != epoch:
            raise FenceRefused(f"the fence of '{topic}' with epoch {epoch} was ended before it was acknowledged")
        return {"epoch": ack.epoch, "unknown_outcomes": ack.unknown_outcomes}

    async def _unfence(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        topic, epoch = str(body["topic"]), int(body["epoch"])
        view = self._views.get(topic)
        if view is not None and view.unfence(epoch):
            self._publisher.unfence([topic])
        return {}
