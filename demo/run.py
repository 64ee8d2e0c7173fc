"""One run of the demo: who takes part, and what the acts leave for the judge."""

from __future__ import annotations

from demo.access import IN_CLEAR, Access
from demo.checker import TopicLog, Window
from demo.clusters import new_cluster
from demo.history import Side
from demo.lockgate import Lockgate
from demo.readback import log_ends, read_topic
from demo.roster import cast
from demo.settings import READ_BACK_S, Settings
from demo.stage import Stage
from demo.view import View
from gateway.devcluster import DevCluster


class Run(Stage):
    """A migration of one topic with its clients.

    Without a gateway (`direct`) one cluster is both source and target.
    """

    def __init__(self, settings: Settings, view: View) -> None:
        super().__init__(settings.folder, view, keep_data=settings.keep_data)
        self.settings = settings
        self.access: Access = IN_CLEAR
        target = self.describe_cluster("target", settings.target_kafka)
        source = target if settings.direct else self.describe_cluster("source", settings.source_kafka)
        self.cast(cast(settings, self.classes), source, target)
        self.source_log = TopicLog({})
        self.promote: Window | None = None
        self.killed_at_ms: int | None = None

    def describe_cluster(self, name: str, kafka: str) -> DevCluster:
        """A cluster that is yet to be started."""
        return new_cluster(name, kafka, self.settings.folder)

    def clusters_are_up(self) -> None:
        """Before anybody uses them."""

    def describe_gateway(self) -> Lockgate:
        """The gateway, yet to be started."""
        return Lockgate(self.target.bootstrap, self.logs)

    def link_options(self) -> tuple[str, ...]:
        """Of `lockgate link create`: how the source is reached."""
        return "--bootstrap", self.source.bootstrap

    def read(self, bootstrap: str) -> TopicLog:
        """The topic as it is now on a cluster."""
        settings = self.settings
        return self.in_background(
            lambda: read_topic(bootstrap, settings.topic, settings.partitions, READ_BACK_S, access=self.access),
            f"the log of {settings.topic}",
            READ_BACK_S + 5,
        )

    @property
    def moved_to(self) -> str:
        """`bootstrap.servers` of the clients once moved."""
        return self.gateway.bootstrap if self.gateway is not None else self.target.bootstrap

    def caught_up(self, where: str, timeout_s: float) -> bool:
        """Wait until every group has read to the topic's ends as of now on a cluster; False when the time is up."""
        ends = log_ends(where, self.settings.topic, self.settings.partitions, self.access)
        groups = {member.part.group for member in self.fleet.members()}
        return self.within(lambda: all(self.fleet.caught_up(group, ends) for group in groups), timeout_s)

    def covered(self, group: str, side: Side) -> bool:
        """True when the group's members on a side have all partitions among them, or when there are none.

        Without a gateway both sides are one group.
        """
        members = [member for member in self.fleet.members(group) if member.side is side or self.settings.direct]
        assigned = [partition for member in members for partition in member.assigned]
        return not members or sorted(assigned) == list(range(self.settings.partitions))
