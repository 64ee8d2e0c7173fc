"""The heartbeats of a fleet: ten times a second each gateway tells the others that it lives, and how far its mirrors
are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import structlog

from gateway.fleet.peer_progress import PeerProgress
from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.heartbeats import PeerHeartbeat, Rotation, decode_heartbeat, encode_heartbeat
from gateway.fleet.rules.ownership import HEARTBEAT_S, PeerWatch
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.rules.period import MirrorPartition
from gateway.transport.background import kept_running, together

_MEASURED_EVERY: Final = 10  # heartbeats: what is measured is measured once a second
_ALONE_S: Final = 1.0  # between two looks while there is nobody to send heartbeats to, unless somebody comes
_log = structlog.get_logger("lockgate.fleet")


class HeartbeatContent(Protocol):
    """What a heartbeat says, and whom it concerns: `FleetMirrors`."""

    on_silent: Callable[[frozenset[str]], None]
    held: Callable[[], Mapping[str, str]]
    paused_for_job: Callable[[], Collection[tuple[str, str]]]

    @property
    def leaving(self) -> bool:
        """This gateway is about to stop."""

    @property
    def leader(self) -> str:
        """Of the present assignment."""

    def here(self) -> frozenset[MirrorPartition]:
        """What is mirrored here."""

    def due(self, now: float) -> bool:
        """`decide` is to be called."""

    def decide(self) -> None:
        """Who is silent has changed."""

    def moving(self) -> Collection[MirrorPartition]:
        """Of these, what is measured now: something became of it in the last minute."""

    def own_statuses(
        self, partitions: Iterable[MirrorPartition]
    ) -> Mapping[tuple[str, str], tuple[str, Sequence[PartitionStatus]]]:
        """Of those of these that are mirrored here, with the tag of the mirror that runs."""

    def written_elsewhere(self, place: TopicPartition, base_offset: int, records: int) -> None:
        """Another gateway wrote to a source partition."""


class FleetHeartbeats:
    """Sends and hears them. `silent`: who is suspected; `leaving`: who says that it stops; `paused_for_job`: see
    `PeerHeartbeat`."""

    def __init__(
        self, name: str, peers: Peers, progress: PeerProgress, of: HeartbeatContent, clock: Callable[[], float]
    ) -> None:
        self._name = name
        self._peers = peers
        self._progress = progress
        self._of = of
        self._clock = clock
        self._watch = PeerWatch()
        self._expected: frozenset[str] = frozenset()
        self._forwarded: dict[TopicPartition, tuple[int, int]] = {}
        self._held: dict[str, Mapping[str, str]] = {}
        self._count = 0
        self._rotation = Rotation()
        self._heard_by: tuple[str, frozenset[str]] = "", frozenset()
        self._task: asyncio.Task[None] | None = None
        self._company = asyncio.Event()  # somebody is expected
        self.silent: frozenset[str] = frozenset()
        self.leaving: frozenset[str] = frozenset()
        self.paused_for_job: frozenset[tuple[str, str]] = frozenset()
        peers.on_gone = self._gone

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(
            kept_running(self._run, "fleet heartbeats"), name="fleet heartbeats"
        )

    async def close(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def expect(self, members: Collection[str]) -> None:
        """The members of the fleet, this one among them or not."""
        self._expected = frozenset(members) - {self._name}
        self._watch.expect(self._expected, self._clock())
        (self._company.set if self._expected else self._company.clear)()
        self.leaving &= self._expected
        self._held = {name: held for name, held in self._held.items() if name in self._expected}
        self._look()

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        """Records were written to a partition that another gateway mirrors."""
        if self._expected:
            _, before = self._forwarded.get((topic, partition), (0, 0))
            self._forwarded[topic, partition] = base_offset, before + records

    def blocked(self, gateway: str, topic: str) -> str:
        """What a write pause waits for there."""
        return self._held.get(gateway, {}).get(topic, "")

    # -- hearing -------------------------------------------------------------------------------------------

    def heard(self, gateway: str, said: Mapping[str, Any]) -> None:
        """A heartbeat came."""
        heartbeat = decode_heartbeat(said)
        if heartbeat.regular:
            self._held[gateway] = heartbeat.held
            self._lives(gateway, leaving=heartbeat.leaving)
        self._progress.heard(heartbeat)
        if heartbeat.watch:
            self._progress.watched(gateway, heartbeat.watch)
        for place, written in heartbeat.forwarded.items():
            self._of.written_elsewhere(place, *written)
        if (
            heartbeat.paused_for_job is not None
            and gateway == self._of.leader
            and self.paused_for_job != frozenset(heartbeat.paused_for_job)
        ):
            self.paused_for_job = frozenset(heartbeat.paused_for_job)
            self._of.decide()

    def _lives(self, gateway: str, *, leaving: bool) -> None:
        if not leaving:
            self._watch.heard(gateway, self._clock())
        if leaving != (gateway in self.leaving) and gateway in self._expected:
            self.leaving = self.leaving | {gateway} if leaving else self.leaving - {gateway}
            if leaving:
                self._watch.left(gateway)
                _log.info("a gateway leaves", gateway=gateway)
            self._look()
            self._of.decide()

    def _gone(self, gateway: str) -> None:
        """Its process has ended: no need to wait for silence."""
        self._watch.left(gateway)
        self.leaving -= {gateway}
        self._look()

    def _look(self) -> None:
        """Who is silent now?"""
        silent = self._watch.silent(self._clock())
        if silent == self.silent:
            return
        lost, found = silent - self.silent - self.leaving, self.silent - silent
        self.silent = silent
        if lost:
            _log.warning("gateways fell silent", gateways=sorted(lost))
        if found:
            _log.info("gateways are heard again", gateways=sorted(found))
        self._of.decide()
        self._of.on_silent(silent)

    # -- beating -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                self._look()
                if self._of.due(self._clock()):
                    self._of.decide()
                self.heartbeat()
            except Exception:  # noqa: BLE001 - the heartbeats must go on, or the others take this gateway for dead
                _log.exception("a heartbeat failed")
            if self._expected:
                await asyncio.sleep(HEARTBEAT_S)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(together(_ALONE_S, asyncio.get_running_loop().time())):
                        await self._company.wait()

    def heartbeat(self) -> None:
        """Send one."""
        if not self._expected:
            self._forwarded.clear()
            return
        of, leads = self._of, self._of.leader == self._name
        measured = self._count % _MEASURED_EVERY == 0
        self._count += 1
        self._note_who_hears()
        moving = of.moving() if measured else ()
        told = set(self._rotation.piece(of.here(), regular=measured, at_rest=not moving))
        told.update(moving)
        moved = self._progress.moved() | {(each.topic, each.partition) for each in told}
        forwarded, self._forwarded = self._forwarded, {}
        heartbeat = PeerHeartbeat(
            regular=True,
            leaving=of.leaving,
            at=self._progress.at(moved),
            forwarded=forwarded,
            held=of.held(),
            paused_for_job=list(of.paused_for_job()) if leads else None,
        )
        self._peers.heartbeat(encode_heartbeat(heartbeat))
        if told and not leads:
            self._peers.tell(of.leader, encode_heartbeat(PeerHeartbeat(statuses=of.own_statuses(told))))

    def _note_who_hears(self) -> None:
        """Positions are told to all, measurements to the leader: who is new in either has heard nothing yet."""
        leader, connected = self._heard_by
        self._heard_by = self._of.leader, self._peers.connected()
        if leader != self._of.leader or self._heard_by[1] - connected:
            self._rotation.everything()
