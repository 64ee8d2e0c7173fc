"""The part of `replication.shells.Shell` that asks both clusters for their logs, for one partition of a job."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.domain.records import MirrorError, PartitionStart
from gateway.jobs.source.clusters import Clusters
from gateway.net.cluster import NetError
from gateway.replication.log_reader import LogBounds
from gateway.replication.runner import PartitionRunner
from gateway.replication.start import earliest_start
from gateway.replication.trim import trim
from protocol.errors import ProtocolError

_NO_END: Final = 2**63 - 1


class LogShell:
    """Args: `first`: base offset of the first batch to come, for when there is no source to ask."""

    def __init__(self, clusters: Clusters, first: int) -> None:
        self._clusters = clusters
        self._first = first

    def read_target_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Ask the target."""
        if delay_s:  # a retry: perhaps the leader has moved
            self._clusters.target.invalidate(runner.key[0])
        self._clusters.target_logs.ask(runner.key, delay_s, runner.target_bounds)

    def read_source_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Ask the source; without one, the source is what will come."""
        if self._clusters.source_logs is None:
            bounds = LogBounds(self._first, _NO_END, None)
            asyncio.get_running_loop().call_soon(runner.source_bounds, bounds)
        else:
            self._clusters.source_logs.ask((runner.source_topic, runner.partition), delay_s, runner.source_bounds)

    def plan_start(self, runner: PartitionRunner) -> None:
        """The source lost its first records before any was copied: find its new start."""
        self._clusters.tasks.spawn(self._plan_start(runner), "plan start")

    async def _plan_start(self, runner: PartitionRunner) -> None:
        source = self._clusters.source
        if source is None:
            runner.start_planned(PartitionStart(self._first, self._first))
            return
        try:
            runner.start_planned(await earliest_start(source, runner.source_topic, runner.partition))
        except (NetError, ProtocolError) as exc:
            runner.fail(MirrorError.INTERNAL_ERROR, f"where the source starts: {exc}")

    def delete_records(self, runner: PartitionRunner, offset: int, delay_s: float) -> None:
        """Trim the target."""
        self._clusters.tasks.spawn(trim(self._clusters.target, runner, offset, delay_s), "delete records")

    def refresh_source(self) -> None:
        """Rows cannot be had again: what is wrong with one shows in `append`."""
