"""When the group is to agree anew on who mirrors what: found by what has changed, as by all of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.leadership import PartitionAssigner
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.ownership import spread
from gateway.mirror.rules.period import MirrorPartition
from gateway.state.codec import key_of
from gateway.state.records import MirrorRecord, MirrorState, PartitionStart
from gateway.state.views import StateViews

KEYS = [("l", "t"), ("l", "u"), ("m", "v")]


class Assigner(PartitionAssigner):
    """`wants`: a round was asked for. None is ever due."""

    def __init__(self, views: StateViews) -> None:
        super().__init__(views, lambda: None)
        self.wants = False

    def soon(self) -> None:
        self.wants = True


def record(key: tuple[str, str], partitions: int, state: MirrorState) -> MirrorRecord:
    return MirrorRecord(
        link=key[0],
        source_topic=key[1],
        mirror_topic=key[1],
        mirror_id=1,
        readable=True,
        state=state,
        starts=(PartitionStart(0, 0),) * partitions,
    )


records = st.builds(
    record,
    st.sampled_from(KEYS),
    st.integers(1, 3),
    st.sampled_from((MirrorState.ACTIVE, MirrorState.STOPPED, MirrorState.PENDING_STOPPED)),
)
partitions = st.builds(
    lambda key, index: MirrorPartition(key[0], key[1], index), st.sampled_from(KEYS), st.integers(0, 2)
)
assignments = st.builds(
    lambda names, held: FleetAssignment(
        leader="a", owners=dict.fromkeys(names[:1], held) | dict.fromkeys(names[1:], frozenset())
    ),
    st.sampled_from((("a",), ("a", "b"))),
    st.frozensets(partitions, max_size=9),
)
steps = st.one_of(records, st.sampled_from(KEYS), assignments, st.none())


@given(st.lists(steps, max_size=20))
def test_a_round_is_asked_for_as_if_all_were_looked_at(story: list[Any]) -> None:
    views = StateViews()
    one = Assigner(views)
    assignment: FleetAssignment | None = None
    for step in story:
        if isinstance(step, MirrorRecord):
            views.apply([(key_of(step), step)], views.applied + 1)
        elif isinstance(step, tuple):
            views.apply([(key_of(record(step, 1, MirrorState.ACTIVE)), None)], views.applied + 1)
        else:
            assignment = step
        one.wants = False
        one.records_changed(assignment)
        held = () if assignment is None else assignment.owners.values()
        given_out = frozenset[MirrorPartition]().union(*held)
        is_shared = assignment is not None and len(assignment.owners) > 1
        assert one.wants is (is_shared and bool(spread(views.mirrors.values()) - given_out))


def test_what_is_given_out_already_is_not_looked_at_again() -> None:
    views = StateViews()
    settled = [record(key, 2, MirrorState.ACTIVE) for key in KEYS]
    views.apply([(key_of(each), each) for each in settled], 1)
    one = Assigner(views)
    assignment = FleetAssignment(leader="a", owners={"a": spread(settled), "b": frozenset()})
    one.records_changed(assignment)
    assert not one.wants
    looked: list[str] = []
    find = one._is_given

    def noted(topic: str) -> bool:
        looked.append(topic)
        return find(topic)

    one._is_given = noted  # type: ignore[method-assign]
    grown = record(("l", "u"), 3, MirrorState.ACTIVE)
    views.apply([(key_of(grown), grown)], 2)
    one.records_changed(assignment)
    assert looked == ["u"]
    assert one.wants
