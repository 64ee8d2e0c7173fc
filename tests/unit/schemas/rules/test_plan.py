"""What is to be done: carried out it leaves nothing to do, wherever it broke off, and loses nothing of the target's.

gateway/schemas/rules/plan.py
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.schemas.rules.model import IMPORT, READONLY, Schema, SchemaReference, Subject, Version, VersionKey
from gateway.schemas.rules.plan import plan, references_to_read, why_not_as_seen, why_not_imported
from gateway.schemas.rules.remember import after, at_promote, before, references_on_target, with_entries
from gateway.schemas.rules.scene import ChangeKind, SchemaPlanInput, SchemaPlanOptions, SchemaReason, SchemaRoundPlan
from gateway.state.schemas.id_map import id_map
from gateway.state.schemas.schema_options import SchemaIds, SchemaVersions
from gateway.state.schemas.schema_records import SchemaEntry, SchemaRecord


def schema(number: int, *names: tuple[str, int]) -> Schema:
    references = tuple(SchemaReference(f"N{at}", subject, version) for at, (subject, version) in enumerate(names))
    return Schema(json.dumps({"type": "fixed", "name": "F", "size": number}), references=references)


def subject(*versions: tuple[int, int, Schema], deleted: tuple[int, ...] = (), **more: str) -> Subject:
    numbers = frozenset(number for number, _, _ in versions)
    found = {number: Version(number, schema_id, one) for number, schema_id, one in versions}
    return Subject(numbers=numbers, active=numbers - set(deleted), versions=found, **{"level": "", **more})


class Target:
    """A registry as far as a plan knows it. It refuses what a real one would take and should not."""

    def __init__(self, ids: SchemaIds, own: dict[str, dict[int, tuple[int, Schema]]]) -> None:
        self.ids, self.own = ids, own
        self.rows = {name: dict(rows) for name, rows in own.items()}
        self.deleted: set[VersionKey] = set()
        self.modes: dict[str, str] = {}
        self.levels: dict[str, str] = {}
        self.records: dict[str, SchemaRecord] = {}
        self.own_subjects: frozenset[str] = frozenset()

    def scene(self, source: dict[str, Subject]) -> SchemaPlanInput:
        target = {
            name: Subject(
                numbers=frozenset(rows),
                active=frozenset(number for number in rows if VersionKey(name, number) not in self.deleted),
                versions={number: Version(number, *row) for number, row in rows.items()},
                level=self.levels.get(name, ""),
                mode=self.modes.get(name, ""),
            )
            for name, rows in self.rows.items()
        }
        taken = {row[0]: row[1].digest for rows in self.rows.values() for row in rows.values()}
        return SchemaPlanInput(
            source=source,
            target=target,
            records=self.records,
            taken=taken,
            options=SchemaPlanOptions(self.ids),
            target_level="FULL",
        )

    def carry_out(self, source: dict[str, Subject], found: SchemaRoundPlan, changes: int) -> None:
        self.own_subjects = found.own
        for name, entries in found.present.items():
            record = self.record(name)
            self.records[name] = with_entries(record, entries)
        for change in found.changes[:changes]:
            self.records[change.subject] = before(change, self.record(change.subject))
            made: SchemaEntry | None = None
            match change.kind:
                case ChangeKind.MODE:
                    assert change.force or not self.rows.get(change.subject)
                    self.modes[change.subject] = change.value
                case ChangeKind.LEVEL:
                    self.levels[change.subject] = change.value
                case ChangeKind.DELETE:
                    (entry,) = (one for one in self.record(change.subject).entries if one.version == change.version)
                    assert not entry.own
                    self.deleted.add(VersionKey(change.subject, entry.target_version))
                case ChangeKind.REGISTER:
                    made = self.registered(change.subject, source[change.subject].versions[change.version])
            self.records[change.subject] = after(change, self.record(change.subject), made)

    def registered(self, name: str, version: Version) -> SchemaEntry:
        references = references_on_target(version.schema.references, self.records)  # they are there
        there = replace(version.schema, references=references)
        rows = self.rows.setdefault(name, {})
        number, schema_id = version.version, version.id
        if self.ids is SchemaIds.FIXED:
            assert self.modes.get(name) == IMPORT
            assert number not in rows or (rows[number][0] == schema_id and VersionKey(name, number) in self.deleted)
            self.deleted.discard(VersionKey(name, number))
            assert all(
                row[0] != schema_id or row[1].digest == there.digest
                for each in self.rows.values()
                for row in each.values()
            )
        else:
            same = [(at, row) for at, row in rows.items() if row[1].digest == there.digest]
            live = [one for one in same if VersionKey(name, one[0]) not in self.deleted]
            if live:
                return SchemaEntry(version.version, version.id, live[0][0], live[0][1][0])
            assert self.levels.get(name, "FULL") == "NONE" or name in self.own
            number = max(rows, default=0) + 1
            schema_id = 1 + max((row[0] for each in self.rows.values() for row in each.values()), default=0)
            for at, row in same:  # live again, it has another number and its id
                del rows[at]
                self.deleted.discard(VersionKey(name, at))
                schema_id = row[0]
        rows[number] = (schema_id, there)
        return SchemaEntry(version.version, version.id, number, schema_id)

    def record(self, name: str) -> SchemaRecord:
        own = name in self.own_subjects
        return self.records.get(name) or SchemaRecord(link="l", link_id=1, subject=name, own=own)


@st.composite
def sources(draw: st.DrawFn) -> dict[str, Subject]:
    """Subjects that name earlier versions of one another; the same schema may be in several of them."""
    made: dict[str, list[tuple[int, int, Schema]]] = {}
    ids: dict[str, int] = {}
    for _ in range(draw(st.integers(1, 12))):
        name = draw(st.sampled_from("abcd"))
        there = [(other, number) for other, rows in made.items() for number, *_ in rows]
        named = draw(st.lists(st.sampled_from(there), max_size=2, unique=True)) if there else []
        one = schema(draw(st.integers(1, 6)), *named)
        schema_id = ids.setdefault(one.digest, draw(st.integers(len(ids) * 10 + 1, len(ids) * 10 + 9)))
        rows = made.setdefault(name, [])
        if all(row[2].digest != one.digest for row in rows):
            rows.append((draw(st.integers(1, 3)) + (rows[-1][0] if rows else 0), schema_id, one))
    found = {}
    for name, rows in made.items():
        deleted = draw(st.lists(st.sampled_from([number for number, *_ in rows]), unique=True))
        found[name] = subject(
            *rows, deleted=tuple(deleted), level=draw(st.sampled_from(["", "NONE", "FULL", "BACKWARD"]))
        )
    return found


@settings(max_examples=150)
@given(sources(), st.sampled_from(SchemaIds), st.lists(st.integers(0, 4), max_size=12), st.booleans())
def test_whatever_breaks_off_it_comes_to_the_same_end(source, ids, steps, has_own):
    """`steps`: how many changes each round makes before it breaks off."""
    own = {"a": {1: (10_000, schema(99))}, "z": {1: (10_001, schema(98))}} if has_own else {}
    target = Target(ids, own)
    for changes in [*steps, 10_000]:
        target.carry_out(source, plan(target.scene(source)), changes)
    rest = plan(target.scene(source))
    assert not rest.changes
    left = {VersionKey(one.subject, one.version) for one in rest.left_out}
    if not has_own:
        assert not left
    for name, rows in own.items():
        assert {number: target.rows[name][number] for number in rows} == rows
        assert not any(VersionKey(name, number) in target.deleted for number in rows)
        assert name not in target.levels
    ids_there = id_map(target.records.values())
    for name, one in source.items():
        for number, version in one.versions.items():
            if VersionKey(name, number) in left:
                continue
            (entry,) = (entry for entry in target.record(name).entries if entry.version == number)
            schema_id, there = target.rows[name][entry.target_version]
            assert there.text == version.schema.text
            assert (VersionKey(name, entry.target_version) in target.deleted) == (number not in one.active)
            if ids is SchemaIds.FIXED:
                assert (entry.target_version, schema_id) == (number, version.id)
            assert ids_there[version.id] <= schema_id
        if name in target.rows and name not in own:
            assert (target.levels.get(name) or "FULL") == (one.level or "FULL")


@settings(max_examples=150)
@given(sources(), st.sampled_from(SchemaIds), st.data())
def test_what_somebody_deletes_on_the_target_is_live_again(source, ids, data):
    """Softly or for good; the source may take soft deletes back meanwhile."""
    target = Target(ids, {})
    target.carry_out(source, plan(target.scene(source)), 10_000)
    id_map_before = id_map(target.records.values())
    there = sorted(VersionKey(name, number) for name, rows in target.rows.items() for number in rows)
    for key in data.draw(st.lists(st.sampled_from(there), unique=True)):
        if data.draw(st.booleans()):
            target.deleted.add(key)
            if all(VersionKey(key.subject, number) in target.deleted for number in target.rows[key.subject]):
                target.modes.pop(key.subject, None)
                target.levels.pop(key.subject, None)
        elif ids is SchemaIds.FIXED:  # ids that are given anew are others
            del target.rows[key.subject][key.version]
            target.deleted.discard(key)
    source = {
        name: replace(one, active=one.numbers if data.draw(st.booleans()) else one.active)
        for name, one in source.items()
    }
    found = plan(target.scene(source))
    hidden = {
        VersionKey(name, entry.version)
        for name, record in target.records.items()
        for entry in record.entries
        if VersionKey(name, entry.target_version) in target.deleted and entry.version in source[name].active
    }
    assert hidden <= {change.key for change in found.changes if change.kind is ChangeKind.REGISTER}
    for changes in (data.draw(st.integers(0, 4)), 10_000, 10_000):
        target.carry_out(source, plan(target.scene(source)), changes)
    assert not plan(target.scene(source)).changes
    for name, one in source.items():
        for entry in target.record(name).entries:
            is_deleted = VersionKey(name, entry.target_version) in target.deleted
            assert is_deleted == entry.deleted == (entry.version not in one.active)
            assert target.rows[name][entry.target_version][0] == entry.target_id
    named = any(version.schema.references for one in source.values() for version in one.versions.values())
    if ids is SchemaIds.FIXED or not named:  # what names a version by its new number is another schema
        assert id_map(target.records.values()) == id_map_before


def test_references_go_first_also_over_subjects():
    source = {
        "a": subject((1, 30, schema(1)), (2, 10, schema(2, ("b", 1)))),
        "b": subject((1, 20, schema(3, ("a", 1)))),
    }
    found = plan(SchemaPlanInput(source=source, target={}))
    registered = [change.key for change in found.changes if change.kind is ChangeKind.REGISTER]
    assert registered == [("a", 1), ("b", 1), ("a", 2)]
    assert [change.subject for change in found.changes if change.kind is ChangeKind.MODE] == ["a", "b"]


def test_what_is_named_in_a_circle_is_left_out():
    source = {"a": subject((1, 1, schema(1, ("b", 1)))), "b": subject((1, 2, schema(2, ("a", 1))))}
    found = plan(SchemaPlanInput(source=source, target={}))
    assert not found.changes
    assert {one.reason for one in found.left_out} == {SchemaReason.REFERENCE_CYCLE}


def test_without_what_it_names_a_version_is_left_out():
    """Over any number of steps; versions behind it in its subject are not."""
    source = {
        "a": subject((1, 1, schema(1, ("gone", 1))), (2, 4, schema(4))),
        "b": subject((1, 2, schema(2, ("a", 1)))),
        "c": subject((1, 3, schema(3, ("b", 1)))),
    }
    found = plan(SchemaPlanInput(source=source, target={}))
    assert [(one.subject, one.reason) for one in found.left_out] == [
        ("a", SchemaReason.REFERENCE_MISSING),
        ("b", SchemaReason.REFERENCE_LEFT_OUT),
        ("c", SchemaReason.REFERENCE_LEFT_OUT),
    ]
    assert [change.key for change in found.changes if change.kind is ChangeKind.REGISTER] == [("a", 2)]
    assert references_to_read(source, {}) == {("gone", 1)}


def test_only_the_latest():
    source = {"a": subject((1, 1, schema(1)), (2, 2, schema(2)), (3, 3, schema(3)), deleted=(3,))}
    latest = replace(source["a"], versions={2: source["a"].versions[2]})  # as it is read then
    options = SchemaPlanOptions(versions=SchemaVersions.LATEST)
    found = plan(SchemaPlanInput(source={"a": latest}, target={}, options=options))
    assert [change.key for change in found.changes if change.kind is ChangeKind.REGISTER] == [("a", 2)]


@pytest.mark.parametrize("changed", ["id", "schema", "number"])
def test_a_subject_that_is_another_one_is_never_imported_into(changed):
    source = {"a": subject((1, 1, schema(1)), (2, 2, schema(2)))}
    there = {"id": (1, 5, schema(1)), "schema": (1, 1, schema(9)), "number": (7, 1, schema(1))}[changed]
    found = plan(SchemaPlanInput(source=source, target={"a": subject(there)}))
    assert not found.changes
    reasons = {one.reason for one in found.left_out}
    assert reasons == {SchemaReason.SUBJECT_DIFFERS if changed == "number" else SchemaReason.VERSION_DIFFERS}


def test_what_was_deleted_on_the_target_for_good_is_made_again():
    entry = SchemaEntry(1, 7, 1, 7)
    record = SchemaRecord(link="l", link_id=1, subject="a", entries=(entry,), imports=True)
    source = {"a": subject((1, 7, schema(1)))}
    found = plan(SchemaPlanInput(source=source, target={"a": Subject()}, records={"a": record}))
    assert [change.kind for change in found.changes] == [ChangeKind.MODE, ChangeKind.REGISTER]
    assert not plan(
        SchemaPlanInput(source=source, target={"a": subject((1, 7, schema(1)))}, records={"a": record})
    ).changes


def test_what_the_source_has_no_more_stays():
    record = SchemaRecord(link="l", link_id=1, subject="a", entries=(SchemaEntry(1, 7, 1, 7), SchemaEntry(2, 8, 2, 8)))
    for source, left in (({"a": Subject()}, [0]), ({"a": subject((2, 8, schema(2)))}, [1])):
        found = plan(SchemaPlanInput(source=source, target={}, records={"a": record}))
        assert not found.changes
        assert [(one.version, one.reason) for one in found.left_out] == [
            (at, SchemaReason.GONE_ON_SOURCE) for at in left
        ]


def test_modes_come_with_the_promote():
    records = {
        name: SchemaRecord(link="l", link_id=1, subject=name, imports=name != "c", promoted=name == "d")
        for name in "abcd"
    }
    source = {name: subject((1, 1, schema(1)), mode=READONLY[0] if name in "ac" else IMPORT) for name in "abcd"}
    changes = [(change.subject, change.value) for change in at_promote(source, records)]
    assert changes == [("a", READONLY[0]), ("b", ""), ("c", READONLY[0])]


@pytest.mark.parametrize(
    ("mode", "there", "known", "words"),
    [
        (IMPORT, {1, 2}, {1, 2, 3}, ""),
        (IMPORT, {1, 2}, {1}, "version 2 came"),
        ("", {1}, {1}, "not its own"),
        ("READWRITE", set(), set(), "READWRITE"),
    ],
)
def test_only_what_was_seen_is_imported_into(mode: str, there: set[int], known: set[int], words: str) -> None:
    why = why_not_imported(mode, there, known)
    assert words in why
    assert bool(why) == bool(words)


def test_the_first_strange_version_is_named() -> None:
    assert why_not_as_seen({1, 5, 4}, {1}).startswith("version 4 ")
    assert not why_not_as_seen(set(), {1})
