"""The id map: what records say, as of now."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gateway.state.schemas.id_map import IdMaps, id_map, same_on_target
from gateway.state.schemas.schema_records import SchemaEntry, SchemaRecord


def record(subject: str, *ids: tuple[int, int], link_id: int = 7) -> SchemaRecord:
    entries = tuple(SchemaEntry(number, one, number, other) for number, (one, other) in enumerate(ids, 1))
    return SchemaRecord(link="l", link_id=link_id, subject=subject, entries=entries)


@dataclass
class Views:
    applied: int = -1
    schemas: dict[str, dict[str, SchemaRecord]] = field(default_factory=dict)

    def put(self, *records: SchemaRecord) -> None:
        self.applied += 1
        self.schemas.setdefault("l", {}).update({one.subject: one for one in records})

    def drop(self, subject: str) -> None:
        self.applied += 1
        del self.schemas["l"][subject]


def test_the_lowest_id_counts_where_subjects_differ():
    records = [record("a", (1, 9), (2, 8)), record("b", (1, 5))]
    assert id_map(records) == {1: 5, 2: 8}
    assert same_on_target(records) == {9: 5}
    assert same_on_target(records[:1]) == {}


def test_ids_of_several_sources_are_one_class():
    records = [record("a", (1, 9), (2, 9)), record("b", (1, 5)), record("c", (2, 3))]
    assert same_on_target(records) == {9: 3, 5: 3}


def test_it_grows_with_the_records():
    views = Views()
    maps = IdMaps(views)
    assert maps.of("l", 7) == {}
    views.put(record("a", (1, 11)))
    assert maps.of("l", 7) == {1: 11}
    views.put(record("a", (1, 11), (2, 12)), record("b", (3, 13)))
    assert maps.of("l", 7) == {1: 11, 2: 12, 3: 13}


def test_a_subject_that_is_gone_takes_its_ids_along():
    views = Views()
    maps = IdMaps(views)
    views.put(record("a", (1, 11)), record("b", (3, 13)))
    assert maps.of("l", 7) == {1: 11, 3: 13}
    views.drop("b")
    assert maps.of("l", 7) == {1: 11}


def test_a_version_that_was_registered_anew_has_its_new_id_alone():
    """Somebody had deleted it on the target for good: the id of before, though lower, means nothing there."""
    views = Views()
    maps = IdMaps(views)
    views.put(record("a", (1, 11), (2, 12)))
    assert maps.of("l", 7) == {1: 11, 2: 12}
    views.put(record("a", (1, 15), (2, 12)))
    assert maps.of("l", 7) == {1: 15, 2: 12}


def test_another_link_of_the_name_knows_nothing():
    views = Views()
    maps = IdMaps(views)
    views.put(record("a", (1, 11)), record("b", (2, 12), link_id=8))
    assert maps.of("l", 7) == {1: 11}
    assert maps.of("l", 8) == {2: 12}


_RECORDS = st.dictionaries(
    st.sampled_from("abcd"), st.lists(st.tuples(st.integers(1, 5), st.integers(1, 8)), max_size=4), max_size=4
)


@given(st.lists(_RECORDS, max_size=4), st.booleans())
def test_what_was_made_step_by_step_is_what_is_made_at_once(steps, anew):
    views = Views()
    maps = IdMaps(views)
    known: dict[str, tuple[tuple[int, int], ...]] = {}
    for step in steps:
        for subject, ids in step.items():
            known[subject] = () if anew else known.get(subject, ())
            known[subject] += tuple(ids)
        views.put(*(record(subject, *ids) for subject, ids in known.items()))
        assert maps.of("l", 7) == id_map(views.schemas["l"].values())


@given(_RECORDS)
def test_every_id_of_a_class_has_the_lowest(given_records):
    records = [record(subject, *ids) for subject, ids in given_records.items()]
    lowest, ids = same_on_target(records), id_map(records)
    for one in records:
        for entry in one.entries:
            here, there = (lowest.get(found, found) for found in (ids[entry.id], entry.target_id))
            assert here == there
