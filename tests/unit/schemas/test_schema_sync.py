"""Rounds of schema sync between two registries: what comes over, what is left alone, and every interrupted state."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import Conflict, TargetUnreachable
from gateway.links.rules.update import ConfigChange
from gateway.operations.link_tasks import TaskErrorCode, TaskState
from gateway.schemas import look, schema_round, schema_sync
from gateway.schemas.rules import remember
from gateway.schemas.rules.scene import ChangeKind, SchemaReason
from gateway.schemas.schema_round import SchemaOutlook, SchemaRound
from gateway.state.errors import StoreError
from tests.support.control.control_plane import PROPERTIES, Plane
from tests.support.registries.registry_pair import RegistryPair
from tests.support.registries.strict_registry import IMPORT, READONLY, Refusal, StrictRegistry
from tests.support.waiting import wait_until_async

NUMBER = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}
WIDER = {"type": "record", "name": "N", "fields": [*NUMBER["fields"], {"name": "m", "type": "int", "default": 0}]}
STRICTER = {"type": "record", "name": "N", "fields": [*NUMBER["fields"], {"name": "k", "type": "int"}]}


def using(name: str, subject: str, version: int, record: str) -> dict[str, Any]:
    """A schema that names another one."""
    schema = {"type": "record", "name": record, "fields": [{"name": "f", "type": name}]}
    return {"schema": json.dumps(schema), "references": [{"name": name, "subject": subject, "version": version}]}


@pytest.fixture
async def pair(plane: Plane) -> AsyncIterator[RegistryPair]:
    made = RegistryPair(plane)
    yield made
    await plane.service.close()  # rounds that go on
    assert not made.source.requests, "the source is only read"
    assert not made.target.offences


def scene(registry: StrictRegistry) -> None:
    """Versions, ids that several subjects share, references, a soft-deleted version, levels."""
    registry.add("other-value", {"type": "enum", "name": "E", "symbols": ["A"]}, schema_id=100)
    registry.add("orders-value", NUMBER, schema_id=7)
    registry.add("orders-value", WIDER, schema_id=9)
    registry.add("lines-value", using("N", "orders-value", 2, "L"), schema_id=5)
    registry.add("copies-value", NUMBER, schema_id=7)
    registry.add("orders/odd name", {"type": "string"}, schema_id=2)
    registry.add("proto-value", {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message M {}'}, schema_id=11)
    registry.subjects["orders-value"][1].deleted = True
    registry.levels["orders-value"] = "FULL"


async def test_ids_versions_references_levels_and_deletes_come_over(pair: RegistryPair) -> None:
    scene(pair.source)
    await pair.linked()
    assert pair.state == (TaskState.ACTIVE, None, "")
    assert pair.target.content() == pair.source.content()
    assert pair.target.levels == {"orders-value": "FULL"}
    assert set(pair.target.modes.values()) == {IMPORT}
    counts = pair.plane.service.schema_sync.counted("l")
    assert counts is not None
    assert (counts.subjects, counts.versions, counts.registered, counts.deleted, counts.left_out) == (6, 7, 7, 1, 0)
    for thorough in (61.0, 1_000.0):
        changes = len(pair.target.requests)
        await pair.round(thorough)
        assert len(pair.target.requests) == changes  # nothing to do, nothing done


async def test_at_rest_little_is_asked(pair: RegistryPair) -> None:
    scene(pair.source)
    await pair.linked()
    reads = pair.source.reads
    await pair.round(61.0)
    assert pair.source.reads - reads <= 1 + 2 * len(pair.source.subjects)


async def test_what_comes_later_comes_over_later(pair: RegistryPair) -> None:
    scene(pair.source)
    await pair.linked()
    pair.source.add("orders-value", STRICTER)
    pair.source.subjects["orders-value"][2].deleted = True
    pair.source.levels["orders-value"] = "NONE"
    await pair.round(61.0)
    assert pair.target.content()["orders-value"][3] == pair.source.content()["orders-value"][3]
    assert pair.target.levels == {"orders-value": "NONE"}
    assert pair.state[1] is TaskErrorCode.POLICY_VIOLATION_ERROR  # lines-value names the deleted version
    assert "42206" in pair.state[2]
    del pair.source.levels["orders-value"], pair.source.subjects["lines-value"]
    await pair.round()
    assert pair.target.levels == {}
    assert await pair.left_out() == [("lines-value", 0, SchemaReason.GONE_ON_SOURCE)]  # it stays


async def test_ids_of_the_targets_own(pair: RegistryPair) -> None:
    """Also while the level there would refuse what the source took under another one."""
    pair.target.add("its-own", {"type": "long"}, schema_id=1)
    scene(pair.source)
    pair.source.add("orders-value", STRICTER)
    await pair.linked(schema_ids="translate")
    assert pair.at_rest(), pair.state
    assert pair.target.modes == {}
    assert pair.target.levels == {"orders-value": "FULL"}
    ids, source, target = pair.ids(), pair.source.content(), pair.target.content()
    assert set(ids) == {7, 9, 5, 2, 11, 100, 101}
    assert 1 not in ids.values()
    for subject, versions in source.items():
        assert [(ids[schema_id], text) for schema_id, text, _ in versions.values()] == [
            (schema_id, text) for schema_id, text, _ in target[subject].values()
        ]
        assert [deleted for *_, deleted in versions.values()] == [deleted for *_, deleted in target[subject].values()]


async def test_ids_that_were_translated_are_not_fixed_afterwards(pair: RegistryPair) -> None:
    """A version that is there under another id stays as it is, and is said to differ."""
    pair.target.add("its-own", {"type": "long"}, schema_id=1)
    pair.source.add("orders-value", NUMBER, schema_id=1)
    await pair.linked(schema_ids="translate")
    there = pair.target.content()
    assert pair.ids() == {1: 2}
    await pair.plane.service.link_updates.alter("l", changes(("schema.ids", "fixed")))
    await pair.round(1.0)
    assert await pair.left_out() == [("orders-value", 1, SchemaReason.VERSION_DIFFERS)]
    assert pair.target.content() == there


async def test_ids_that_were_fixed_are_translated_from_then_on(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    await pair.linked()
    assert pair.target.modes == {"orders-value": IMPORT}
    await pair.plane.service.link_updates.alter("l", changes(("schema.ids", "translate")))
    pair.source.add("orders-value", WIDER, schema_id=70)
    await pair.round(1.0)
    assert pair.at_rest(), pair.state
    assert (pair.ids(), pair.target.modes) == ({7: 7, 70: 8}, {})


async def test_a_level_that_was_lifted_meanwhile_is_set_back(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER)
    pair.source.add("orders-value", STRICTER)
    await pair.linked(schema_ids="translate")
    assert pair.target.levels == {}
    assert pair.target.requests[0] == "PUT /config/orders-value"
    assert pair.target.requests[-1] == "DELETE /config/orders-value"


async def test_versions_have_other_numbers_there(pair: RegistryPair) -> None:
    """What names them names them as they are called there."""
    pair.source.add("orders-value", NUMBER, version=4)
    pair.source.add("lines-value", using("N", "orders-value", 4, "L"))
    await pair.linked(schema_ids="translate")
    assert pair.at_rest(), pair.state
    assert pair.target.content()["lines-value"][1][1]["references"][0]["version"] == 1


async def test_filters_versions_and_deleted_ones(pair: RegistryPair) -> None:
    """What others name comes along, whatever the filters say."""
    scene(pair.source)
    only = '{"subjectFilters": [{"name": "lines-", "patternType": "PREFIXED", "filterType": "INCLUDE"}]}'
    await pair.linked(schema_subject_filters=only, schema_versions="latest")
    assert set(pair.target.content()) == {"lines-value", "orders-value"}
    assert set(pair.target.content()["orders-value"]) == {2}
    await pair.plane.service.link_updates.alter(
        "l", changes(("schema.subject.filters", ""), ("schema.versions", "all"))
    )
    await pair.plane.service.link_updates.alter("l", changes(("schema.include.deleted", "false")))
    await pair.round(1.0)
    assert set(pair.target.content()["orders-value"]) == {2}
    assert set(pair.target.content()) == set(pair.source.content())


async def test_what_the_target_has_of_its_own(pair: RegistryPair) -> None:
    """The same schemas are left as they are, others are left alone."""
    scene(pair.source)
    pair.target.add("orders-value", NUMBER, schema_id=7)
    pair.target.add("lines-value", {"type": "bytes"}, schema_id=500)
    pair.target.add("mine", {"type": "float"}, schema_id=100)
    pair.target.levels["orders-value"] = "NONE"
    await pair.linked()
    assert await pair.left_out() == [
        ("lines-value", 1, SchemaReason.VERSION_DIFFERS),
        ("other-value", 1, SchemaReason.ID_TAKEN),
    ]
    assert pair.state[1] is TaskErrorCode.POLICY_VIOLATION_ERROR
    target = pair.target.content()
    assert target["lines-value"] == {1: (500, {"schema": '{"type":"bytes"}'}, False)}
    assert [(number, *row) for number, row in target["orders-value"].items()] == [
        (number, schema_id, text, False)
        for number, (schema_id, text, _) in pair.source.content()["orders-value"].items()
    ]
    assert pair.target.levels == {"orders-value": "NONE"}


async def test_a_subject_with_versions_of_its_own_is_not_imported_into(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.target.add("orders-value", WIDER, schema_id=7, version=3)
    pair.target.schemas[7] = pair.source.schemas[7]
    await pair.linked()
    assert await pair.left_out() == [("orders-value", 1, SchemaReason.SUBJECT_DIFFERS)]
    assert not pair.target.requests


@pytest.mark.parametrize("ids", ["fixed", "translate"])
async def test_a_kill_before_every_request(pair: RegistryPair, ids: str) -> None:
    """Whoever leads next goes on, and comes to the same end."""
    scene(pair.source)
    await pair.link(schema_ids=ids)
    allowed = left = 0

    def count(method: str, path: str) -> None:
        nonlocal left
        if method != "GET" and (method, path.count("/")) != ("POST", 2):
            left -= 1
        if left < 0:
            raise Refusal(503, 50001, "no")

    pair.target.before = count
    while not pair.at_rest():
        left = allowed = allowed + 1
        assert allowed < 60, pair.state
        pair.plane.service.schema_sync._rounds.known.clear()  # another leader, who knows what is stored
        await pair.round()
    pair.target.before = lambda method, path: None
    await pair.round()
    source, target = pair.source.content(), pair.target.content()
    if ids == "fixed":
        assert target == source
    assert {name: [row[1:] for row in rows.values()] for name, rows in target.items()} == {
        name: [row[1:] for row in rows.values()] for name, rows in source.items()
    }
    assert pair.target.levels == {"orders-value": "FULL"}
    assert not any(entry.own for record in pair.plane.store.schemas["l"].values() for entry in record.entries)


@pytest.mark.parametrize("ids", ["fixed", "translate"])
async def test_a_kill_at_every_write(pair: RegistryPair, monkeypatch: pytest.MonkeyPatch, ids: str) -> None:
    """What was made is known as the link's, whatever was not stored of it."""
    pair.target.level = "NONE"
    monkeypatch.setattr(schema_round, "STORED_TOGETHER", 1)
    scene(pair.source)
    await pair.link(schema_ids=ids)
    writes = left = 0
    write = pair.plane.store.write

    async def failing(*given: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise StoreError("no")
        await write(*given)

    monkeypatch.setattr(pair.plane.store, "write", failing)
    while not pair.at_rest():
        left = writes = writes + 1
        assert writes < 60, pair.state
        pair.plane.service.schema_sync._rounds.known.clear()
        await pair.round()
    if ids == "fixed":
        assert pair.target.content() == pair.source.content()
    entries = [entry for record in pair.plane.store.schemas["l"].values() for entry in record.entries]
    assert len(entries) == 7
    assert not any(entry.own for entry in entries)


async def test_what_names_others_is_deleted_before_them(pair: RegistryPair) -> None:
    pair.source.add("a-value", NUMBER)
    pair.source.add("b-value", using("N", "a-value", 1, "L"))
    for name in ("a-value", "b-value"):
        pair.source.subjects[name][1].deleted = True
    await pair.linked()
    assert pair.at_rest(), pair.state
    assert [one for one in pair.target.requests if one.startswith("DELETE")] == [
        "DELETE /subjects/b-value/versions/1",
        "DELETE /subjects/a-value/versions/1",
    ]


@pytest.mark.parametrize("at", ["GET", "POST"], ids=["while it looks", "while it registers"])
async def test_a_round_gives_way_to_who_waits_for_the_link(pair: RegistryPair, at: str) -> None:
    """However slow the registries are: a round may take as long as they like."""
    for number in range(100):
        pair.source.add(f"subject-{number}", NUMBER, schema_id=7)
    links, deleted, answers = pair.plane.service.links, asyncio.Event(), 0

    async def delete() -> None:
        await links.delete("l", force=True)
        deleted.set()

    tasks: list[asyncio.Task[None]] = []

    def before(method: str, path: str) -> None:
        nonlocal answers
        if method == at and not tasks:
            tasks.append(asyncio.create_task(delete()))
        answers += bool(tasks)

    pair.target.before = before
    await pair.linked()
    await asyncio.wait_for(deleted.wait(), 5.0)
    assert answers < 30
    assert pair.state[0] is not TaskState.IN_ERROR


async def test_a_round_that_gave_way_comes_again_at_once(pair: RegistryPair) -> None:
    scene(pair.source)
    tasks: list[asyncio.Task[Any]] = []

    def before(method: str, path: str) -> None:
        if method == "POST" and not tasks:
            tasks.append(asyncio.create_task(held()))

    async def held() -> None:
        async with pair.sync._locks.hold("schemas/l"):
            pass

    pair.target.before = before
    await pair.linked()
    assert pair.target.content() != pair.source.content()
    await pair.round(0.0)
    assert pair.target.content() == pair.source.content()
    assert pair.at_rest(), pair.state


async def test_a_round_is_bounded(pair: RegistryPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest follows at once."""
    made: list[int] = []
    carry_out = SchemaRound.carry_out

    async def counted(this: SchemaRound, looked: SchemaOutlook) -> int:
        before = len(pair.target.requests)
        left = await carry_out(this, looked)
        made.append(len(pair.target.requests) - before)
        return left

    monkeypatch.setattr(schema_round, "IN_A_ROUND", 4)
    monkeypatch.setattr(SchemaRound, "carry_out", counted)
    scene(pair.source)
    await pair.linked()
    await wait_until_async(lambda: pair.target.content() == pair.source.content(), 20.0)
    assert made[:3] == [4, 4, 4]
    assert max(made) == 4


# -- targets that cannot ----------------------------------------------------------------------------------------------


async def test_a_target_without_modes(pair: RegistryPair) -> None:
    scene(pair.source)
    pair.target.has_modes = False
    await pair.linked()
    assert pair.state[2] == (
        f"the target registry {pair.urls[1]} has no modes, so it takes no ids from outside; set schema.ids=translate"
    )
    assert not pair.target.content()
    await pair.plane.service.link_updates.alter("l", changes(("schema.ids", "translate")))
    await pair.round(1.0)
    assert pair.at_rest(), pair.state


async def test_a_target_that_says_import_and_gives_ids_of_its_own(pair: RegistryPair) -> None:
    """It is found out by the first schema, and nothing of that stays."""
    scene(pair.source)
    pair.target.keeps_ids = False
    await pair.linked()
    assert pair.state[2] == (
        f"the target registry {pair.urls[1]} says IMPORT, and gave id 1 to version 1 of 'orders/odd name', which has "
        "id 2 on the source: it does not keep ids; set schema.ids=translate"
    )
    assert (pair.target.content(), pair.target.modes, dict(pair.plane.store.schemas["l"])) == ({}, {}, {})
    changes_made = len(pair.target.requests)
    await pair.round()
    assert "does not keep ids" in pair.state[2]
    assert len(pair.target.requests) == changes_made  # it is not tried again


async def test_a_target_that_happens_to_give_the_same_ids(pair: RegistryPair) -> None:
    """It is found out by the first version whose number is another one there."""
    pair.source.add("a-value", NUMBER, schema_id=1)
    pair.source.add("b-value", WIDER, schema_id=2, version=4)
    pair.target.keeps_ids = False
    await pair.linked()
    assert "gave id 2 to version 4 of 'b-value'" in pair.state[2]
    assert "it does not keep the numbers of versions" in pair.state[2]
    assert (set(pair.target.content()), set(pair.plane.store.schemas["l"])) == ({"a-value"}, {"a-value"})


async def test_a_target_that_is_read_only(pair: RegistryPair) -> None:
    pair.target.mode = READONLY
    await pair.linked()
    assert "is READONLY; set its mode to READWRITE" in pair.state[2]


async def test_a_subject_that_the_target_keeps_read_only(pair: RegistryPair) -> None:
    """Somebody wants no version there: the mode stays, and the plan says so."""
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", WIDER, schema_id=9)
    pair.source.add("other-value", NUMBER, schema_id=7)
    pair.target.add("orders-value", NUMBER, schema_id=7)
    pair.target.modes["orders-value"] = READONLY
    await pair.linked()
    assert pair.target.modes == {"orders-value": READONLY, "other-value": IMPORT}
    assert await pair.left_out() == [("orders-value", 2, SchemaReason.TARGET_READONLY)]
    assert "its mode on the target is READONLY" in pair.state[2]
    del pair.target.modes["orders-value"]
    await pair.round()
    assert pair.at_rest(), pair.state


async def test_what_is_refused_holds_nothing_else_up(pair: RegistryPair) -> None:
    """It is asked for again, after longer and longer pauses."""
    scene(pair.source)
    tried = []

    def no(method: str, path: str) -> None:
        if (method, path) == ("POST", "/subjects/orders-value/versions"):
            tried.append(path)
            raise Refusal(422, 42201, "Invalid schema")

    pair.target.before = no
    await pair.linked()
    assert set(pair.target.content()) == set(pair.source.content()) - {"orders-value", "lines-value"}
    assert pair.state[1] is TaskErrorCode.POLICY_VIOLATION_ERROR
    assert "Invalid schema (HTTP 422, 42201)" in pair.state[2]
    assert len(tried) == 2
    await pair.round(61.0)
    await pair.round(30.0)
    assert len(tried) == 4
    pair.target.before = lambda method, path: None
    await pair.round(200.0)
    assert pair.target.content() == pair.source.content()


async def test_registries_that_do_not_answer(pair: RegistryPair) -> None:
    def down(method: str, path: str) -> None:
        raise Refusal(503, 50003, "no leader")

    pair.source.before = down
    await pair.linked()
    assert pair.state[:2] == (TaskState.IN_ERROR, TaskErrorCode.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR)
    assert "no leader (HTTP 503, 50003)" in pair.state[2]
    pair.source.before, pair.target.before = lambda method, path: None, down
    with pytest.raises(TargetUnreachable, match="no leader"):
        await pair.plane.service.schema_sync.plan("l")


# -- asked for --------------------------------------------------------------------------------------------------------


async def test_a_plan_changes_nothing(pair: RegistryPair) -> None:
    scene(pair.source)
    await pair.link()
    plan = await pair.plane.service.schema_sync.plan("l")
    assert [str(change.kind) for change in plan.changes].count("REGISTER") == 7
    assert (pair.target.requests, dict(pair.plane.store.schemas)) == ([], {})


async def test_ids_that_records_have(pair: RegistryPair) -> None:
    """An id that only an old version has comes with it, when it is asked for."""
    scene(pair.source)
    await pair.linked(schema_versions="latest")
    assert 7 not in {entry.id for entry in pair.plane.store.schemas["l"]["orders-value"].entries}
    pair.plane.service.schema_sync.wanted("l", [7, 12_345])
    await pair.round(0.0)
    assert pair.target.content()["orders-value"][1][0] == 7
    plan = await pair.plane.service.schema_sync.sync("l", [12_345])
    assert not plan.changes
    assert "does not know id 12345" in pair.state[2]


async def test_promote_hands_the_subjects_over(pair: RegistryPair) -> None:
    scene(pair.source)
    pair.source.modes["copies-value"] = READONLY
    await pair.linked()
    assert await pair.left_out() == [("copies-value", 0, SchemaReason.UNTIL_PROMOTED)]
    assert (await pair.plane.service.schema_sync.promote("l")).promoted == 6
    assert pair.target.modes == {"copies-value": READONLY}
    pair.source.add("orders-value", STRICTER)
    pair.target.subjects["proto-value"][1].deleted = True
    changes_made = len(pair.target.requests)
    await pair.round()
    assert len(pair.target.requests) == changes_made
    assert pair.at_rest()
    assert await pair.left_out() == [("orders-value", 3, SchemaReason.AFTER_PROMOTE)]
    assert (await pair.plane.service.schema_sync.promote("l")).promoted == 6  # asked again
    assert len(pair.target.requests) == changes_made


async def test_promote_waits_for_what_is_not_there(pair: RegistryPair) -> None:
    scene(pair.source)
    pair.target.add("mine", {"type": "float"}, schema_id=100)
    await pair.linked()
    with pytest.raises(Conflict, match="1 versions are not on the target, such as 1 of 'other-value'"):
        await pair.plane.service.schema_sync.promote("l")
    with pytest.raises(Conflict, match="are not on the target"):
        await pair.plane.service.schema_sync.promote("l", validate_only=True)
    assert set(pair.target.modes.values()) == {IMPORT}
    assert (await pair.plane.service.schema_sync.promote("l", force=True)).promoted == 5


async def test_a_link_that_is_deleted_forgets_its_schemas(pair: RegistryPair) -> None:
    scene(pair.source)
    await pair.linked()
    await pair.sync.promote("l")
    await pair.plane.service.links.delete("l")
    assert not pair.plane.store.schemas["l"]
    assert pair.target.content() == pair.source.content()
    await pair.linked()  # and another one finds them
    assert pair.at_rest()
    assert all(entry.own for record in pair.plane.store.schemas["l"].values() for entry in record.entries)


async def test_a_link_leaves_no_subject_in_mode_import_unsaid(pair: RegistryPair) -> None:
    """Nobody else would take the mode away, and no client can register while it is there."""
    scene(pair.source)
    await pair.linked()
    links = pair.plane.service.links
    reason = "6 subject(s) of the target's registry are in mode IMPORT, such as 'copies-value'"
    with pytest.raises(Conflict, match=re.escape(reason)):
        await links.delete("l")
    plan = links.plan_delete("l")
    assert reason in plan.refusal
    assert [(one.kind, one.name, one.state) for one in plan.remains][:2] == [
        ("subject", "copies-value", "IMPORT"),
        ("subject", "lines-value", "IMPORT"),
    ]
    assert "lockgate link schemas promote l" in plan.refusal
    assert not links.plan_delete("l", force=True).refusal
    await pair.sync.promote("l")
    assert not links.plan_delete("l").remains
    await links.delete("l")


async def test_without_registries_nothing_is_copied(plane: Plane) -> None:
    with pytest.raises(Exception, match=r"schema\.sync\.enable: needs schema\.source\.registry\.url"):
        await plane.service.links.create("l", {**PROPERTIES, "schema.sync.enable": "true"})
    await plane.with_link()
    with pytest.raises(Exception, match=r"schema\.source\.registry\.url: missing"):
        await plane.service.schema_sync.plan("l")
    with pytest.raises(Conflict, match="copies no schemas"):
        await plane.service.schema_sync.promote("l")


def changes(*given: tuple[str, str]) -> list[Any]:
    return [ConfigChange(name, value) for name, value in given]


@pytest.mark.parametrize(
    ("module", "bound", "words"),
    [
        (look, "MAX_SUBJECTS", "6 subjects, 2 are possible: name fewer in schema.subject.filters"),
        (look, "MAX_VERSIONS", "more than 2 versions: take schema.versions=latest"),
        (remember, "MAX_ENTRIES", "has more than 1 versions; take schema.versions=latest"),
    ],
)
async def test_bounds(pair: RegistryPair, monkeypatch: pytest.MonkeyPatch, module: Any, bound: str, words: str) -> None:
    """What is over one is the task's error, and names the remedy."""
    scene(pair.source)
    monkeypatch.setattr(module, bound, 1 if module is remember else 2)
    await pair.linked()
    assert words in pair.state[2]


async def test_ids_that_wait_are_bounded(pair: RegistryPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_sync, "MAX_WANTED", 3)
    await pair.link(cluster_link_paused="true")
    sync = pair.plane.service.schema_sync
    sync.wanted("l", range(10))  # nothing is known of the link yet
    sync._rounds.known["l"] = schema_sync._SchemaLinkState(pair.plane.store.links["l"], 0.0, 0.0)
    sync.wanted("l", range(10))
    sync.wanted("l", range(20, 30))
    assert sync._rounds.known["l"].wanted == {0, 1, 2}


async def test_a_subject_of_another_context_is_left_alone(pair: RegistryPair) -> None:
    pair.source.add(":.other:orders-value", NUMBER)
    pair.source.add("orders-value", NUMBER)
    await pair.linked()
    assert set(pair.target.content()) == {"orders-value"}


LATE = {"type": "record", "name": "N", "fields": [*NUMBER["fields"], {"name": "z", "type": "int", "default": 0}]}


def registers_late(pair: RegistryPair, when: str, name: str = "orders-value", *, nth: int = 1) -> list[int]:
    """A client registers LATE right before the nth request of this kind that finds IMPORT, or that sets it. The mode
    that is in its way is taken off before. Returns its ids."""
    came: list[int] = []
    seen = 0

    def before(method: str, path: str) -> None:
        nonlocal seen
        if f"{method} {path}".startswith(when) and (method != "GET" or pair.target.modes.get(name) == IMPORT):
            seen += 1
            if seen == nth:
                pair.target.modes.pop(name, None)
                came.append(pair.target.add(name, LATE))

    pair.target.before = before
    return came


@pytest.mark.parametrize("had", [True, False], ids=["a subject with a version", "a new subject"])
@pytest.mark.parametrize("when", ["PUT /mode/orders-value", "GET /mode/orders-value"])
async def test_what_a_client_registers_behind_the_look_is_not_overwritten(
    pair: RegistryPair, monkeypatch: pytest.MonkeyPatch, had: bool, when: str
) -> None:
    """Before the mode is set, and when it is taken off again."""
    monkeypatch.setattr(schema_round, "SHOWN_AFTER_S", 0.0)
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", WIDER, schema_id=9)
    pair.source.add("other-value", NUMBER, schema_id=7)
    pair.source.levels["orders-value"] = "FULL"
    if had:
        pair.target.add("orders-value", NUMBER, schema_id=7)
    came = registers_late(pair, when)
    await pair.linked()
    assert len(came) == 1
    (row,) = [row for row in pair.target.content()["orders-value"].values() if row[0] == came[0]]
    assert '"z"' in row[1]["schema"]
    assert "orders-value" not in pair.target.modes, "clients go on registering"
    assert "orders-value" not in pair.target.levels
    assert pair.state[1] is TaskErrorCode.POLICY_VIOLATION_ERROR
    assert pair.target.content()["other-value"]  # which has nothing to do with it

    await pair.round(100_000.0)
    assert {name for name, *_ in await pair.left_out()} == {"orders-value"}
    assert "orders-value" not in pair.target.levels


async def test_a_mode_that_is_taken_off_between_two_registrations(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", WIDER, schema_id=9)
    came = registers_late(pair, "GET /mode/orders-value", nth=3)  # after it was set, before 1, before 2
    await pair.linked()
    assert [row[0] for row in pair.target.content()["orders-value"].values()] == [7, *came]
    await pair.round(100_000.0)
    assert await pair.left_out() == [("orders-value", 2, SchemaReason.VERSION_DIFFERS)]


async def test_a_mode_that_is_shown_late(pair: RegistryPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of several nodes answers from one that is behind: that is waited for, within a bound."""
    monkeypatch.setattr(schema_round, "SHOWN_AFTER_S", 0.0)
    pair.source.add("orders-value", NUMBER, schema_id=7)
    late = 3

    def before(method: str, path: str) -> None:
        nonlocal late
        if (method, path) == ("GET", "/mode/orders-value") and pair.target.modes and late:
            late -= 1
            raise Refusal(404, 40409, "no mode yet")

    pair.target.before = before
    await pair.linked()
    assert pair.at_rest()
    assert pair.target.content() == pair.source.content()


async def test_no_level_of_a_subject_that_a_client_made_meanwhile(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    looks = 0

    def before(method: str, path: str) -> None:
        nonlocal looks
        looks += (method, path) == ("GET", "/subjects/orders-value/versions")
        if looks == 2 and "orders-value" not in pair.target.subjects:
            pair.target.add("orders-value", LATE)

    pair.target.before = before
    await pair.linked(schema_ids="translate")
    assert not pair.target.levels
    await pair.round(100_000.0)
    assert not pair.target.levels
    assert pair.at_rest()
    assert len(pair.target.content()["orders-value"]) == 2


async def test_a_version_that_somebody_made_anew_is_not_deleted(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", WIDER, schema_id=9)
    await pair.linked()
    del pair.target.subjects["orders-value"][1]
    pair.target.add("orders-value", LATE, schema_id=70, version=1)
    pair.source.subjects["orders-value"][1].deleted = True
    await pair.round(10.0)
    assert not pair.target.subjects["orders-value"][1].deleted


# -- deleted versions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", ["fixed", "translate"])
async def test_a_version_that_somebody_soft_deleted_on_the_target_is_live_again(pair: RegistryPair, ids: str) -> None:
    """With fixed ids under its number, with translated ones under a new one; its id is the same. Nothing says before
    that it was copied."""
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", WIDER, schema_id=9)
    pair.source.levels["orders-value"] = "FULL"
    await pair.linked(schema_ids=ids)
    live, id_map = pair.target.content(), pair.ids()
    for number in (1, 2):
        pair.target.take("DELETE", f"/subjects/orders-value/versions/{number}", {}, None)
    assert not pair.target.levels
    plan = await pair.plane.service.schema_sync.plan("l")
    registered = [change.version for change in plan.changes if change.kind is ChangeKind.REGISTER]
    assert (registered, plan.plan.kept) == ([1, 2], 0)
    with pytest.raises(Conflict, match="are refused by the target|are not on the target"):
        await refused(pair, "POST", pair.plane.service.schema_sync.promote("l"))
    await pair.round(100_000.0)
    assert pair.at_rest(), pair.state
    assert pair.ids() == id_map
    assert pair.target.levels == {"orders-value": "FULL"}
    there = pair.target.content()
    if ids == "fixed":
        assert there == live
        assert pair.target.modes == {"orders-value": IMPORT}
    assert list(there["orders-value"].values()) == list(live["orders-value"].values())
    entries = pair.plane.store.schemas["l"]["orders-value"].entries
    assert [entry.target_version for entry in entries] == list(there["orders-value"])
    assert not any(entry.deleted for entry in entries)
    changes_made = len(pair.target.requests)
    await pair.round()
    assert len(pair.target.requests) == changes_made


async def refused(pair: RegistryPair, method: str, asked: Awaitable[Any]) -> None:
    """Asked while the target refuses requests of this kind."""

    def no(of: str, path: str) -> None:
        if of == method:
            raise Refusal(422, 42201, "Invalid schema")

    pair.target.before = no
    try:
        await asked
    finally:
        pair.target.before = lambda method, path: None


@pytest.mark.parametrize("ids", ["fixed", "translate"])
async def test_a_soft_deleted_version_of_the_targets_is_no_copy(pair: RegistryPair, ids: str) -> None:
    """It was so before the link came."""
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.target.add("orders-value", NUMBER, schema_id=7)
    pair.target.subjects["orders-value"][1].deleted = True
    await pair.linked(schema_ids=ids)
    assert pair.at_rest(), pair.state
    assert [row[2] for row in pair.target.content()["orders-value"].values()] == [False]
    assert pair.ids() == {7: 7}


async def test_while_it_cannot_be_live_again_it_counts_as_missing(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("other-value", WIDER, schema_id=9)
    await pair.linked()
    pair.target.take("DELETE", "/subjects/orders-value/versions/1", {}, None)
    await refused(pair, "POST", pair.round(100_000.0))
    assert "1 changes are refused, such as: " in pair.state[2]
    counts = pair.plane.service.schema_sync.counted("l")
    assert counts is not None
    assert (counts.versions, counts.refused) == (1, 1)
    (entry,) = pair.plane.store.schemas["l"]["orders-value"].entries
    assert entry.deleted, "as it is there"
    for validate_only in (True, False):
        with pytest.raises(Conflict, match="1 changes are refused by the target, such as REGISTER of 'orders-value'"):
            await pair.sync.promote("l", validate_only=validate_only)
    await pair.round(120.0)  # no thorough one
    assert pair.target.content() == pair.source.content()


async def test_a_version_that_is_made_anew_before_it_is_live_again_stays(pair: RegistryPair) -> None:
    """Between the look and the change somebody deletes it for good, and registers another schema under its number."""
    pair.source.add("orders-value", NUMBER, schema_id=7)
    await pair.linked()
    pair.target.take("DELETE", "/subjects/orders-value/versions/1", {}, None)

    def before(method: str, path: str) -> None:
        if (method, path) == ("PUT", "/mode/orders-value") and pair.target.subjects["orders-value"][1].deleted:
            del pair.target.subjects["orders-value"][1]
            pair.target.add("orders-value", LATE, schema_id=70)

    pair.target.before = before
    await pair.round(100_000.0)
    assert pair.target.content()["orders-value"][1][0] == 70
    await pair.round(100_000.0)
    assert pair.target.content()["orders-value"][1][0] == 70
    assert await pair.left_out() == [("orders-value", 1, SchemaReason.VERSION_DIFFERS)]


async def test_after_the_promote_a_soft_delete_is_the_targets_own(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    await pair.linked()
    await pair.sync.promote("l")
    pair.target.take("DELETE", "/subjects/orders-value/versions/1", {}, None)
    await pair.round(100_000.0)
    assert pair.at_rest()
    assert pair.target.subjects["orders-value"][1].deleted
    assert not (await pair.sync.plan("l")).changes


async def test_what_is_live_again_on_the_source_is_so_on_the_target(pair: RegistryPair) -> None:
    """Registered again it has a new number there, and the old one is gone; imported again it is in its place."""
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", WIDER, schema_id=9)
    for row in pair.source.subjects["orders-value"].values():
        row.deleted = True
    await pair.linked()
    assert pair.target.content() == pair.source.content()
    pair.source.subjects["orders-value"][2].deleted = False
    pair.source.add("orders-value", NUMBER)
    assert list(pair.source.subjects["orders-value"]) == [2, 3]
    await pair.round(61.0)
    assert pair.target.content() == pair.source.content()
    assert pair.at_rest(), pair.state
    assert pair.ids() == {7: 7, 9: 9}


async def test_a_version_that_the_targets_clients_registered_again_is_theirs(pair: RegistryPair) -> None:
    """The source's is soft-deleted: so was the link's, but not theirs."""
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", WIDER, schema_id=9)
    pair.source.subjects["orders-value"][1].deleted = True
    await pair.linked(schema_ids="translate")
    assert [row[2] for row in pair.target.content()["orders-value"].values()] == [True, False]
    pair.target.add("orders-value", NUMBER)
    await pair.round(100_000.0)
    assert {number: row[2] for number, row in pair.target.content()["orders-value"].items()} == {2: False, 3: False}
    assert pair.at_rest()


@pytest.mark.parametrize("ids", ["fixed", "translate"])
async def test_a_number_that_the_source_gave_again_is_another_version(pair: RegistryPair, ids: str) -> None:
    """After a delete for good of the newest version: records have the new id."""
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("orders-value", WIDER, schema_id=9)
    await pair.linked(schema_ids=ids)
    del pair.source.subjects["orders-value"][2]
    pair.source.add("orders-value", LATE, schema_id=12)
    pair.sync.wanted("l", [12])
    await pair.round(1.0)
    if ids == "fixed":  # of what the target has nothing is overwritten
        assert await pair.left_out() == [("orders-value", 2, SchemaReason.VERSION_DIFFERS)]
        assert not pair.at_rest()
    else:
        assert 12 in pair.ids()
        assert pair.at_rest()


async def test_an_id_that_is_asked_for_is_looked_for_on_the_target(pair: RegistryPair) -> None:
    """It was copied, and somebody has deleted it for good: it comes with the next round, not with the next thorough
    one."""
    pair.source.add("orders-value", NUMBER, schema_id=7)
    pair.source.add("other-value", WIDER, schema_id=9)
    await pair.linked()
    del pair.target.subjects["orders-value"], pair.target.schemas[7]
    pair.target.modes.clear()
    pair.sync.wanted("l", [7])
    await pair.round(1.0)
    assert pair.target.content() == pair.source.content()


async def test_versions_that_are_compared_on_the_target_are_bounded(
    pair: RegistryPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    for size in range(4):
        pair.target.add("orders-value", {"type": "fixed", "name": "F", "size": size})
    monkeypatch.setattr(look, "MAX_VERSIONS", 3)
    await pair.linked(schema_ids="translate")
    assert "more than 3 versions: take" in pair.state[2]


# -- registries that write a schema otherwise than they were told -----------------------------------------------------

NAMED = {"type": "record", "name": "x.N", "fields": []}


def apart(text: str) -> str:
    """Avro's full names as Confluent's registry writes them."""
    found = json.loads(text)
    if isinstance(found, dict) and "." in found.get("name", ""):
        found["namespace"], _, found["name"] = found["name"].rpartition(".")
    return json.dumps(found)


async def test_what_is_normalized_is_found_again(pair: RegistryPair) -> None:
    pair.source.add("orders-value", NUMBER, schema_id=7)
    await pair.linked(schema_ids="translate", schema_normalize="true")
    assert pair.at_rest(), pair.state
    assert pair.ids() == {7: 1}


async def test_an_id_that_the_link_has_imported_is_its_schema(pair: RegistryPair) -> None:
    """However the target writes it: another subject gets it, too."""
    pair.target.writes = apart
    pair.source.add("orders-value", NAMED, schema_id=7)
    await pair.linked()
    pair.source.add("copies-value", NAMED, schema_id=7)
    await pair.round()
    assert pair.at_rest(), pair.state
    assert pair.target.content()["copies-value"] == pair.target.content()["orders-value"]


async def test_the_target_says_whether_a_version_is_the_same(pair: RegistryPair) -> None:
    """The one that it writes otherwise, and that nobody has noted: a kill came before that."""
    pair.target.writes = apart
    pair.source.add("orders-value", NAMED, schema_id=7)
    pair.source.add("orders-value", {**NAMED, "fields": WIDER["fields"]}, schema_id=8)
    pair.source.subjects["orders-value"][1].deleted = True
    await pair.linked()
    there = pair.target.content()
    record = pair.plane.store.schemas["l"]["orders-value"]
    await pair.plane.store.put(replace(record, entries=()))
    await pair.round()
    assert pair.at_rest(), pair.state
    assert not await pair.left_out()
    assert pair.target.content() == there
    assert [entry.own for entry in pair.plane.store.schemas["l"]["orders-value"].entries] == [False, False]


async def test_a_registration_that_makes_no_version_is_not_the_links(pair: RegistryPair) -> None:
    """The target had it, and writes it otherwise: it stays, whatever the source deletes."""
    pair.target.writes = apart
    pair.target.take("POST", "/subjects/orders-value/versions", {}, {"schema": json.dumps(NAMED)})
    pair.source.add("orders-value", NAMED, schema_id=7)
    await pair.linked(schema_ids="translate")
    (entry,) = pair.plane.store.schemas["l"]["orders-value"].entries
    assert (entry.target_version, entry.own) == (1, True)
    pair.source.subjects["orders-value"][1].deleted = True
    await pair.round()
    assert not pair.target.subjects["orders-value"][1].deleted


@pytest.mark.parametrize("ids", ["fixed", "translate"])
async def test_what_names_a_subject_of_another_context_is_left_out(pair: RegistryPair, ids: str) -> None:
    """Ids of another context are others: 7 means two schemas there."""
    pair.source.add(":.other:base", {"type": "long"}, schema_id=7)
    pair.source.schemas[7] = pair.source._taken({"schema": json.dumps(NUMBER)}, {})
    pair.source.add("lines-value", using("N", ":.other:base", 1, "L"), schema_id=5)
    pair.source.add("orders-value", WIDER, schema_id=9)
    await pair.linked(schema_ids=ids)
    assert set(pair.target.content()) == {"orders-value"}
    assert await pair.left_out() == [("lines-value", 1, SchemaReason.REFERENCE_MISSING)]
    assert "which is in another context" in pair.state[2]
    assert set(pair.ids()) == {9}
