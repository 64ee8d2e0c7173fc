"""A cluster that receives copies: one appender per broker, each partition at the appender of its leader.

All links share the target as one destination. A link's source is a destination of its own, for topics mirrored back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.kafka.cluster import Cluster, ClusterView
from gateway.kafka.view import changed_topics
from gateway.mirror.partition.appender import Appender
from gateway.mirror.partition.runner import PartitionRunner
from gateway.transport.tasks import Tasks


class Destination:
    """Args: the cluster, which its owner starts and closes; the tasks in which appenders connect; whether appending is
    allowed now; monotonic seconds."""

    def __init__(
        self,
        cluster: Cluster,
        tasks: Tasks,
        may_append: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cluster = cluster
        self._clock = clock
        self.may_append = may_append
        self._tasks = tasks
        self._runners: dict[str, dict[PartitionRunner, None]] = {}  # by topic
        self._view = cluster.view
        self._leaderless: dict[PartitionRunner, None] = {}
        self._appenders: dict[int, Appender] = {}
        cluster.on_view.append(self._view_changed)

    def assign(self, runner: PartitionRunner) -> None:
        """Append the partition's batches to its leader, and follow the leader when it moves."""
        self._runners.setdefault(runner.key[0], {})[runner] = None
        self._assign(runner)

    def release(self, runner: PartitionRunner) -> None:
        """Stop appending batches of this partition."""
        of_topic = self._runners.get(runner.key[0], {})
        of_topic.pop(runner, None)
        if not of_topic:
            self._runners.pop(runner.key[0], None)
        self._leaderless.pop(runner, None)
        runner.assign(None)

    def pump(self) -> None:
        """Have every appender send what it can."""
        for appender in self._appenders.values():
            appender.pump()

    def tick(self) -> None:
        """Once a second: look for unknown leaders, and send batches that waited until appending was allowed again."""
        for runner in self._leaderless:
            self.cluster.invalidate(runner.key[0])
        self.pump()

    @property
    def throttled_s(self) -> float:
        """How long the brokers have throttled appends (throttle_time_ms), in total, in seconds."""
        return sum(appender.throttled_s for appender in self._appenders.values())

    def close(self) -> None:
        """Stop watching the cluster."""
        self.cluster.on_view.remove(self._view_changed)

    def _view_changed(self, view: ClusterView) -> None:
        before, self._view = self._view, view
        for topic in changed_topics(before, view, self._runners):
            for runner in self._runners[topic]:
                self._assign(runner)
        self.pump()

    def _assign(self, runner: PartitionRunner) -> None:
        if runner.mirror.ended:
            return
        leader = self.cluster.leader(*runner.key)
        if leader is None:
            self._leaderless[runner] = None
            runner.assign(None)
            return
        self._leaderless.pop(runner, None)
        appender = self._appenders.get(leader)
        if appender is None:
            appender = self._appenders[leader] = Appender(
                self.cluster, leader, self._tasks, self.may_append, self._clock
            )
        runner.assign(appender)
