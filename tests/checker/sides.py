"""Groups on the right side, while the history goes by: a group reads on one cluster at a time."""

from __future__ import annotations

from dataclasses import dataclass

from tests.checker.model import Model, Outcome, Process
from tests.checker.verdict import Findings


@dataclass(slots=True)
class _Place:
    """Where a group reads. `pending`: a move is under way, both sides may be read. `before`: where until `since`."""

    side: str
    pending: set[str]
    before: str = ""
    since: int = 0


class GroupSides:
    """Follows the moves of groups and judges what their members read.

    A poll that began before a move ended may still give what the old side had. A move whose outcome is unknown leaves
    both sides allowed, until the next one that is known.
    """

    def __init__(self, model: Model, findings: Findings) -> None:
        self._model = model
        self._findings = findings
        self._places: dict[str, _Place] = {}

    def begun(self, group: str, to: str) -> None:
        """A promote or demote was asked for."""
        self._place(group).pending.add(to)

    def ended(self, group: str, outcome: Outcome, line: int) -> None:
        """It was answered."""
        place = self._place(group)
        if outcome is Outcome.FAIL:
            place.pending.clear()
        elif outcome is Outcome.OK and place.pending:
            to = (place.pending - {place.side} or place.pending).pop()
            place.before, place.side, place.since = place.side, to, line
            place.pending.clear()

    def read(self, process: Process, key: str, invoked: int, line: int) -> None:
        """A member got records."""
        if not self._model.migrates or process.group is None:
            return
        place = self._place(process.group)
        if process.side == place.side or process.side in place.pending:
            return
        if process.side == place.before and invoked < place.since:
            return
        self._findings.add(
            "gated-read",
            f"{process.name} of group {process.group} read {key} on {process.side}, "
            f"while the group was on {place.side}, line {line}",
        )

    def _place(self, group: str) -> _Place:
        found = self._places.get(group)
        if found is None:
            home = self._model.group_homes.get(group, self._model.home)
            found = self._places[group] = _Place(home, set())
        return found
