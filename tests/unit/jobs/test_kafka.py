"""The event loop of a job's step: what it raises."""

from __future__ import annotations

import asyncio

import pytest

from gateway.jobs.kafka import Loop
from gateway.kafka.connection.errors import ClusterUnavailable


async def fails() -> None:
    raise ClusterUnavailable("nobody answers")


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(fails())


def test_an_error_in_a_group_of_tasks_is_raised_as_itself() -> None:
    with Loop() as loop, pytest.raises(ClusterUnavailable, match="nobody answers"):
        loop.run(in_a_group())
