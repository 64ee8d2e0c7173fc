"""What Kafka Streams says in the assignments of its members, where its groups are of the classic protocol.

The user data of an assignment (`AssignmentInfo`, versions 1 to 12) begins with its version, from 3 on with the latest
version that the leader knows, and then names the member's active tasks: subtopology and partition of each. From
version 10 on (KIP-809) each task is followed by the name of its topology. Active tasks stand in the order of the
assigned partitions, sorted by topic and partition: so they tell which subtopology reads which topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from protocol.consumer_protocol import Assignment
from protocol.errors import MalformedFrame
from protocol.wire import INT32, Buffer, parser

_WITH_LATEST: Final = 3
_WITH_TOPOLOGY: Final = 10
_NEWEST: Final = 12


class Task(NamedTuple):
    """A task: one partition of a subtopology."""

    subtopology: int
    partition: int


@parser
def active_tasks(user_data: Buffer) -> tuple[Task, ...]:
    """The active tasks of an assignment, in its order.

    Raises:
        MalformedFrame: not such bytes, or of a version that is not known.
    """
    (version,) = INT32.unpack_from(user_data, 0)
    if not 1 <= version <= _NEWEST:
        raise MalformedFrame(f"AssignmentInfo of version {version}")
    at = 8 if version >= _WITH_LATEST else 4
    (count,) = INT32.unpack_from(user_data, at)
    if not 0 <= count <= len(user_data) // 8:
        raise MalformedFrame(f"{count} active tasks in {len(user_data)} bytes")
    at += 4
    tasks = []
    for _ in range(count):
        (subtopology,), (partition,) = INT32.unpack_from(user_data, at), INT32.unpack_from(user_data, at + 4)
        tasks.append(Task(subtopology, partition))
        at += 8
        if version >= _WITH_TOPOLOGY:
            (length,) = INT32.unpack_from(user_data, at)
            at += 4 + 2 * max(length, 0)  # of two bytes per character
    return tuple(tasks)


def read_by(assignment: Assignment) -> Mapping[int, frozenset[str]]:
    """Subtopology -> the topics that it reads, as far as this member's partitions tell.

    Raises:
        MalformedFrame: the user data is not of Kafka Streams, or not of these partitions.
    """
    partitions = sorted((topic, index) for topic, indexes in assignment.partitions.items() for index in indexes)
    tasks = active_tasks(assignment.user_data) if assignment.user_data else ()
    if len(tasks) != len(partitions):
        raise MalformedFrame(f"{len(tasks)} active tasks for {len(partitions)} partitions")
    found: dict[int, set[str]] = {}
    for task, (topic, index) in zip(tasks, partitions, strict=True):
        if task.partition != index:
            raise MalformedFrame(f"task {task.subtopology}_{task.partition} for partition {index} of {topic}")
        found.setdefault(task.subtopology, set()).add(topic)
    return {number: frozenset(topics) for number, topics in found.items()}
