"""Events of the schema registries beside the clusters (`plan.EventKind`), in runs whose link copies schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.simulation.faults.stage import Stage
from tests.simulation.operations.schemas import Schemas
from tests.simulation.plan import Event, EventKind


class CarriedEvents:
    """`table`: as `NetworkEvents.table`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.table: Mapping[EventKind, Callable[[Event], str]] = {
            EventKind.SCHEMAS_CHANGED: self._with(lambda schemas, event: schemas.change()),
            EventKind.SCHEMAS_REFUSED: self._with(lambda schemas, event: schemas.refuse(event.hold_s)),
            EventKind.SCHEMA_FIRST: self._with(lambda schemas, event: schemas.come_first()),
        }

    def _with(self, do: Callable[[Schemas, Event], str]) -> Callable[[Event], str]:
        return lambda event: "" if self._stage.schemas is None else do(self._stage.schemas, event)
