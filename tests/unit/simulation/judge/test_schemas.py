"""What a registry beside the target is to hold at rest."""

from __future__ import annotations

from tests.simulation.judge.schemas import Version, wrong_schemas

ONE: Version = (110, {"schema": "one"}, False)
TWO: Version = (120, {"schema": "two"}, False)
THEIRS: Version = (3, {"schema": "theirs"}, False)
IMPORT = {"a": "IMPORT"}


def test_what_the_source_has_is_there_under_its_ids() -> None:
    assert not list(wrong_schemas({"a": {1: ONE}}, {"a": {1: ONE}}, {}, IMPORT))
    (missing,) = wrong_schemas({"a": {1: ONE, 2: TWO}}, {"a": {1: ONE}}, {}, IMPORT)
    assert missing == f"version 2 of a is {TWO} on the source, and None on the target"
    (other_id,) = wrong_schemas({"a": {1: ONE}}, {"a": {1: (7, *ONE[1:])}}, {}, IMPORT)
    assert "(7, " in other_id


def test_what_a_client_has_registered_stays() -> None:
    theirs = {("a", 1): THEIRS}
    assert not list(wrong_schemas({"a": {1: ONE}}, {"a": {1: THEIRS}}, theirs, {}))
    (overwritten,) = wrong_schemas({"a": {1: ONE}}, {"a": {1: ONE}}, theirs, {})
    assert overwritten == f"version 1 of a, which a client has registered, was {THEIRS} and is {ONE}"


def test_a_subject_of_the_targets_own_takes_registrations() -> None:
    (locked,) = wrong_schemas({"a": {1: ONE}}, {"a": {1: THEIRS}}, {("a", 1): THEIRS}, IMPORT)
    assert locked == "a is the target's own, and takes no registration: its mode is IMPORT"


def test_nothing_else_is_there() -> None:
    (strange,) = wrong_schemas({}, {"b": {1: ONE}}, {}, {})
    assert strange == "b is on the target, and nobody has registered it"
