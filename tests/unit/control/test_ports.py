"""Ports given out are stored before anybody is told."""

from __future__ import annotations

import pytest

from gateway.control.ports import PortAllocator
from gateway.control.store_errors import StoreError
from gateway.domain.records import PortRecord


async def test_new_ports_are_stored_and_stay(plane):
    ports = PortAllocator(plane.store, base_port=9293, explicit={}, reserved={9294})

    assert await ports.ports_for([7, 3]) == {3: 9293, 7: 9295}
    assert await ports.ports_for([1, 7]) == {1: 9296, 7: 9295}
    assert sorted(plane.store.ports.values(), key=lambda record: record.node_id) == [
        PortRecord(1, 9296),
        PortRecord(3, 9293),
        PortRecord(7, 9295),
    ]


async def test_a_port_that_could_not_be_stored_is_not_given(plane):
    ports = PortAllocator(plane.store, base_port=9293, explicit={})
    plane.log.failures = [StoreError("no")]

    with pytest.raises(StoreError):
        await ports.ports_for([1])

    assert not plane.store.ports


async def test_an_explicit_map_is_not_stored(plane):
    ports = PortAllocator(plane.store, base_port=9293, explicit={1: 19_001})

    assert await ports.ports_for([1]) == {1: 19_001}
    assert not plane.store.ports
