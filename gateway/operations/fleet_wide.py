"""What an operation asks of the other gateways of the fleet."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, Protocol


class FleetWide(Protocol):
    """What the other gateways must have done before an operation goes on. `fleet/quorum.py`."""

    async def read_by_all(self) -> None:
        """Until every gateway that may serve a client has read the state up to here; Conflict when one is lost."""

    async def commits_settled(self, group: str) -> None:
        """Until every other gateway has read the state up to here, and a commit of the group that it sent before is no
        more under way; Conflict when one is lost, or its commit is not answered."""

    async def close_gate(self, group: str) -> None:
        """Close the group's gate elsewhere, and wait for its commits under way; Conflict when one is lost."""

    def gate_by_record(self, group: str) -> Coroutine[Any, Any, None]:
        """Elsewhere, too, the gate is as the group's record says now. What is returned tells it; it never raises."""


class OnlyHere:
    """A fleet of this gateway alone."""

    async def read_by_all(self) -> None:
        """Nobody else is there."""

    async def commits_settled(self, group: str) -> None:
        """Nobody else is there."""

    async def close_gate(self, group: str) -> None:
        """Nobody else is there."""

    async def gate_by_record(self, group: str) -> None:
        """Nobody else is there."""


ONLY_HERE: Final = OnlyHere()
