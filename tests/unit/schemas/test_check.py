"""Mirrors that write ids anew: how they are created, what they wait for is asked for, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.errors import BadRequest, Conflict
from gateway.links.rules.update import ConfigChange
from gateway.state.link_config import LinkConfigError, parse
from gateway.state.mirror_states import MirrorOperation, WrongState
from gateway.state.records import MirrorState
from tests.support.control.control_plane import Plane
from tests.support.fakes.fake_engine import status
from tests.support.registries.registry_pair import RegistryPair

NUMBER: dict[str, Any] = {"type": "int"}
FILTERS = '{"topicFilters": [{"name": "or", "patternType": "PREFIXED", "filterType": "INCLUDE"}]}'
TRANSLATED = {"schema_ids": "translate", "schema_translate_topic_filters": FILTERS}


@pytest.fixture
async def pair(plane: Plane) -> AsyncIterator[RegistryPair]:
    made = RegistryPair(plane)
    plane.target.cluster.config = SimpleNamespace(properties={})  # of which jobs are told
    yield made
    await plane.service.close()


async def waiting(pair: RegistryPair, *ids: int) -> None:
    pair.plane.engine.numbers["l", "orders"] = [status(0, missing_ids=ids), status(1, missing_ids=ids[:1])]


async def test_the_mode_is_fixed_at_create(pair: RegistryPair) -> None:
    await pair.linked(**TRANSLATED, schema_translate_places="value")
    plane = pair.plane
    assert (await plane.with_mirror("orders", 1)).translates_ids == ("value",)
    assert (await plane.with_mirror("plain", 1)).translates_ids == ()
    changes = [ConfigChange("schema.translate.places", "key"), ConfigChange("schema.translate.topic.filters", "")]
    await plane.service.link_updates.alter("l", changes)
    assert plane.store.mirrors["l", "orders"].translates_ids == ("value",)
    assert (await plane.with_mirror("order2", 1)).translates_ids == ()


async def test_what_is_missing_is_asked_for_at_once_and_then_less_often(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", {"type": "string"}, schema_id=8)
    await pair.linked(schema_versions="latest", **TRANSLATED)
    await pair.plane.with_mirror("orders", 2)
    missing = pair.plane.parts.missing_ids
    await waiting(pair, 7)
    assert 7 not in pair.ids()
    await missing.run_due()
    await pair.round(0.0)  # on demand
    assert 7 in pair.ids()
    asked: list[list[int]] = []
    pair.sync.wanted = lambda name, ids: asked.append(sorted(ids))  # type: ignore[method-assign]
    await waiting(pair, 7, 99)
    for _ in range(40):
        pair.plane.clock_s += 1.0
        await missing.run_due()
    assert len([ids for ids in asked if 99 in ids]) == 4  # at once, after 5, 15 and 35 s
    await waiting(pair)
    await missing.run_due()
    await waiting(pair, 99)
    asked.clear()
    await missing.run_due()
    assert asked == [[99]]


async def test_describe_names_what_is_waited_for(pair: RegistryPair) -> None:
    await pair.linked(**TRANSLATED)
    await pair.plane.with_mirror("orders", 2)
    await waiting(pair, 7, 9)
    view = await pair.plane.service.mirrors.describe("l", "orders")
    assert list(view.unresolved_schema_ids) == [7, 9]
    waits = pair.plane.parts.missing_ids.waits
    assert waits("l", ["orders"]) == "schema ids 7, 9 in the id map, which records of orders have"
    assert waits("l", ["other"]) == ""
    (shown,) = [one for one in pair.plane.service.numbers().mirrors if one.topic == "orders"]
    assert [len(one.missing_ids) for one in shown.partitions] == [2, 1]


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"schema.ids": "translate"}, "schema.translate.topic.filters: needs schema.sync.enable=true and"),
        ({"schema.sync.enable": "true"}, "needs schema.sync.enable=true and schema.ids=translate"),
        (
            {"schema.sync.enable": "true", "schema.ids": "translate", "ack": "both"},
            "schema.translate.topic.filters: with ack=both",
        ),
        (
            {"schema.translate.places": "value, body"},
            "schema.translate.places: 'value, body' is not one or more of",
        ),
        ({"schema.translate.places": " "}, "schema.translate.places: '' is not one or more of"),
    ],
)
def test_options_that_do_not_go_together(configs: dict[str, str], said: str) -> None:
    with pytest.raises(LinkConfigError, match=said):
        parse({"schema.translate.topic.filters": FILTERS, **configs})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ack", "both", "ack: mirror topic 'orders' writes schema ids anew"),
        ("schema.ids", "fixed", "schema.sync.enable, schema.ids: mirror topic 'orders' writes schema ids anew"),
        ("schema.sync.enable", "false", "schema.sync.enable, schema.ids: mirror topic 'orders' writes"),
    ],
)
async def test_the_link_keeps_what_such_a_mirror_goes_by(pair: RegistryPair, name: str, value: str, said: str) -> None:
    await pair.linked(**TRANSLATED)
    await pair.plane.with_mirror("orders", 1)
    alter = pair.plane.service.link_updates.alter
    with pytest.raises(BadRequest):
        await alter("l", [ConfigChange(name, value)])
    without = ConfigChange("schema.translate.topic.filters", "")
    with pytest.raises(Conflict, match=said):
        await alter("l", [ConfigChange(name, value), without])
    stopped = replace(pair.plane.store.mirrors["l", "orders"], state=MirrorState.STOPPED)
    await pair.plane.by_hand(stopped)
    await alter("l", [ConfigChange(name, value), without])


async def test_there_is_no_way_back_and_no_job(pair: RegistryPair) -> None:
    await pair.linked(**TRANSLATED)
    await pair.plane.with_mirror("orders", 1)
    service = pair.plane.service
    with pytest.raises(WrongState, match="cannot go back to the source: schema ids in its records are written anew"):
        await service.reversals.reverse("l", ["orders"])
    (outlook,) = await service.dry_runs.of(MirrorOperation.REVERSE, "l", ["orders"])
    assert "cannot go back" in str(outlook.refused)
    with pytest.raises(Conflict, match="has its schema ids written anew, which jobs do not do"):
        service.catch_ups.plan("l", ["orders"])
    assert service.catch_ups.plan("l", []).mirrors == []
    await pair.plane.by_hand(replace(pair.plane.store.mirrors["l", "orders"], state=MirrorState.STOPPED))
    for operation in (MirrorOperation.REVERSE, MirrorOperation.RESTORE):
        (outlook,) = await service.dry_runs.of(operation, "l", ["orders"])
        assert "cannot go back" in str(outlook.refused)
    with pytest.raises(WrongState, match="cannot go back"):
        await service.failbacks.restore("l", ["orders"])
    with pytest.raises(WrongState, match="cannot go back"):
        await service.failbacks.reverse("l", ["orders"])


async def test_a_job_that_reads_gets_the_map(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    await pair.linked(**TRANSLATED)
    await pair.plane.with_mirror("orders", 1)
    await pair.plane.with_mirror("plain", 1)
    assert pair.plane.service.catch_ups.reading_plan("l", ["orders"]).ids == pair.ids()
    assert pair.plane.service.catch_ups.reading_plan("l", ["plain"]).ids == {}
