"""Several clusters with gateways between them: chains, several sources, several targets, both ways at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gateway.devcluster import DevCluster
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from protocol.batch.header import iter_batches
from tests.support.brokers.logs import Log, assert_equal, log_ends, numbers, read_logs
from tests.support.brokers.raw_fetch import fetch_raw
from tests.support.clients.writer import Writer
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

PARTITIONS = 3
NOT_WRITTEN = '{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"EXCLUDE"}]}'
"""Of `link.client.topic.filters`: clients write no topic of the source."""


class Before:
    """A gateway before one target, with as many links as a test makes."""

    def __init__(self, gateway: GatewayProcess, target: DevCluster) -> None:
        self.gateway, self.target = gateway, target
        self.bootstrap = gateway.bootstrap
        self._links: list[str] = []

    def link(self, name: str, source: str, **configs: str) -> None:
        """To a source, by its address; options take `_` for `.`."""
        self.gateway.create_link(name, source, **configs)
        self._links.append(name)

    def mirror(self, link: str, topic: str, mirror: str = "") -> None:
        """Begin to mirror a topic, and wait until it is level."""
        self.gateway.create_mirror(link, topic)
        self.level(link, mirror or topic)

    def level(self, link: str, topic: str) -> None:
        """Wait until it lacks nothing, and may be read."""

        def is_level() -> bool:
            found = self.describe(link, topic)
            return found["readable"] and all(p["lag"] == 0 and p["phase"] == "copying" for p in found["mirror_lags"])

        wait_until(is_level, 120, what=f"{topic} to be level")

    def describe(self, link: str, topic: str) -> dict[str, Any]:
        """As `mirror describe` has it."""
        return self.gateway.mirror(link, topic)

    def refusal(self, link: str, topic: str, verb: str = "", **body: Any) -> str:
        """Why a mirror is not created, or a verb not carried out."""
        path = f"/v3/links/{link}/mirrors" + (f"/{topic}:{verb}" if verb else "")
        answer = self.gateway.api.post(path, json=body if verb else {"source_topic_name": topic})
        assert answer.status_code in (400, 409), f"{answer.status_code} {answer.text}"
        return answer.text

    def promote(self, link: str, topic: str) -> None:
        """And wait for its end."""
        self.gateway.promote(link, topic)

        def is_stopped() -> bool:
            found = self.describe(link, topic)
            assert not found["promote_error"], found["promote_error"]
            return bool(found["mirror_status"] == "STOPPED")

        wait_until(is_stopped, 90, what=f"{topic} to be STOPPED")

    def forget(self) -> None:
        """Delete the links: no later gateway on this target takes them up."""
        for name in self._links:
            self.gateway.delete_link(name)


@contextmanager
def gateways(folder: Path, **targets: DevCluster) -> Iterator[Mapping[str, Before]]:
    """A gateway before each of these clusters, by the name that it is given."""
    with ExitStack() as stack:
        found = {}
        for name, target in targets.items():
            (folder / name).mkdir()
            gateway = stack.enter_context(running_gateway(folder / name, target.bootstrap, "none"))
            found[name] = Before(gateway, target)
            stack.callback(found[name].forget)
        yield found


def writer(bootstrap: str, topic: str, rate: int = 150) -> Writer:
    """An idempotent librdkafka producer."""
    return Writer(bootstrap, topic, partitions=PARTITIONS, rate=rate)


def same_logs(topics: Mapping[DevCluster, str]) -> list[Log]:
    """Wait until a topic ends alike on all of these clusters, by its name there; then all must hold the same."""
    names = list(topics.items())

    def ends() -> list[list[int]]:
        return [log_ends(cluster.bootstrap, name, PARTITIONS) for cluster, name in names]

    wait_until(lambda: all(each == ends()[0] for each in ends()), 90, what="equal log ends")
    logs = [read_logs(cluster.bootstrap, name, PARTITIONS) for cluster, name in names]
    for log in logs[1:]:
        assert_equal(logs[0], log)
    return logs[0]


def assert_each_is_there(logs: list[Log], *writers: Writer) -> None:
    """Every record of these writers, and no other one, once, where its writer was told, in its writer's order."""
    told = set()
    for one in writers:
        assert not one.failed, next(iter(one.failed.values()))
        assert len(one.acknowledged) == one.sent
        for number, at in one.acknowledged.items():
            record = logs[at.partition][at.offset - logs[at.partition][0].offset]
            assert (record.offset, numbers([record])) == (at.offset, [number])
            told.add(at)
        for partition in range(PARTITIONS):
            offsets = [at.offset for _, at in sorted(one.acknowledged.items()) if at.partition == partition]
            assert offsets == sorted(offsets)
    assert len(told) == sum(one.sent for one in writers) == sum(map(len, logs))


def producer_ids(cluster: DevCluster, topic: str, partition: int = 0) -> list[int]:
    """Of each batch of a partition, in the log's order."""

    async def read() -> bytes:
        client = Cluster(ClusterConfig.from_client_properties({"bootstrap.servers": cluster.bootstrap}))
        try:
            await client.start()
            return await fetch_raw(client, topic, partition)
        finally:
            await client.close()

    return [header.producer_id for header, _ in iter_batches(memoryview(asyncio.run(read())))]
