"""Gates that the leader keeps shut by command, whatever their groups' records say, as one gateway has heard it. Pure.

A demote shuts the group's gate everywhere before it changes the record. What was commanded comes by two ways, in any
order: as a command, and with an assignment, for those who were not there when it was given. So each is bound to what it
was said of:

* a command has a term, a number in it, and the offset of the state topic that its leader had come to. Of two, the later
  one counts, whichever is heard last;
* an assignment tells what was shut when the state was at its offset. It says nothing of a command given at that offset
  or behind it, and ends those before it that it does not name;
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


class GateCommands:
    """The commands in force at one gateway."""

    __slots__ = ("_opened", "_shut")

    def __init__(self) -> None:
        self._shut: dict[str, GateCommand] = {}
        self._opened: dict[str, GateCommand] = {}

    def shut(self, group: str, command: GateCommand) -> None:
        """The leader shuts the group's gate; without effect if it has opened it since."""
        opened = self._opened.get(group)
        if opened is None or opened < command:
            self._opened.pop(group, None)
            self._shut[group] = command

    def open(self, group: str, command: GateCommand) -> None:
        """The record is in force again; without effect if the leader has shut the gate since."""
        shut = self._shut.get(group)
        if shut is None or shut < command:
            self._shut.pop(group, None)
            self._opened[group] = command

    def assigned(self, term: int, offset: int, shut: Iterable[str]) -> None:
        """An assignment counts from now on: `shut` is what its leader had shut when the state was at `offset`."""
        named, at = frozenset(shut), (term, offset)
        self._shut = {group: command for group, command in self._shut.items() if command[:2] >= at}
        self._opened = {group: command for group, command in self._opened.items() if command[:2] >= at}
        for group in named - self._opened.keys():
            self._shut.setdefault(group, GateCommand(term, offset, 0))

    def clear(self) -> None:
        """Nobody's command is in force: this gateway leads, in a term that has given none."""
        self._shut.clear()
        self._opened.clear()

    def is_shut(self, group: str, changed_at: int) -> bool:
        """Whether the gate is shut, of a group whose record was last changed at this offset of the state topic."""
        command = self._shut.get(group)
        return command is not None and changed_at <= command.offset
