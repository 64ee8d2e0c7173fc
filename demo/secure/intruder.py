"""A client that has a name and no right, and tries everything: what it is told, by a broker and by the gateway."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

WAIT_S: Final = 60.0
DONE: Final = "done"
"""Instead of an error."""

Told = Mapping[str, str]
"""What was tried -> the name of the error."""


def try_everything(bootstrap: str, properties: Mapping[str, str], topic: str, group: str) -> Told:
    """One attempt of each kind, on a topic and a group that are there."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "logger": _silent(), **properties}
    attempts: dict[str, Callable[[], str]] = {
        "write": lambda: _write(settings, topic),
        "write in a transaction": lambda: _transaction(settings, f"{topic}-stolen"),
        "read": lambda: _read(settings, topic, group),
        **_as_administrator(AdminClient(settings), topic, group),
    }
    return {name: attempt() for name, attempt in attempts.items()}


def _silent() -> logging.Logger:
    """librdkafka shows what it calls fatal at any level."""
    logger = logging.getLogger("demo.secure.intruder")
    logger.disabled = True
    return logger


def _as_administrator(admin: Any, topic: str, group: str) -> dict[str, Callable[[], str]]:
    config = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)],
    )
    of_group = ConsumerGroupTopicPartitions(group)
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])
    return {
        "create a topic": lambda: _result(admin.create_topics([NewTopic("stolen", 1, 1)])),
        "create partitions": lambda: _result(admin.create_partitions([NewPartitions(topic, 99)])),
        "delete the topic": lambda: _result(admin.delete_topics([topic])),
        "delete records": lambda: _result(admin.delete_records([TopicPartition(topic, 0, 1)])),
        "alter configs": lambda: _result(admin.incremental_alter_configs([config])),
        "describe configs": lambda: _result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])),
        "describe the group": lambda: _result(admin.describe_consumer_groups([group])),
        "list the group's offsets": lambda: _result(admin.list_consumer_group_offsets([of_group])),
        "alter the group's offsets": lambda: _result(admin.alter_consumer_group_offsets([moved])),
        "delete the group": lambda: _result(admin.delete_consumer_groups([group])),
    }


def _result(futures: Mapping[Any, Future[Any]]) -> str:
    (future,) = futures.values()
    try:
        found = future.result(WAIT_S)
    except KafkaException as error:
        return _name(error.args[0])
    except TimeoutError:
        return "no answer"
    partitions = getattr(found, "topic_partitions", None) or []
    return next((_name(each.error) for each in partitions if each.error is not None), DONE)


def _write(settings: Mapping[str, Any], topic: str) -> str:
    told: list[str] = []
    producer = Producer({**settings, "message.timeout.ms": int(WAIT_S * 1000)})
    producer.produce(topic, value=b"stolen", partition=0, on_delivery=lambda error, _: told.append(_name(error)))
    producer.flush(WAIT_S + 5)
    return told[0] if told else "no answer"


def _transaction(settings: Mapping[str, Any], transactional_id: str) -> str:
    producer = Producer({**settings, "transactional.id": transactional_id})
    try:
        producer.init_transactions(WAIT_S)
    except KafkaException as error:
        return _name(error.args[0])
    return DONE


def _read(settings: Mapping[str, Any], topic: str, group: str) -> str:
    consumer = Consumer({**settings, "group.id": group, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + WAIT_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None:
                return _name(message.error())
    finally:
        consumer.close()
    return "no answer"


def _name(error: KafkaError | None) -> str:
    return DONE if error is None else error.name()
