"""Consumer groups without members: their committed offsets, written and read by an admin client."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from demo.errors import DemoError

Offsets = dict[str, dict[int, int]]
"""By group and partition."""

TIMEOUT_S = 120.0


def draw(names: Iterable[str], ends: Mapping[int, int], seed: int) -> Offsets:
    """Where each group stands: anywhere in each log, its two ends now and then."""
    rng = random.Random(seed)
    return {
        name: {index: rng.choice((0, end, *(rng.randint(0, end) for _ in range(6)))) for index, end in ends.items()}
        for name in names
    }


def commit(bootstrap: str, topic: str, offsets: Offsets) -> None:
    """Commit for all groups. Raises DemoError when the cluster refuses."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    deadline = time.monotonic() + TIMEOUT_S
    for group, of_group in offsets.items():
        partitions = [TopicPartition(topic, index, offset) for index, offset in of_group.items()]
        while error := _try(admin, ConsumerGroupTopicPartitions(group, partitions)):
            if time.monotonic() > deadline:  # a coordinator that was made just now is not ready at once
                raise DemoError(f"{group} could not commit on {bootstrap}: {error}")
            time.sleep(0.2)


def _try(admin: AdminClient, request: ConsumerGroupTopicPartitions) -> str:
    """Why not; "" when it was committed."""
    try:
        for done in admin.alter_consumer_group_offsets([request], request_timeout=TIMEOUT_S).values():
            found = done.result(TIMEOUT_S).topic_partitions or ()
            return next((str(one.error) for one in found if one.error), "")
    except KafkaException as error:
        return str(error)
    return "no answer"


def committed(bootstrap: str, topic: str, groups: Iterable[str]) -> Offsets:
    """What the groups have committed for a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    found: Offsets = {}
    for group in groups:
        request = ConsumerGroupTopicPartitions(group)
        for done in admin.list_consumer_group_offsets([request], request_timeout=TIMEOUT_S).values():
            partitions = done.result(TIMEOUT_S).topic_partitions or ()
            found[group] = {one.partition: one.offset for one in partitions if one.topic == topic and one.offset >= 0}
    return found
