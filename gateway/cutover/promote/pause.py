"""The write pause of one topic promote: begins it on every gateway, and ends it when the promote is over.

The pauses belong to this run: ending them ends no other operation's pause, and no other operation ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog

from gateway.cutover.promote.gather import PromoteTools
from gateway.cutover.promote.rules.memory import PromoteMemory
from gateway.cutover.write_pause.interface import PausesWrites
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.kafka.connection.errors import NetError
from gateway.state.records import MirrorRecord

DECIDE: Final = "decide"
"""The name for the time between two steps."""
_AGAIN_S = 0.01
_log = structlog.get_logger("lockgate.promote")


class PromotePause:
    """The pause of one run. The run's memory has when it began, and which gateways acknowledged it."""

    def __init__(self, tools: PromoteTools, link: str, topics: Sequence[str], memory: PromoteMemory) -> None:
        self._tools = tools
        self._publisher = tools.publisher
        self._link = link
        self._topics = tuple(topics)
        self._pauses: tuple[Pause, ...] = ()
        self._memory = memory
        self._told: set[str] = set()
        self._steps: dict[str, float] = {}
        self._step, self._step_since = "", 0.0
        self._log = _log.bind(link=link, topics=list(topics))

    @property
    def in_force(self) -> Sequence[Pause]:
        """The pauses of this run; empty before and afterwards."""
        return self._pauses

    def left_s(self) -> float:
        """Seconds until the pause must end; below 0 when it should have."""
        began = self._memory.paused_at
        return self._tools.limits.pause_timeout_s - (self._tools.clock() - began if began is not None else 0.0)

    def enter(self, step: str) -> None:
        """Begin a step. Under the pause the time of each step is counted, for the log and the metric."""
        now = self._tools.clock()
        began = self._memory.paused_at
        if began is not None and self._step:
            spent_s = now - max(began, self._step_since)
            self._steps[self._step] = self._steps.get(self._step, 0.0) + spent_s
        self._step, self._step_since = step, now

    async def pause(self, records: Sequence[MirrorRecord]) -> None:
        """Pause the writes here, and ask each gateway once that has not acknowledged these epochs. A gateway that is
        unreachable or late is logged, not raised."""
        if self._memory.paused_at is None:
            self._memory.pause_began(self._tools.clock())
            self._pauses = tuple(self._pause_of(record, record.cutover.pause_epoch) for record in records)
            self._publisher.pause(self._pauses)  # all topics at once here; this gateway is asked like the others below
        asked = [
            self._ask(gateway, asked, left)
            for gateway, asked in self._tools.pauses.items()
            if (left := [pause for pause in self._pauses if not self._acknowledged(gateway, pause)])
        ]
        failures = [failure for failure in await asyncio.gather(*asked) if failure]
        if failures:
            self._tell(failures)
            await self._tools.sleep(_AGAIN_S)

    def release(self, outcome: str) -> float | None:
        """End the pause: writes go where the routes say. Returns how many seconds they were paused; None: not at all.

        Args:
            outcome: stopped | aborted | rehearsed; see `PromoteTools.on_pause_ended`.
        """
        began = self._memory.paused_at
        self.enter(self._step)
        self._publisher.resume(self._pauses)
        self._pauses = ()
        self._memory.resumed()
        if began is None:
            return None
        paused_s, steps, self._steps = self._tools.clock() - began, self._steps, {}
        self._tools.on_pause_ended(self._link, self._topics, outcome, paused_s, steps)
        self._log.info(
            "the write pause is over",
            outcome=outcome,
            paused_ms=round(paused_s * 1000, 1),
            steps_ms={step: round(spent_s * 1000, 1) for step, spent_s in steps.items()},
        )
        return paused_s

    def _pause_of(self, record: MirrorRecord, epoch: int) -> Pause:
        return Pause(record.mirror_topic, epoch, self._tools.records.store.term)

    def _acknowledged(self, gateway: str, pause: Pause) -> bool:
        ack = self._memory.acks(pause.topic).get(gateway)
        return ack is not None and ack.epoch == pause.epoch

    def _tell(self, failures: Sequence[str]) -> None:
        """Log each reason once: a gateway that is gone is asked again every few milliseconds."""
        for failure in dict.fromkeys(failures):
            if failure not in self._told:
                self._told.add(failure)
                self._log.warning("a gateway did not acknowledge the pause", reason=failure)

    async def _ask(self, gateway: str, asked: PausesWrites, pauses: Sequence[Pause]) -> str:
        """Ask one gateway to pause the whole set; '' when it acknowledged, else why not."""
        try:
            async with asyncio.timeout(max(0.0, self.left_s())):
                acks = await asked.drain_all(pauses)
        except (TimeoutError, OSError, NetError) as exc:
            return f"{gateway}: {str(exc) or 'no answer in time'}"
        now = self._tools.clock()
        for ack in acks:
            self._memory.acknowledged(replace(ack, gateway=gateway), now)
        return ""
