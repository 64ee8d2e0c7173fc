"""Gives the partitions of a mirror topic their offset maps, and shows which source transaction blocks them.

Implements `OffsetEffects`: questions about the map are tasks that retry until they are answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from gateway.kafka.cluster import Cluster, NetError
from gateway.mirror.offset_map.topic import LinkMaps, MapFormatError
from gateway.mirror.partition.log_start import batch_at
from gateway.mirror.partition.rules.translator import PlannedBreakpoints
from gateway.mirror.partition.runner import PartitionRunner
from gateway.state.records import MirrorError
from gateway.transport.backoff import Backoff
from gateway.transport.tasks import Tasks
from protocol.errors import ProtocolError

_log = logging.getLogger(__name__)

_LOOK_S: Final = 10.0
_OPEN_FOR_S: Final = 2.0
"""A transaction that blocks the mirror for longer is shown."""

Translated = Callable[[PartitionRunner, str], None]


class TopicOffsetMaps:
    """Args.

    maps: the link's.
    source, target: the clusters of the origin and of the copy.
    translated: called, with the reason, for each partition whose offsets are not equal, or no longer are.
    """

    def __init__(self, maps: LinkMaps, source: Cluster, target: Cluster, tasks: Tasks, translated: Translated) -> None:
        self._maps = maps
        self._source = source
        self._target = target
        self._tasks = tasks
        self._translated = translated
        self._held_since: dict[PartitionRunner, tuple[int, float]] = {}  # last stable offset, since when

    # OffsetEffects

    def decide_breakpoints(self, runner: PartitionRunner, log_end: int, run: int, lost: bool) -> None:
        """Read the map to its end, and decide open chunks by the copy's log. With `lost`, cut the map first."""
        self._tasks.spawn(self._decide(runner, log_end, run, lost), "mirror offset map")

    async def _decide(self, runner: PartitionRunner, log_end: int, run: int, lost: bool) -> None:
        translator = runner.mirror.translator
        backoff = Backoff(*self._target.config.retry_backoff_s, self._target.rng)
        while translator is not None and translator.run == run and not runner.mirror.ended:
            try:
                if lost:
                    await self._maps.cut(translator.ledger, log_end)
                    lost = False
                await self._maps.decide(translator.ledger, self._target, *runner.key, log_end)
            except (MapFormatError, ValueError) as exc:
                runner.fail(MirrorError.INTERNAL_ERROR, f"the offset map cannot be read: {exc}")
            except (NetError, ProtocolError, TimeoutError, OSError) as exc:
                _log.warning("offset map for %s-%d: %s", *runner.key, exc)
                runner.map_delayed(f"the offset map cannot be read: {exc}")
                await asyncio.sleep(backoff.next())
            else:
                if runner.mirror.translates:
                    self._translated(runner, translator.reason or "its offset map says so")
                runner.breakpoints_decided(log_end, run)
                return

    def write_breakpoints(self, runner: PartitionRunner, planned: PlannedBreakpoints) -> None:
        """Append breakpoints to the map topic."""

        def done() -> None:
            translator = runner.mirror.translator
            if translator is not None:
                self._translated(runner, f"partition {runner.partition}: {translator.reason}")
            runner.breakpoints_written(planned)

        self._maps.append(planned.changes, done, runner.map_delayed)

    def look_ahead(self, runner: PartitionRunner, offset: int, bound: int) -> None:
        """Read the source's batch at or after `offset`."""
        self._tasks.spawn(self._look_ahead(runner, offset, bound), "mirror look ahead")

    async def _look_ahead(self, runner: PartitionRunner, offset: int, bound: int) -> None:
        try:
            header = await batch_at(self._source, runner.source_topic, runner.partition, offset, timeout_s=_LOOK_S)
        except (NetError, ProtocolError) as exc:  # asked again after the next empty answers
            _log.debug("look ahead of %s-%d: %s", *runner.key, exc)
        else:
            runner.looked_ahead(offset, bound, None if header is None else max(offset, header.base_offset))

    # open transactions

    def keep_read_to(self, runner: PartitionRunner) -> None:
        """Once a second: record how far a source log that ends in gaps was read, as the source may delete the gaps."""
        translator = runner.mirror.translator
        if translator is None or not runner.mirror.copying:
            return
        if (change := translator.read_so_far()) is not None:
            self._maps.append((change,), lambda: None, runner.map_delayed)

    def look_at_transactions(self, runner: PartitionRunner, now: float) -> None:
        """Once a second: show whether an open transaction of the source blocks the mirror, and whose it is."""
        source = runner.mirror.source
        held = runner.mirror.copying and source.stable < source.told_end
        if not held or runner.mirror.source.cursor.position < source.stable:
            self._held_since.pop(runner, None)
            runner.report.waits_for = ""
            return
        stable, since = self._held_since.setdefault(runner, (source.stable, now))
        if stable != source.stable:
            self._held_since[runner] = source.stable, now
            runner.report.waits_for = ""
        elif now - since >= _OPEN_FOR_S and not runner.report.waits_for:
            runner.report.waits_for = f"waiting for a transaction that is open since source offset {stable}"
            self._tasks.spawn(self._name_transaction(runner, stable), "mirror open transaction")

    async def _name_transaction(self, runner: PartitionRunner, stable: int) -> None:
        """The oldest open transaction begins at the last stable offset; its first batch names the producer."""
        try:
            header = await batch_at(self._source, runner.source_topic, runner.partition, stable, timeout_s=_LOOK_S)
        except (NetError, ProtocolError) as exc:
            _log.debug("open transaction of %s-%d: %s", *runner.key, exc)
            return
        if header is not None and runner.report.waits_for and runner.mirror.source.stable == stable:
            since = _when(header.base_timestamp)
            runner.report.waits_for = f"waiting for transaction of producer id {header.producer_id} since {since}"


def _when(timestamp_ms: int) -> str:
    """A timestamp for people. A producer may have written any number."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"timestamp {timestamp_ms}"
