"""Gates that the leader keeps shut by command, whatever their groups' records say, as one gateway has heard it. Pure.

A demote shuts the group's gate everywhere before it changes the record. What was commanded comes by two ways, in any
order: as a command, and with an assignment, for those who were not there when it was given. So each is bound to what it
was said of:

* a command has a term, a number in it, and the offset of the state topic that its leader had come to. Of two, the later
  one counts, whichever is heard last;
* an assignment tells what was shut when the state was at its offset. It says nothing of a command given at that offset
  or behind it, and takes the place of all those before it, heard already or not;
* a command is about the group's record as of its offset: once the record has changed, it is in force no more. A leader
  shuts a gate for a change of the record, and changes it last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class GateCommand(NamedTuple):
    """Of a leader, about one group. `number`: 1 and up in each `term`; `offset`: where the state topic was then."""

    term: int
    offset: int
    number: int


class _Heard(NamedTuple):
    command: GateCommand
    shuts: bool


class GateCommands:
    """The commands in force at one gateway: of each group the last one that counts."""

    __slots__ = ("_at", "_last")

    def __init__(self) -> None:
        self._last: dict[str, _Heard] = {}
        self._at = (-1, -1)  # term and offset of the last assignment

    def shut(self, group: str, command: GateCommand) -> None:
        """The leader shuts the group's gate; without effect if a later command is known."""
        self._hear(group, _Heard(command, shuts=True))

    def open(self, group: str, command: GateCommand) -> None:
        """The record is in force again; without effect if a later command is known."""
        self._hear(group, _Heard(command, shuts=False))

    def _hear(self, group: str, heard: _Heard) -> None:
        last = self._last.get(group)
        if heard.command[:2] >= self._at and (last is None or last.command < heard.command):
            self._last[group] = heard

    def assigned(self, term: int, offset: int, shut: Iterable[str]) -> None:
        """An assignment counts from now on: `shut` is what its leader had shut when the state was at `offset`."""
        self._at = (term, offset)
        self._last = {group: heard for group, heard in self._last.items() if heard.command[:2] >= self._at}
        for group in shut:
            self._last.setdefault(group, _Heard(GateCommand(term, offset, 0), shuts=True))

    def clear(self) -> None:
        """Nobody's command is in force: this gateway leads, in a term that has given none."""
        self._last.clear()

    def is_shut(self, group: str, changed_at: int) -> bool:
        """Whether the gate is shut, of a group whose record was last changed at this offset of the state topic."""
        last = self._last.get(group)
        return last is not None and last.shuts and changed_at <= last.command.offset
