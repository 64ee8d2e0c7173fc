"""Gates of groups as records would set them, where a test has no state."""

from __future__ import annotations

from gateway.groups.gate.rules.gates import GroupGates, RecordedGate


def gate(gates: GroupGates, group: str, *, is_open: bool) -> None:
    """Let this group, and no other one, have a record: PROMOTED where its gate is to be open, else ACTIVE."""
    gates.recorded({group: RecordedGate(is_open, 0, "west")}, grown_at=0)


def commits_under_way(gates: GroupGates, group: str) -> bool:
    """Whether whoever waits for the answers of the group's commits would wait."""
    answered: list[str] = []
    gates.when_answered(group, lambda: answered.append(group))
    return not answered
