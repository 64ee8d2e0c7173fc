"""The fence of one topic promote: writes are held on every gateway, and released again when it is over.

Its holds are this run's own: what ends them ends nobody else's, and nobody else ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import structlog

from gateway.control.promote_gather import PromoteTools
from gateway.domain.ports import Fences
from gateway.domain.promote_memory import PromoteMemory
from gateway.domain.records import MirrorRecord
from gateway.domain.write_holds import Hold, HoldKind
from gateway.net.errors import NetError

_AGAIN_S = 0.01
_log = structlog.get_logger("lockgate.promote")


class PromoteFence:
    """Of one run. Since when writes are held, and who acknowledged it, is in the run's memory."""

    def __init__(self, tools: PromoteTools, link: str, topics: Sequence[str], memory: PromoteMemory) -> None:
        self._tools = tools
        self._publisher = tools.context.publisher
        self._link = link
        self._holds: tuple[Hold, ...] = ()
        self._memory = memory
        self._log = _log.bind(link=link, topics=list(topics))

    def left_s(self) -> float:
        """Seconds until the fence must end; below 0 when it should have."""
        began = self._memory.fenced_at
        return self._tools.limits.fence_timeout_s - (self._tools.clock() - began if began is not None else 0.0)

    async def hold(self, records: Sequence[MirrorRecord]) -> None:
        """Hold the writes here, and ask each gateway that has not acknowledged these epochs, once. Raises nothing."""
        if self._memory.fenced_at is None:
            self._memory.fence_began(self._tools.clock())
            term = self._tools.context.store.term
            self._holds = tuple(Hold(r.mirror_topic, r.fence_epoch, term, HoldKind.PROMOTE) for r in records)
            self._publisher.fence(self._holds)
        asked = [
            self._ask(gateway, fences, record)
            for record in records
            for gateway, fences in self._tools.fences.items()
            if not self._acknowledged(gateway, record)
        ]
        failures = [failure for failure in await asyncio.gather(*asked) if failure]
        if failures:
            self._log.warning("a gateway did not acknowledge the fence", reason=failures[0])
            await self._tools.sleep(_AGAIN_S)

    def release(self, outcome: str) -> float | None:
        """Writes go where the routes say. Returns the seconds they were held for, None if they were not.

        Args:
            outcome: stopped | aborted; see `PromoteTools.on_fence_ended`.
        """
        began = self._memory.fenced_at
        self._publisher.unfence(self._holds)
        self._holds = ()
        self._memory.unfenced()
        if began is None:
            return None
        held_s = self._tools.clock() - began
        self._tools.on_fence_ended(self._link, outcome, held_s)
        return held_s

    def _acknowledged(self, gateway: str, record: MirrorRecord) -> bool:
        ack = self._memory.acks(record.mirror_topic).get(gateway)
        return ack is not None and ack.epoch == record.fence_epoch

    async def _ask(self, gateway: str, fences: Fences, record: MirrorRecord) -> str:
        """Ask one gateway; '' when it acknowledged, else why not."""
        try:
            async with asyncio.timeout(max(0.0, self.left_s())):
                ack = await fences.fence(record.mirror_topic, record.fence_epoch)
        except (TimeoutError, OSError, NetError) as exc:
            return f"{gateway}: {str(exc) or 'no answer in time'}"
        self._memory.acknowledged(replace(ack, gateway=gateway), self._tools.clock())
        return ""
