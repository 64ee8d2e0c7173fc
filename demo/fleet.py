"""The running clients: started, followed through their logs, restarted onto another cluster, stopped."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from demo.commands import Part, Role
from demo.errors import DemoError
from demo.history import History, Side, parse_lines
from demo.process import Child
from demo.settings import SILENCE_S


class Client:
    """One client over all its restarts. `silence_s`: a live producer that is told nothing for longer has failed."""

    def __init__(self, part: Part, folder: Path, history: History, silence_s: float = SILENCE_S) -> None:
        self.part = part
        self._silence_s = silence_s
        self.side = Side.SOURCE
        self.started = False  # this incarnation has said so
        self.stopped = False
        self.stopping = False  # was asked to
        self.assigned: frozenset[int] = frozenset()
        self.acknowledged = 0  # by this incarnation
        self.first = 0
        self.positions: dict[int, int] = {}  # partition -> next offset to read, over all incarnations
        self.read = 0
        self.read_here = 0  # by this incarnation
        self.heard_at = 0.0
        self.history = history
        self._folder = folder
        self._incarnation = 0
        self._child: Child | None = None

    @property
    def running(self) -> bool:
        """True between start and the end of the process as far as it is known."""
        return self._child is not None

    def start(self, bootstrap: str, side: Side) -> None:
        """Start the next incarnation."""
        self._incarnation += 1
        self.side, self.started, self.stopped, self.stopping = side, False, False, False
        self.acknowledged, self.read_here, self.assigned = 0, 0, frozenset()
        self.heard_at = time.monotonic()
        command = self.part.command(bootstrap, self.first)
        self._child = Child(f"{self.part.name}.{self._incarnation}", command, self._folder)

    def ask_to_stop(self) -> None:
        """SIGTERM: finish what is in hand, leave cleanly, end."""
        if self._child is not None:
            self.stopping = True
            self._child.ask_to_stop()

    def ended(self) -> bool:
        """True once the process has ended after saying that it stopped; its log has then been taken in.

        Raises:
            DemoError: It ended in another way.
        """
        child = self._child
        if child is None:
            return True
        code = child.exit_code
        self.follow()
        if code is None:
            return False
        if code not in (0, 143) or not self.stopped:  # 143: a JVM that ended by SIGTERM, after its hooks
            raise DemoError(f"{child.name} did not stop cleanly: exit code {code}", child.tail())
        child.end(0)
        self._child = None
        return True

    def kill(self, timeout_s: float) -> None:
        """Stop it whatever it takes."""
        if self._child is not None:
            self._child.end(timeout_s)
            self._child = None

    def follow(self) -> None:
        """Take in what it logged since the last time."""
        if self._child is None:
            return
        try:
            events = parse_lines(self._child.new_lines())
        except ValueError as error:
            raise DemoError(f"{self._child.name}: {error}", self._child.tail()) from error
        if self.part.role is Role.PRODUCER:
            self.history.add_producer(self.part.name, events)
        else:
            self.history.add_member(self.part.group, self.part.name, self.side, events)
        for event in events:
            self._take(event)

    def check(self) -> None:
        """Raise DemoError when it has ended by itself, or when a producer has been silent for too long."""
        if self._child is None or self.stopping:
            return
        self._child.check_alive()
        if self.part.role is Role.PRODUCER and time.monotonic() - self.heard_at > self._silence_s:
            raise DemoError(f"{self._child.name}: nothing acknowledged for {self._silence_s:.0f} s", self._child.tail())

    def _take(self, event: Mapping[str, Any]) -> None:
        match event["ev"]:
            case "ack":
                self.acknowledged += 1
                self.heard_at = time.monotonic()
            case "read":
                self.read += len(event["ids"])
                self.read_here += len(event["ids"])
                self.positions[event["p"]] = event["o"][-1] + 1
            case "assigned":
                self.assigned = frozenset(event["p"])
            case "revoked":
                self.assigned = frozenset()
            case "started":
                self.started = True
            case "stopped":
                self.stopped = True
                self.first = event.get("next", 0)


class Fleet:
    """All live clients and the history of all that they logged."""

    def __init__(self, parts: Iterable[Part], folder: Path, silence_s: float = SILENCE_S) -> None:
        self.history = History()
        self.clients = [Client(part, folder, self.history, silence_s) for part in parts]

    @property
    def producers(self) -> list[Client]:
        """The live producers."""
        return [client for client in self.clients if client.part.role is Role.PRODUCER]

    def members(self, group: str | None = None) -> list[Client]:
        """The members of one group, or of all."""
        return [c for c in self.clients if c.part.role is Role.MEMBER and group in (None, c.part.group)]

    def follow(self) -> None:
        """Take in what everybody logged since the last time."""
        for client in self.clients:
            client.follow()

    def check(self) -> None:
        """Raise DemoError when a client has ended or gone silent."""
        for client in self.clients:
            client.check()

    def positions(self, group: str) -> dict[int, int]:
        """Per partition the furthest that any member of the group has read."""
        furthest: dict[int, int] = defaultdict(int)
        for member in self.members(group):
            for partition, position in member.positions.items():
                furthest[partition] = max(furthest[partition], position)
        return furthest

    def caught_up(self, group: str, ends: Mapping[int, int]) -> bool:
        """True when the group has read to the given ends."""
        positions = self.positions(group)
        return all(positions.get(partition, 0) >= end for partition, end in ends.items())

    def acknowledged(self) -> int:
        """Acknowledgements of all producers so far, the backlog's included."""
        return sum(len(acks) for acks in self.history.acks.values())

    def kill(self) -> None:
        """Stop every client whatever it takes: ask all, then wait for each."""
        for client in self.clients:
            client.ask_to_stop()
        for client in self.clients:
            client.kill(5.0)
