"""One run of the demo: who takes part, and what the acts leave for the judge."""

from __future__ import annotations

from demo.checker import TopicLog, Window
from demo.clusters import new_cluster
from demo.history import Side
from demo.readback import log_ends
from demo.roster import cast
from demo.settings import Settings
from demo.stage import Stage
from demo.view import View


class Run(Stage):
    """A migration of one topic with its clients.

    Without a gateway (`direct`) one cluster is both source and target.
    """

    def __init__(self, settings: Settings, view: View) -> None:
        super().__init__(settings.folder, view, keep_data=settings.keep_data)
        self.settings = settings
        target = new_cluster("target", settings.target_kafka, settings.folder)
        source = target if settings.direct else new_cluster("source", settings.source_kafka, settings.folder)
        self.cast(cast(settings, self.classes), source, target)
        self.source_log = TopicLog({})
        self.promote: Window | None = None
        self.killed_at_ms: int | None = None

    @property
    def moved_to(self) -> str:
        """`bootstrap.servers` of the clients once moved."""
        return self.gateway.bootstrap if self.gateway is not None else self.target.bootstrap

    def caught_up(self, where: str, timeout_s: float) -> bool:
        """Wait until every group has read to the topic's ends as of now on a cluster; False when the time is up."""
        ends = log_ends(where, self.settings.topic, self.settings.partitions)
        groups = {member.part.group for member in self.fleet.members()}
        return self.within(lambda: all(self.fleet.caught_up(group, ends) for group in groups), timeout_s)

    def covered(self, group: str, side: Side) -> bool:
        """True when the group's members on a side have all partitions among them, or when there are none.

        Without a gateway both sides are one group.
        """
        members = [member for member in self.fleet.members(group) if member.side is side or self.settings.direct]
        assigned = [partition for member in members for partition in member.assigned]
        return not members or sorted(assigned) == list(range(self.settings.partitions))
