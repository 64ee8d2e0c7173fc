"""A gateway between two real clusters, and the judgement over a topic that went from one to the other."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import Log, Record, first_difference, log_ends, read_logs
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

PATIENCE_S = 60.0


@dataclass
class Migration:
    """A gateway before the target with one link. Topics are named as on the source."""

    folder: Path
    source: DevCluster
    target: DevCluster
    link: str
    configs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gateway = GatewayProcess(self.folder, self.target.bootstrap)

    def start(self) -> None:
        """Start the gateway and name the source."""
        self.gateway.start()
        self.gateway.create_link(self.link, self.source.bootstrap, **self.configs)

    def stop(self) -> None:
        """Take it down, so that nothing of it is left on the target."""
        self.gateway.delete_link(self.link)
        self.gateway.close()

    def with_link(self, link: str, **configs: str) -> Migration:
        """The same gateway with another link to the same source. `configs` take `_` for `.`."""
        other = copy(self)
        other.link, other.configs = link, configs
        other.gateway.create_link(link, self.source.bootstrap, **configs)
        return other

    def mirror(self, topic: str) -> None:
        """Begin to mirror a topic."""
        self.gateway.create_mirror(self.link, topic)

    def describe(self, topic: str) -> dict[str, Any]:
        """What `mirror describe` shows."""
        return self.gateway.mirror(self.link, topic)

    def state(self, topic: str) -> str:
        """State of the mirror topic."""
        state: str = self.describe(topic)["mirror_status"]
        return state

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        """What `mirror describe` shows of the partitions."""
        shown: list[dict[str, Any]] = self.describe(topic)["mirror_lags"]
        return shown

    def caught_up(self, topic: str, partitions: int = 1) -> None:
        """Wait until everything the source has now is on the target."""
        ends = log_ends(self.source.bootstrap, topic, partitions)

        def reached() -> bool:
            shown = self.describe(topic)
            assert shown["mirror_status"] != "FAILED", shown["error_message"]
            lags = shown["mirror_lags"]
            return len(lags) == partitions and all(
                one["mirrored_to"] is not None and one["mirrored_to"] >= ends[one["partition"]] for one in lags
            )

        wait_until(reached, PATIENCE_S, what=f"the mirror of {topic} at {ends}")

    def failed(self, topic: str) -> tuple[str, str]:
        """Wait until the mirror FAILED; its error and message."""
        try:
            wait_until(lambda: self.state(topic) == "FAILED", PATIENCE_S)
        except AssertionError:
            raise AssertionError(f"{topic} has not failed: {self.describe(topic)}") from None
        shown = self.describe(topic)
        return shown["mirror_topic_error"], shown["error_message"]

    def promote(self, topic: str) -> None:
        """Promote the topic and wait until it is STOPPED."""
        self.gateway.promote(self.link, topic)
        wait_until(lambda: self.state(topic) == "STOPPED", PATIENCE_S, what=f"{topic} STOPPED")

    def logs(self, topic: str, partitions: int = 1) -> tuple[list[Log], list[Log]]:
        """Source and target, partition by partition."""
        return (
            read_logs(self.source.bootstrap, topic, partitions),
            read_logs(self.target.bootstrap, topic, partitions),
        )

    def assert_same(self, topic: str, partitions: int = 1, *, offsets: bool = True) -> list[Log]:
        """Key, value, headers, timestamp and order of every record are the same, and offsets too; the target's logs.

        Records of a source without timestamps (-1) count as equal, whatever their type is called.
        """
        source, target = self.logs(topic, partitions)
        for partition, (one, other) in enumerate(zip(source, target, strict=True)):
            left, right = [seen(r, offsets) for r in one], [seen(r, offsets) for r in other]
            assert left == right, f"partition {partition}: {first_difference(left, right)}"
        return target


def seen(record: Record, offsets: bool) -> tuple[Any, ...]:
    """What must be the same of a record."""
    kind, moment = record.timestamp
    offset = record.offset if offsets else None
    return offset, record.key, record.value, moment if kind else -1, record.headers
