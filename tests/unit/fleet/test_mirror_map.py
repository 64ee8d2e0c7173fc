"""Who mirrors what: what is worked out of changes is what is worked out of all.

A topic that the leader takes over for a while: what of it is not known yet is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.mirror_map import Key, MirrorMap, OwnershipOverrides
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.ownership import mirrored_by, owners_now
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.rules.period import MirrorPartition
from gateway.state.records import MirrorRecord, MirrorState, PartitionStart
from tests.support.control.mirror_records import mirror_record
from tests.support.fakes.fake_engine import status

NAMES = ("a", "b", "c")
KEYS: list[Key] = [("l", "t"), ("l", "u"), ("m", "t"), ("m", "v")]

records = st.builds(
    lambda key, partitions, state, readable: MirrorRecord(
        link=key[0],
        source_topic=key[1],
        mirror_topic=key[1],
        mirror_id=1,
        readable=readable,
        state=state,
        starts=(PartitionStart(0, 0),) * partitions,
    ),
    st.sampled_from(KEYS),
    st.integers(1, 3),
    st.sampled_from(MirrorState),
    st.booleans(),
)
partitions = st.builds(
    lambda key, index: MirrorPartition(key[0], key[1], index), st.sampled_from(KEYS), st.integers(0, 2)
)
assignments = st.builds(
    lambda leader, owned: FleetAssignment(
        leader=leader,
        owners={name: frozenset(each for each, at in owned.items() if at == name) for name in NAMES},
    ),
    st.sampled_from((*NAMES, "sidecar")),
    st.dictionaries(partitions, st.sampled_from(NAMES), max_size=8),
)
changes = st.one_of(
    records,
    st.sampled_from(KEYS).map(lambda key: ("gone", key)),
    st.sampled_from(KEYS).map(lambda key: ("override", key)),
    assignments,
    st.frozensets(st.sampled_from(("b", "c")), max_size=2).map(lambda absent: ("absent", absent)),
)


def expected(
    assignment: FleetAssignment | None, known: dict[Key, MirrorRecord], absent: frozenset[str], overridden: set[Key]
) -> dict[MirrorPartition, str]:
    if assignment is None:
        return {}
    owners = {
        name: frozenset(each for each in held if (each.link, each.topic) not in overridden)
        for name, held in assignment.owners.items()
    }
    found = mirrored_by(owners_now(assignment.leader, owners, known.values()), absent)
    return {each: name for name, held in found.items() for each in held}


@given(st.lists(st.lists(changes, max_size=3), max_size=12))
def test_a_change_is_worked_out_as_all_of_it_would_be(steps: list[list[object]]) -> None:
    one, known = MirrorMap("a"), dict[Key, MirrorRecord]()
    absent: frozenset[str] = frozenset()
    one.assignment = FleetAssignment(leader="a", owners={name: frozenset() for name in NAMES})
    for step in steps:
        changed: set[Key] = set()
        for change in step:
            match change:
                case MirrorRecord():
                    key = change.link, change.mirror_topic
                    known[key] = change
                    changed.add(key)
                case FleetAssignment():
                    one.assignment = change
                case ("gone", tuple() as key):
                    if known.pop(key, None) is not None:
                        changed.add(key)
                case ("override", tuple() as key):
                    one.overridden ^= {key}
                case ("absent", frozenset() as silent):
                    absent = silent
        found = one.find(known, changed, absent)
        one.keep(found)
        held = expected(one.assignment, known, absent, one.overridden)
        assert all(one.is_mine(each) is (name == "a") for each, name in held.items())
        assert {each: name for name, of in one.by_name().items() for each in of} == held
        assert all(one.holder(each) == name for each, name in held.items())
        for link, topic in KEYS:
            assert one.of(link, topic) == {each for each in held if (each.link, each.topic) == (link, topic)}


def test_an_heir_gives_back_what_an_assignment_gave_it_too_early() -> None:
    """A mirror that is not readable yet is its leader's, whatever was given out; while that is silent, its heir's."""
    one, part = MirrorMap("a"), MirrorPartition("l", "t", 0)
    record = MirrorRecord(
        link="l", source_topic="t", mirror_topic="t", mirror_id=1, readable=False, starts=(PartitionStart(0, 0),)
    )
    owners = {"a": frozenset({part}), "b": frozenset[MirrorPartition]()}
    one.assignment = FleetAssignment(leader="b", owners=owners)
    for silent, holder in ((frozenset({"b"}), "a"), (frozenset[str](), "b")):
        one.keep(one.find({("l", "t"): record}, (), silent))
        assert one.holder(part) == holder


def test_a_record_that_changes_is_all_that_is_looked_at() -> None:
    one = MirrorMap("a")
    known = {
        ("l", f"t{number}"): MirrorRecord(
            link="l",
            source_topic=f"t{number}",
            mirror_topic=f"t{number}",
            mirror_id=number,
            readable=True,
            starts=(PartitionStart(0, 0),) * 2,
        )
        for number in range(5)
    }
    one.assignment = FleetAssignment(leader="a", owners={"a": frozenset(), "b": frozenset()})
    one.keep(one.find(known, known, frozenset()))
    known["l", "t3"] = replace(known["l", "t3"], state=MirrorState.PAUSED)
    found = one.find(known, [("l", "t3")], frozenset())
    assert found.partial
    assert set(found.topics) == {("l", "t3")}
    one.keep(found)
    one.assignment = FleetAssignment(leader="b", owners={"a": frozenset(), "b": frozenset()})
    found = one.find(known, [], frozenset())
    assert found.partial
    assert set(found.topics) == set(known), "who leads has what nobody was given"


def test_an_absence_is_worked_out_for_those_that_it_concerns() -> None:
    one, known = MirrorMap("a"), _mirrors(6)
    at = {key: "b" if number < 2 else "c" for number, key in enumerate(known)}
    owners = {name: frozenset(MirrorPartition(*key, 0) for key, of in at.items() if of == name) for name in "abc"}
    one.assignment = FleetAssignment(leader="a", owners=owners)
    one.keep(one.find(known, known, frozenset()))
    lost = one.find(known, [], frozenset({"b"}))
    assert set(lost.topics) == {key for key, name in at.items() if name == "b"}
    one.keep(lost)
    assert not one.find(known, [], frozenset({"b"})).topics, "while it is away a record costs what it did"
    back = one.find(known, [], frozenset())
    assert set(back.topics) == set(lost.topics)


def _mirrors(count: int) -> dict[Key, MirrorRecord]:
    one = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, readable=True)
    one = replace(one, starts=(PartitionStart(0, 0),))
    return {("l", f"t{number}"): replace(one, mirror_topic=f"t{number}") for number in range(count)}


def test_who_is_new_asks_everybody_and_later_whoever_has_it() -> None:
    one, wanted = MirrorMap("a"), frozenset({MirrorPartition("l", "t", 0)})
    assert one.whom_to_ask(wanted, frozenset({"b"})) == dict.fromkeys(wanted, "*")
    assert one.whom_to_ask(wanted, frozenset()) == {}
    known = {("l", "t"): MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, readable=True)}
    known["l", "t"] = replace(known["l", "t"], starts=(PartitionStart(0, 0),))
    one.assignment = FleetAssignment(leader="a", owners={"a": frozenset(), "b": wanted})
    one.keep(one.find(known, known, frozenset()))
    assert one.whom_to_ask(wanted, frozenset({"b"})) == dict.fromkeys(wanted, "b")
    assert one.whom_to_ask(wanted, frozenset({"c"})) == {}


PARTS = frozenset(MirrorPartition("l", "t", index) for index in range(2))


class Engine:
    """`told`: what it says of the topic now."""

    def __init__(self) -> None:
        self.told: Sequence[PartitionStatus] = ()

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        return mirror_record(link=link, source_topic=topic, mirror_topic=topic, mirror_id=1)

    def status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        return self.told


@pytest.mark.parametrize(
    ("told", "come"),
    [
        ((), False),
        ((status(0),), False),
        ((status(0), status(1, mirrored_to=99)), False),
        ((status(0, mirrored_to=89), status(1)), False),
        ((status(0, mirrored_to=90), status(1)), True),
        ((status(0, mirrored_to=90, source_end=None), status(1)), True),
        ((status(0, mirrored_to=None), status(1)), False),
        ((status(0), status(1, source_end=None)), False),
    ],
)
def test_a_partition_of_which_nobody_has_told_is_waited_for(told: Sequence[PartitionStatus], come: bool) -> None:
    """Of partition 0 the source's end was told before it moved; of partition 1 its end is the one seen from here."""
    known, engine = MirrorMap("a"), Engine()
    known._topics = {("l", "t"): dict.fromkeys(PARTS, "a")}
    claims = OwnershipOverrides(known, engine, lambda: PARTS, engine.status, lambda: None)  # type: ignore[arg-type]
    engine.told = told
    assert claims._has_come_to("l", "t", {0: 90}) is come
