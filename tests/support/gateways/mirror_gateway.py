"""A gateway with one link between two real clusters, and what tests ask of its mirror topics over and over."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import log_ends
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until


class MirrorGateway:
    """`gateway` runs, and has `link` from `source` to `target`."""

    def __init__(self, gateway: GatewayProcess, link: str, source: DevCluster, target: DevCluster) -> None:
        self.gateway = gateway
        self.link = link
        self.source = source
        self.target = target

    @property
    def path(self) -> str:
        """Where the API has the link's mirrors."""
        return f"/v3/links/{self.link}/mirrors"

    def ask(self, method: str, path: str, *, code: int | None = None, **request: Any) -> Any:
        """The answer's body; `path` below that of the mirrors. `code`: that it must have, else any success."""
        answer = self.gateway.api.request(method, self.path + path, **request)
        assert answer.status_code == code if code else answer.is_success, (answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def create(self, topic: str, **body: Any) -> Any:
        """A mirror, as REST takes it."""
        return self.ask("POST", "", json={"source_topic_name": topic, **body})

    def mirror(self, topic: str) -> dict[str, Any]:
        """What describe shows."""
        return self.gateway.mirror(self.link, topic)

    def exists(self, topic: str) -> bool:
        """The link has this mirror."""
        listed = self.ask("GET", "")["data"]
        return any(mirror["mirror_topic_name"] == topic for mirror in listed)

    def until(self, topic: str, status: str, deadline: float = 60.0) -> dict[str, Any]:
        """Wait until the mirror is in this state."""

        def there() -> dict[str, Any]:
            found = self.mirror(topic)
            return found if found["mirror_status"] == status else {}

        return wait_until(there, deadline, what=f"{topic} to be {status}")

    def level(self, topic: str, partitions: int) -> None:
        """Wait until the copy ends where the source does."""
        wait_until(
            lambda: (
                log_ends(self.target.bootstrap, topic, partitions) == log_ends(self.source.bootstrap, topic, partitions)
            ),
            60.0,
            what=f"{topic} to be level",
        )


@contextmanager
def mirror_gateway(folder: Path, source: DevCluster, target: DevCluster, **link: str) -> Iterator[MirrorGateway]:
    """A gateway with a link, whose options `link` take `_` for `.`."""
    name = f"link-{uuid.uuid4().hex[:8]}"
    with running_gateway(folder, target.bootstrap, name) as gateway:
        gateway.create_link(name, source.bootstrap, **link)
        yield MirrorGateway(gateway, name, source, target)


def produce(bootstrap: str, topic: str, values: range, partition: int = 0) -> None:
    """Each number as a record of its own; all are acknowledged when this returns."""
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for value in values:
        producer.produce(
            topic, str(value).encode(), partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(60) == 0
    assert not any(errors), errors


def topic_config(bootstrap: str, topic: str) -> dict[str, str]:
    """The effective configs of a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return {name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(30).items()}


def set_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    """As an operator does by hand."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def delete_topic(bootstrap: str, topic: str) -> None:
    """As an operator does by hand, and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: not has_topic(bootstrap, topic), 30.0, what=f"the end of {topic}")


def has_topic(bootstrap: str, topic: str) -> bool:
    """The cluster has it."""
    return topic in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics


def delete_records(bootstrap: str, topic: str, before: int, partition: int = 0) -> None:
    """Move the log start, as an operator does by hand."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    place = TopicPartition(topic, partition, before)
    for future in admin.delete_records([place]).values():
        future.result(30)
