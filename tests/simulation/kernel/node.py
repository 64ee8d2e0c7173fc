"""A node: one simulated process on a machine of its own. It runs, computes, is stopped (SIGSTOP) or dead (SIGKILL)."""

from __future__ import annotations

import enum
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.kernel.loop import SimHandle
    from tests.simulation.kernel.network import Server
    from tests.simulation.kernel.transport import Endpoint


class State(enum.Enum):
    """Of a process."""

    RUNNING = "running"
    COMPUTING = "computing"  # its event loop is kept by what runs on it
    PAUSED = "paused"
    DEAD = "dead"


class Node:
    """Made by `SimLoop.node` and `SimLoop.restart`; each start of a process is a Node of its own.

    Attributes:
        running: the same as `state is State.RUNNING`, for the loop.
        kept: what came due while the node was stopped, or computed, in order.
        takes_time: what it computes takes virtual time (`SimLoop.works`).
        computes_until: while it computes.
        remains: tasks of a dead node. As long as somebody holds them, their `finally` does not run.
        wall_offset_ms: how far this machine's wall clock is off.
    """

    __slots__ = (
        "computes_until",
        "context",
        "endpoints",
        "kept",
        "name",
        "next_port",
        "remains",
        "running",
        "servers",
        "state",
        "takes_time",
        "wall_offset_ms",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.RUNNING
        self.running = True
        self.wall_offset_ms = 0
        self.takes_time = False
        self.computes_until = 0.0
        self.kept: list[SimHandle] = []
        self.remains: list[Any] = []
        self.servers: dict[int, Server] = {}
        self.endpoints: dict[Endpoint, None] = {}  # ordered, unlike a set
        self.next_port = 40_000
        self.context = Context()
        self.context.run(CURRENT.set, self)

    def __repr__(self) -> str:
        return f"<Node {self.name} {self.state.value}>"

    def is_in(self, state: State) -> bool:
        """For callers between whose look and next look the state changes."""
        return self.state is state

    def free_port(self) -> int:
        """For a connection that goes out, or a server that listens on port 0."""
        self.next_port += 1
        return self.next_port


CURRENT: ContextVar[Node] = ContextVar("CURRENT")
"""The node that the running code belongs to. Tasks inherit it."""
