"""A cluster that is appended to: one appender per broker, each partition at the appender of its leader.

The target is one for all links; the source of a link is another, for topics that are mirrored back to it.
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
    """Args: the cluster, which others start and close, the tasks that appenders connect in, whether to append now, and
    monotonic seconds."""

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
        """Append the partition's batches to its leader, now and after every move of it."""
        self._runners.setdefault(runner.key[0], {})[runner] = None
        self._assign(runner)

    def release(self, runner: PartitionRunner) -> None:
        """Append nothing more of this partition."""
        of_topic = self._runners.get(runner.key[0], {})
        of_topic.pop(runner, None)
        if not of_topic:
            self._runners.pop(runner.key[0], None)
        self._leaderless.pop(runner, None)
        runner.assign(None)

    def pump(self) -> None:
        """Send what the appenders have."""
        for appender in self._appenders.values():
            appender.pump()

    def tick(self) -> None:
        """Once a second: ask for leaders that are not known."""
        for runner in self._leaderless:
            self.cluster.invalidate(runner.key[0])
        self.pump()  # what had to wait until appending was allowed again

    @property
    def throttled_s(self) -> float:
        """For how long its brokers have throttled appends (throttle_time_ms), in all."""
        return sum(appender.throttled_s for appender in self._appenders.values())

    def close(self) -> None:
        """Watch the cluster no longer."""
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
