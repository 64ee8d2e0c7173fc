"""Write pauses at each gateway: how it executes the commands of the leader, which may be this gateway.

An acknowledgement means: no write to the topic is in flight through this gateway, none begins, and unless it leads, its
own mirror appends nothing more to the topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from gateway.cutover.write_pause.interface import InFlight, PauseAck, Stall
from gateway.cutover.write_pause.leader import (
    CUT,
    DRAIN,
    DRAIN_ALL,
    PAUSE,
    RESUME,
    RESUME_ALL,
    STALLS,
    encode_acks,
)
from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.write_pause import Pause, WritePause
from gateway.kafka.connection.errors import NetError


class PauseRefused(NetError):
    """The command came too late: its operation is over, or ended before the command was done."""


class PauseAnswers:
    """One per gateway, for as long as it runs: `PausesWrites`. `handlers` go into `Peers.handlers`.

    Args:
        name: this gateway's.
        in_flight: the writes of this gateway's clients.
        quiet: waits until this gateway's mirror appends nothing to paused topics (`FleetMirrors.quiet`).
        changed: called when a command has ended a pause (`FleetMirrors.records_changed`).
    """

    def __init__(
        self,
        name: str,
        publisher: RoutingPublisher,
        in_flight: InFlight,
        quiet: Callable[[Collection[str]], Awaitable[None]],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._publisher = publisher
        self._in_flight = in_flight
        self._quiet = quiet
        self._changed = changed
        self.handlers: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]] = {
            PAUSE: self._asked_to_pause,
            DRAIN: self._asked_to_drain,
            DRAIN_ALL: self._asked_to_drain_all,
            CUT: self._asked_to_cut,
            RESUME: self._asked_to_resume,
            RESUME_ALL: self._asked_to_resume_all,
            STALLS: self._asked_for_stalls,
        }

    def in_force(self) -> Mapping[str, int]:
        """The pauses in force here: mirror topic -> epoch."""
        return self._publisher.pauses.in_force()

    def held(self) -> Mapping[str, str]:
        """Mirror topic -> what its pause waits for here. Sent in heartbeats."""
        found = {topic: self.blocked_by(topic) for topic in self.in_force()}
        return {topic: why for topic, why in found.items() if why}

    # -- the leader's commands -------------------------------------------------------------------------------------

    async def pause(self, pause: Pause) -> None:
        """See `PausesWrites`. Raises PauseRefused."""
        (topic,) = self._begin([pause])
        await self._quiet([pause.topic])
        _require_in_force(topic, pause)

    async def drain(self, pause: Pause) -> PauseAck:
        """See `PausesWrites`. Raises PauseRefused."""
        (ack,) = await self.drain_all([pause])
        return ack

    async def drain_all(self, pauses: Sequence[Pause]) -> Sequence[PauseAck]:
        """See `PausesWrites`. Raises PauseRefused."""
        begun = self._begin(pauses)
        names = [pause.topic for pause in pauses]
        unknown = await self._in_flight.drain_all(names)
        await self._quiet(names)
        for topic, pause in zip(begun, pauses, strict=True):
            _require_in_force(topic, pause)
        return [
            PauseAck(
                self._name,
                pause.topic,
                pause.epoch,
                unknown[pause.topic],
                topic.phase,
                self._publisher.groups_of(pause),
                () if topic.recorded.on_target else self._in_flight.acked(pause.topic),
            )
            for topic, pause in zip(begun, pauses, strict=True)
        ]

    async def cut(self, pause: Pause) -> None:
        """See `interface.PausesWrites`. Raises PauseRefused."""
        self._begin([pause])
        self._in_flight.cut(pause.topic)

    async def stalls(self, pause: Pause) -> Sequence[Stall]:
        """See `PausesWrites`."""
        return self._in_flight.stalls(pause.topic, pause.epoch)

    def blocked_by(self, topic: str) -> str:
        """See `PausesWrites`."""
        return self._in_flight.blocked_by(topic)

    def _begin(self, pauses: Sequence[Pause]) -> list[WritePause]:
        """Begin all these pauses in one snapshot."""
        begun = self._publisher.pause(pauses)
        topics = []
        for pause in pauses:
            topic = self._publisher.pauses.get(pause.topic)
            if topic is None:
                raise PauseRefused(f"mirror topic '{pause.topic}' is not known here yet")
            if not begun and not topic.is_in_force(pause.epoch, pause.term):
                raise PauseRefused(
                    f"the pause of '{pause.topic}' with epoch {pause.epoch} of term {pause.term} is over here; "
                    f"epoch {topic.newest[1]} of term {topic.term} is known"
                )
            topics.append(topic)
        return topics

    # -- over the channel ------------------------------------------------------------------------------------------

    async def _asked_to_pause(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        await self.pause(_pause_of(body))
        return {}

    async def _asked_to_drain(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        ack = await self.drain(_pause_of(body))
        found = {"epoch": ack.epoch, "unknown_outcomes": ack.unknown_outcomes, "phase": ack.phase.value}
        groups = {"groups": sorted(ack.groups)} if ack.groups else {}
        return {**found, **groups, **({"acked": ack.acked} if ack.acked else {})}

    async def _asked_to_drain_all(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return encode_acks(await self.drain_all(_pauses_of(body)))

    async def _asked_to_cut(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        await self.cut(_pause_of(body))
        return {}

    async def _asked_to_resume(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self._publisher.resume([_pause_of(body)])
        self._changed()
        return {}

    async def _asked_to_resume_all(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self._publisher.resume(_pauses_of(body))
        self._changed()
        return {}

    async def _asked_for_stalls(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"stalls": [list(each) for each in await self.stalls(_pause_of(body))]}


def _pause_of(body: Mapping[str, Any]) -> Pause:
    return Pause(str(body["topic"]), int(body["epoch"]), int(body["term"]))


def _pauses_of(body: Mapping[str, Any]) -> list[Pause]:
    return [Pause(str(topic), int(epoch), int(term)) for topic, epoch, term in body["pauses"]]


def _require_in_force(topic: WritePause, pause: Pause) -> None:
    if not topic.is_in_force(pause.epoch, pause.term):
        raise PauseRefused(
            f"the pause of '{pause.topic}' with epoch {pause.epoch} was ended before it was acknowledged"
        )
