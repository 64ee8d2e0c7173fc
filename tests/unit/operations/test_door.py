"""A permit holds as long as the term, the lease and the very records that the act was decided from."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.kafka.acts import ActRefused, require_permit
from gateway.operations.door import Door
from tests.support.control.control_plane import Plane


async def test_as_long_as_the_records_are_what_is_stored(plane: Plane) -> None:
    mirror = await plane.with_mirror()
    link, door = plane.store.links["l"], plane.parts.door
    with door.permit(mirror, link):
        require_permit("a change")
        await plane.store.put(replace(mirror, restore_configs={"retention.ms": "1"}))
        with pytest.raises(ActRefused, match="a change was not sent: mirror/l/orders was changed by another operation"):
            require_permit("a change")
    with pytest.raises(ActRefused, match="^mirror/l/orders was changed"), door.permit(mirror):
        raise AssertionError("entered")


async def test_as_long_as_the_lease_is_valid(plane: Plane) -> None:
    valid = [True]
    door = Door(plane.parts.records, plane.parts.locks, lambda: valid[0])
    with door.permit():
        require_permit("a change")
        valid[0] = False
        with pytest.raises(ActRefused, match="not heard by its fleet for too long"):
            require_permit("a change")


async def test_as_long_as_the_term_lasts(plane: Plane) -> None:
    with plane.parts.door.permit():
        plane.parts.door.shut()
        with pytest.raises(ActRefused, match="does not lead any more"):
            require_permit("a change")


async def test_what_else_must_be_so(plane: Plane) -> None:
    def not_so() -> None:
        raise ActRefused("a mirror topic came or went")

    with pytest.raises(ActRefused, match="came or went"), plane.parts.door.permit(also=not_so):
        raise AssertionError("entered")


async def test_under_the_lock_that_a_promote_takes(plane: Plane) -> None:
    """Whoever waits for the lock looks at the record that is stored then."""
    mirror = await plane.with_mirror()
    entered = asyncio.Event()

    async def act() -> None:
        async with plane.parts.door.through(mirror):
            entered.set()

    async with plane.parts.locks.hold("mirror/orders"):
        acting = asyncio.create_task(act())
        await plane.store.put(replace(mirror, restore_configs={}, error_message="changed"))
    with pytest.raises(ActRefused, match="was changed by another operation meanwhile"):
        await acting
    assert not entered.is_set()
