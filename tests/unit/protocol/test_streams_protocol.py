"""Active tasks in the assignments of Kafka Streams, by every version of their user data."""

from __future__ import annotations

import struct

import pytest

from protocol.consumer_protocol import Assignment
from protocol.errors import MalformedFrame
from protocol.streams_protocol import Task, active_tasks, read_by

TASKS = [(0, 0), (0, 1), (1, 0)]


def user_data(version: int, tasks: list[tuple[int, int]], topology: str = "") -> bytes:
    """As `AssignmentInfo` writes them, with something behind that is not looked at."""
    said = struct.pack(">i", version) + (struct.pack(">i", 12) if version >= 3 else b"") + struct.pack(">i", len(tasks))
    name = struct.pack(">i", len(topology)) + topology.encode("utf-16-be") if version >= 10 else b""
    return said + b"".join(struct.pack(">ii", *task) + name for task in tasks) + b"\0\0\0\0"


@pytest.mark.parametrize("version", range(1, 13))
def test_every_version(version: int) -> None:
    assert active_tasks(user_data(version, TASKS)) == tuple(Task(*one) for one in TASKS)


def test_the_name_of_a_topology_is_passed_over() -> None:
    assert active_tasks(user_data(11, TASKS, "named")) == tuple(Task(*one) for one in TASKS)


def test_which_subtopology_reads_what() -> None:
    partitions = {"words": (0,), "orders": (1, 0)}  # sorted: orders-0, orders-1, words-0
    assert read_by(Assignment(1, partitions, user_data(11, TASKS))) == {0: {"orders"}, 1: {"words"}}
    assert read_by(Assignment(1, {}, b"")) == {}


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0\0",
        user_data(13, TASKS),
        user_data(0, TASKS),
        user_data(11, TASKS)[:20],
        struct.pack(">iii", 11, 12, 2**31 - 1),
        struct.pack(">iii", 11, 12, -1),
    ],
)
def test_what_is_malformed(said: bytes) -> None:
    with pytest.raises(MalformedFrame):
        active_tasks(said)


@pytest.mark.parametrize(
    "partitions", [{"orders": (0, 1)}, {"orders": (0, 1), "words": (5,)}, {"orders": (0, 1, 2), "words": (0,)}]
)
def test_partitions_that_are_not_of_these_tasks(partitions: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(MalformedFrame):
        read_by(Assignment(1, partitions, user_data(11, TASKS)))
