"""Fences over the fleet, at each gateway: what it does with the leader's commands, and with the records it reads.

An acknowledgement means: no write to the topic's source is in flight through this gateway, none begins, and it appends
nothing more to the topic itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from gateway.control.remote_fences import FENCE, HOLD, UNFENCE
from gateway.control.routing_publisher import RoutingPublisher
from gateway.domain.fence_view import FenceView
from gateway.domain.ports import Fences
from gateway.domain.records import MirrorRecord
from gateway.domain.write_holds import Hold
from gateway.net.errors import NetError


class FenceRefused(NetError):
    """The command is too late: its epoch is an older one, or its fence was ended while it was awaited."""


class FenceAnswers:
    """One per gateway, for as long as it runs. `handlers` go into `Peers.handlers`.

    Args:
        local: this gateway's own forwarder.
        quiet: wait until this gateway appends nothing to a topic of `in_force` any more (`FleetMirrors.quiet`).
        changed: called when `in_force` has shrunk (`FleetMirrors.records_changed`).
    """

    def __init__(
        self,
        publisher: RoutingPublisher,
        local: Fences,
        quiet: Callable[[str], Awaitable[None]],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._publisher = publisher
        self._local = local
        self._quiet = quiet
        self._changed = changed
        self._views: dict[str, FenceView] = {}
        self._term = -1
        self.handlers: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]] = {
            FENCE: self._fence,
            HOLD: self._hold,
            UNFENCE: self._unfence,
        }

    def records(self, records: Iterable[MirrorRecord]) -> None:
        """The records as read now; to be called after each change of the state topic, before `FleetMirrors`."""
        found = {record.mirror_topic: record for record in records}
        ended = [topic for topic, view in self._views.items() if topic not in found and view.held]
        for topic in self._views.keys() - found.keys():
            del self._views[topic]
        for topic, record in found.items():
            view = self._views.get(topic)
            if view is None:
                self._views[topic] = FenceView(record.state, record.fence_epoch, term=self._term)
                continue
            was = view.held
            view.record(record.state, record.fence_epoch)
            if was and not view.held:
                ended.append(topic)
        self._end(ended)

    def assigned(self, term: int, fenced: Mapping[str, int]) -> None:
        """An assignment of a term's leader: the fences in force that it names. After `records` up to its offset."""
        self._term = max(self._term, term)
        over: list[str] = []
        for topic, view in self._views.items():
            was = view.held
            view.assigned(term, fenced.get(topic))
            if was and not view.held:
                over.append(topic)
        self._publisher.hold(_hold(topic, view) for topic, view in self._views.items() if view.held and topic in fenced)
        self._end(over)

    def in_force(self) -> Mapping[str, int]:
        """The fences in force here: mirror topic -> epoch."""
        return {topic: view.epoch for topic, view in self._views.items() if view.held}

    def held(self) -> Mapping[str, str]:
        """Mirror topic -> what its fence waits for here; for the beats."""
        found = {topic: self._local.held_up_by(topic) for topic in self.in_force()}
        return {topic: why for topic, why in found.items() if why}

    def _end(self, topics: list[str]) -> None:
        if topics:
            self._publisher.let_go(topics)
            self._changed()

    async def _fence(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        topic, epoch = str(body["topic"]), int(body["epoch"])
        view = self._holds(topic, epoch, self._term_of(body))
        ack = await self._local.fence(topic, epoch)
        await self._quiet(topic)
        _require_in_force(view, topic, epoch)
        return {"epoch": ack.epoch, "unknown_outcomes": ack.unknown_outcomes}

    async def _hold(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        topic, epoch = str(body["topic"]), int(body["epoch"])
        view = self._holds(topic, epoch, self._term_of(body))
        await self._quiet(topic)
        _require_in_force(view, topic, epoch)
        return {}

    def _term_of(self, body: Mapping[str, Any]) -> int:
        return int(body.get("term", self._term))  # a leader of an older version does not say

    def _holds(self, topic: str, epoch: int, term: int) -> FenceView:
        view = self._views.get(topic)
        if view is None:
            raise FenceRefused(f"mirror topic '{topic}' is not known here yet")
        if not view.fence(epoch, term):
            raise FenceRefused(f"the fence of '{topic}' with epoch {epoch} is over here; epoch {view.epoch} is known")
        self._publisher.hold([_hold(topic, view)])
        return view

    async def _unfence(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        topic, epoch = str(body["topic"]), int(body["epoch"])
        view = self._views.get(topic)
        if view is not None and view.unfence(epoch, self._term_of(body)):
            self._end([topic])
        return {}


def _hold(topic: str, view: FenceView) -> Hold:
    return Hold(topic, view.epoch, view.term)


def _require_in_force(view: FenceView, topic: str, epoch: int) -> None:
    if not view.held or view.epoch != epoch:
        raise FenceRefused(f"the fence of '{topic}' with epoch {epoch} was ended before it was acknowledged")
