"""Which groups each client was seen with: the most recent ones.

Both the clients and the groups of each are bounded, since clients name themselves and their groups. Of a client's
groups the one that was named longest ago goes first: fewer open ones can only keep it from reading. A client that is
forgotten counts as one without a group until it names one, which every member does every few seconds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

CLIENTS = 100_000
GROUPS_OF_A_CLIENT = 1_000
CHARACTERS = 32_000_000

_Client = TypeVar("_Client")


class SeenGroups(Generic[_Client]):
    """Clients, and their groups, in the order in which they were last seen."""

    __slots__ = ("_characters", "_groups")

    def __init__(self) -> None:
        self._groups: dict[_Client, dict[str, None]] = {}
        self._characters = 0  # of all groups' names

    def add(self, client: _Client, group: str) -> None:
        """The client named this group."""
        groups = self._groups.pop(client, None)
        if groups is None:
            groups = {}
        self._groups[client] = groups
        if group in groups:
            del groups[group]
            self._characters -= len(group)
        groups[group] = None
        self._characters += len(group)
        if len(groups) > GROUPS_OF_A_CLIENT:
            oldest = next(iter(groups))
            del groups[oldest]
            self._characters -= len(oldest)
        while len(self._groups) > CLIENTS or (self._characters > CHARACTERS and len(self._groups) > 1):
            self._characters -= sum(map(len, self._groups.pop(next(iter(self._groups)))))

    def of(self, client: _Client) -> Collection[str]:
        """Its groups."""
        return self._groups.get(client, ())
