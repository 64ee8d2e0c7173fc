"""The world of a run, as what strikes it sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tests.simulation.clients import GroupMember, Producer
from tests.simulation.faults.faults import Scene
from tests.simulation.fleet.gateway_node import GatewayNode
from tests.simulation.judge import Judge
from tests.simulation.kafka.judged import ModelRecord
from tests.simulation.operations.operator import Operator
from tests.simulation.operations.owned import Owned
from tests.simulation.operations.rights import Rights
from tests.simulation.operations.schemas import Schemas
from tests.simulation.plan import Act
from tests.simulation.recorder import Recorder
from tests.simulation.story import Story


class Stage(Scene, Protocol):
    """What events need of the world, beside what faults do."""

    gateways: list[GatewayNode]
    story: Story
    rights: Rights | None
    schemas: Schemas | None
    judge: Judge
    recorder: Recorder
    owned: Owned

    @property
    def operator(self) -> Operator:
        """Who asks for operations."""

    @property
    def gateway_bootstrap(self) -> str:
        """Where clients of gateways connect."""

    def act(self) -> Act | None:
        """What goes on now."""

    def written_on(self, topic: str) -> str | None:
        """The side on which a mirrored topic is written, to which the other is a copy; None while that changes."""

    def deleted(self, topic: str, before: Sequence[ModelRecord]) -> None:
        """What the first partition of a topic had before, where it is written: it has less now."""

    def configured(self, topic: str, changes: Mapping[str, str]) -> None:
        """The owner of a topic has changed its configs, where it is written."""

    def state_lost(self, end: int) -> None:
        """The target's state topic has lost what was behind this offset: other records come there."""

    def producers(self) -> list[str]:
        """Names of the producers' nodes."""

    def member(self, name: str, bootstrap: str, side: str, group: str = ...) -> GroupMember:
        """A member of a group; of the plan's own group it shares the positions."""

    def producer(self, name: str, topic: str, partitions: int, bootstrap: str = ..., side: str = ...) -> Producer:
        """A producer; without a place on the source."""

    def begin(self, producer: Producer) -> None:
        """Start a producer that writes to the end of the run."""
