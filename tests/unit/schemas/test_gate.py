"""The schema gate: what a promote waits for, what is copied on demand, and what it costs at rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.errors import Conflict
from gateway.schemas.gate import FRESH_S
from tests.support.control.control_plane import Plane
from tests.support.registries.registry_pair import RegistryPair

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "int"}


@pytest.fixture
async def pair(plane: Plane) -> AsyncIterator[RegistryPair]:
    made = RegistryPair(plane)
    yield made
    await plane.service.close()


async def scene(pair: RegistryPair, **more: str) -> None:
    """Records have ids 7 and 8; the link brings 8 only, until 7 is asked for. 99 is no id."""
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", TEXT, schema_id=8)
    await pair.linked(schema_versions="latest", **more)
    await pair.plane.with_mirror("orders", 1)
    for cluster in (pair.plane.source, pair.plane.target):
        cluster.existing["orders"].ranges = [(5, 100)]
    pair.plane.target.schema_ids_of = {("orders", 0, 5): frozenset({7, 8}), ("orders", 0, 99): frozenset({99})}


async def test_a_promote_waits_until_the_id_was_copied(pair: RegistryPair) -> None:
    await scene(pair)
    gate = pair.plane.parts.schema_gate
    assert "a look" in gate.waits("l", ["orders"])
    await gate.run_due()
    assert gate.waits("l", ["orders"]) == ("the target's registry to know schema id 7, which records of orders have")
    view = await pair.plane.service.mirrors.describe("l", "orders")
    assert list(view.unresolved_schema_ids) == [7]
    assert gate.counted("l") == 1
    await pair.round(0.0)  # on demand: nobody but the gate has asked for 7
    assert pair.target.content()["orders-value"][1][0] == 7
    pair.plane.clock_s += 6.0
    await gate.run_due()
    assert (gate.waits("l", ["orders"]), gate.counted("l")) == ("", 0)
    pair.plane.clock_s += FRESH_S + 1.0
    assert "a look" in gate.waits("l", ["orders"])


async def test_a_promote_is_refused(pair: RegistryPair) -> None:
    await scene(pair, schema_gate="refuse")
    with pytest.raises(Conflict, match="does not know schema id 7"):
        await pair.plane.parts.schema_gate.check("l", ["orders"])
    await pair.round(0.0)
    await pair.plane.parts.schema_gate.check("l", ["orders"])


@pytest.mark.parametrize("options", [{"schema_gate": "off"}, {"schema_ids": "translate"}])
async def test_without_a_gate_nothing_is_asked(pair: RegistryPair, options: dict[str, str]) -> None:
    await scene(pair, **options)
    gate, calls = pair.plane.parts.schema_gate, pair.plane.target.calls
    calls.clear()
    await gate.run_due()
    await gate.check("l", ["orders"])
    assert (gate.waits("l", ["orders"]), "schema_ids" in calls) == ("", False)


async def test_a_log_that_stands_still_is_not_read_again(pair: RegistryPair) -> None:
    await scene(pair)
    gate, calls = pair.plane.parts.schema_gate, pair.plane.target.calls
    await gate.run_due()
    assert calls.count("schema_ids") == 2
    pair.plane.clock_s += 61.0
    await gate.run_due()
    assert calls.count("schema_ids") == 2
    pair.plane.target.existing["orders"].ranges = [(5, 101)]
    pair.plane.clock_s += 61.0
    await gate.run_due()
    assert calls.count("schema_ids") == 3


async def test_a_registry_that_does_not_answer_keeps_the_gate_closed(pair: RegistryPair) -> None:
    await scene(pair)
    gate = pair.plane.parts.schema_gate
    pair.plane.target.down = True
    await gate.run_due()
    assert gate.waits("l", ["orders"]).startswith("a look at the schema ids of its records: ")
