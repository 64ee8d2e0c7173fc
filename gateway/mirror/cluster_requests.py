"""What is asked of the two clusters for one partition of a mirror topic: its logs' bounds, a new start, DeleteRecords.

Answers come back as the runner's inputs, also when a cluster refused or did not answer.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from gateway.domain.mirror_way import MirrorWay
from gateway.domain.partition_state import Phase
from gateway.net.errors import NetError
from gateway.replication.runner import PartitionRunner
from gateway.replication.start import earliest_start
from gateway.replication.trim import trim
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from gateway.mirror.topic import Surroundings

_log = logging.getLogger(__name__)


class ClusterRequests:
    """The part of `replication.shells.Shell` that a cluster answers. `way` says which one is the origin."""

    way: MirrorWay
    _around: Surroundings

    def read_target_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Ask the target."""
        if delay_s:  # a retry: perhaps the leader has moved
            self._around.target.invalidate(self.way.copy)
        self._around.target_logs.ask(runner.key, delay_s, runner.target_bounds)

    def read_source_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """Ask the source."""
        begins = runner.mirror.phase is Phase.STARTING and runner.cursor.warm_up is None
        key = (self.way.origin, runner.partition)
        self._around.source_logs.ask(key, delay_s, runner.source_bounds, recent=begins)

    def plan_start(self, runner: PartitionRunner) -> None:
        """Find the new start."""
        self._around.tasks.spawn(self._plan_start(runner), "mirror plan start")

    async def _plan_start(self, runner: PartitionRunner) -> None:
        while not runner.mirror.ended:
            try:
                start = await earliest_start(self._around.source, self.way.origin, runner.partition)
            except (NetError, ProtocolError) as exc:
                _log.warning("link %s: where %s-%d starts: %s", self._around.link, *runner.key, exc)
                await asyncio.sleep(1.0)
            else:
                runner.start_planned(start)
                return

    def delete_records(self, runner: PartitionRunner, offset: int, delay_s: float) -> None:
        """Trim the target."""
        self._around.tasks.spawn(trim(self._around.target, runner, offset, delay_s), "mirror delete records")

    def refresh_source(self) -> None:
        """Soon."""
        self._around.source.invalidate(self.way.origin)
