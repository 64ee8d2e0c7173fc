"""The gates of a gateway are as the records say, whoever leads."""

from __future__ import annotations

from dataclasses import replace

from gateway.groups.gate.rules.commands import GateCommand
from gateway.groups.gate.rules.gates import GateStatus
from gateway.state.records import GroupRecord, GroupState
from tests.support.control.control_plane import Plane

GROUP = GroupRecord(link="l", group="g")


async def test_a_gate_is_as_its_groups_record_says(plane: Plane) -> None:
    plane.gates.enabled = True
    await plane.store.put(GROUP)
    assert plane.gates.status("g") is GateStatus.CLOSED
    await plane.store.put(replace(GROUP, state=GroupState.PROMOTED))
    assert plane.gates.status("g") is GateStatus.OPEN
    await plane.store.delete(plane.store.groups["l", "g"])
    assert plane.gates.status("g") is GateStatus.UNKNOWN, "asked about again at the next first request"


async def test_a_command_counts_until_the_record_changes(plane: Plane) -> None:
    plane.gates.enabled = True
    promoted = replace(GROUP, state=GroupState.PROMOTED)
    await plane.store.put(promoted)
    plane.gates.shut("g", GateCommand(plane.store.term, plane.store.applied, 1))
    await plane.store.put(GroupRecord(link="l", group="other"))
    assert plane.gates.status("g") is GateStatus.CLOSED
    await plane.store.put(replace(promoted, note="promoted again"))
    assert plane.gates.status("g") is GateStatus.OPEN


async def test_a_term_begins_with_the_gates_of_the_records(plane: Plane) -> None:
    plane.gates.enabled = True
    await plane.store.put(replace(GROUP, state=GroupState.PROMOTED))
    plane.gates.hold("g")
    plane.service.restore()
    assert plane.gates.status("g") is GateStatus.OPEN
