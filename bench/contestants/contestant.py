"""What stands between a client and the target cluster, seen alike."""

from __future__ import annotations

from typing import Protocol


class Contestant(Protocol):
    """`name` is the column in the report. `pid` is the process to charge; None when nothing stands between."""

    name: str

    @property
    def bootstrap(self) -> str:
        """What clients put in bootstrap.servers."""

    @property
    def pid(self) -> int | None:
        """The process whose CPU time and memory count."""

    def start(self) -> None:
        """Start, and return when it serves."""

    def stop(self) -> None:
        """End the process."""


class Behind:
    """Another address of a contestant: its listener with TLS."""

    def __init__(self, contestant: Contestant, name: str, bootstrap: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self._contestant = contestant

    @property
    def pid(self) -> int | None:
        """See `Contestant`."""
        return self._contestant.pid

    def start(self) -> None:
        """See `Contestant`."""
        self._contestant.start()

    def stop(self) -> None:
        """See `Contestant`."""
        self._contestant.stop()


class Direct:
    """Nothing between: the clients talk to the broker."""

    name = "direct"
    pid = None

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def start(self) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing to do."""
