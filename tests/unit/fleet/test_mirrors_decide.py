"""What runs here: decided on by what has changed, it is what deciding on all of it comes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.fleet.mirror_map import Key
from gateway.fleet.mirrors import FleetMirrors
from gateway.fleet.peers.channel import Peers
from gateway.fleet.releases import EVERYBODY
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.ownership import mirrored_by, owners_now, partitions_of
from gateway.fleet.rules.ownership_transfer import OwnershipTransfer
from gateway.mirror.rules.period import MirrorPartition
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state.codec import key_of
from gateway.state.records import MirrorRecord, MirrorState, PartitionStart
from gateway.state.views import StateViews

NAMES = ("a", "b", "c")
KEYS: list[Key] = [("l", "t"), ("l", "u"), ("m", "v")]
Asked = dict[str, frozenset[MirrorPartition]]


def record(key: Key, partitions: int, state: MirrorState, readable: bool = True) -> MirrorRecord:
    return MirrorRecord(
        link=key[0],
        source_topic=key[1],
        mirror_topic=key[1],
        mirror_id=1,
        readable=readable,
        state=state,
        starts=(PartitionStart(0, 0),) * partitions,
    )


class Engine:
    """`owned`: what it was told to run."""

    def __init__(self) -> None:
        self.owned: set[MirrorPartition] = set()

    def own(self, partitions: frozenset[MirrorPartition]) -> None:
        self.owned = set(partitions)

    def own_changed(self, begun: Collection[MirrorPartition], ended: Collection[MirrorPartition]) -> None:
        self.owned = (self.owned | set(begun)) - set(ended)


class Shipped:
    """Gateway `a`, which asks nobody; `asked`: whom it would, since the last time."""

    def __init__(self) -> None:
        self.views, self.engine = StateViews(), Engine()
        self.now = 0.0
        self.mirrors: Any = FleetMirrors(
            name="a",
            peers=Peers("a", "1", lambda: "s", lambda gateway, said: None),
            engine=self.engine,  # type: ignore[arg-type]
            progress=MirrorProgress(),
            records=self.views,
            clock=lambda: self.now,
        )
        self.asked: Asked = {}
        vars(self.mirrors._releases)["ask"] = self.asked.__setitem__

    def apply(self, record: MirrorRecord, stored: MirrorRecord | None) -> None:
        self.views.apply([(key_of(record), stored)], self.views.applied + 1)


class ByAll:
    """The same, from everything that there is."""

    def __init__(self, shipped: Shipped) -> None:
        self.transfer = OwnershipTransfer()
        self.held: Mapping[MirrorPartition, str] | None = None
        self._of = shipped

    def decide(self) -> Asked:
        mirrors, views, here = self._of.mirrors, self._of.views, self.transfer.here
        beats, overridden = mirrors._heartbeats, frozenset(mirrors._map.overridden)
        absent = beats.silent | beats.leaving
        found = self._holders(absent)
        wanted, holders = here, dict[MirrorPartition, str]()
        if not mirrors._leaving:
            stays = overridden | {
                key
                for key, one in views.mirrors.items()
                if key in mirrors.promoted() and one.state is MirrorState.PENDING_STOPPED
            }
            there = frozenset().union(*(partitions_of(one) for one in views.mirrors.values()))
            wanted = frozenset(each for each, name in found.items() if name == "a").union(
                each for each in here & there if (each.link, each.topic) in stays
            )
            others = mirrors._map.nodes(beats.silent - beats.leaving)
            if others and self.held is None:
                holders = dict.fromkeys(wanted - here, EVERYBODY)
            elif others and self.held is not None:
                holders = {each: at for each in wanted - here if (at := self.held.get(each, "")) in others}
        banned = [
            each
            for key, one in views.mirrors.items()
            if mirrors.leader != "a" and (key[1] in mirrors.paused() or key in beats.paused_for_job)
            for each in partitions_of(one) | {each for each in here if (each.link, each.topic) == key}
        ]
        asked = self.transfer.want(wanted, holders, self._of.now, at_once=banned, silent=absent)
        self.held = None if mirrors._map.assignment is None else found
        return asked

    def _holders(self, absent: frozenset[str]) -> Mapping[MirrorPartition, str]:
        assignment, overridden = self._of.mirrors._map.assignment, self._of.mirrors._map.overridden
        if assignment is None:
            return {}
        owners = {
            name: frozenset(each for each in held if (each.link, each.topic) not in overridden)
            for name, held in assignment.owners.items()
        }
        found = mirrored_by(owners_now(assignment.leader, owners, self._of.views.mirrors.values()), absent)
        return {each: name for name, held in found.items() for each in held}


partitions = st.builds(
    lambda key, index: MirrorPartition(key[0], key[1], index), st.sampled_from(KEYS), st.integers(0, 2)
)
some_keys = st.frozensets(st.sampled_from(KEYS), max_size=2)
some = st.frozensets(partitions, min_size=1, max_size=4)
assignments = st.builds(
    lambda leader, owned: FleetAssignment(
        leader=leader, owners={name: frozenset(p for p, at in owned.items() if at == name) for name in NAMES}
    ),
    st.sampled_from((*NAMES, "sidecar")),
    st.dictionaries(partitions, st.sampled_from(NAMES), max_size=8),
)
steps = st.one_of(
    st.builds(record, st.sampled_from(KEYS), st.integers(1, 3), st.sampled_from(MirrorState), st.booleans()),
    st.builds(record, st.sampled_from(KEYS), st.integers(1, 3), st.just(MirrorState.ACTIVE)),
    assignments,
    st.just(("assigned", None)),
    st.tuples(st.just("gone"), st.sampled_from(KEYS)),
    st.tuples(st.just("overridden"), st.sampled_from(KEYS)),
    st.tuples(st.sampled_from(("paused", "paused_for_job", "promoted")), some_keys),
    st.tuples(st.sampled_from(("silent", "leaving")), st.frozensets(st.sampled_from(("b", "c")), max_size=1)),
    st.tuples(st.just("time"), st.sampled_from((0.5, 2.0, 5.0))),
    st.tuples(st.just("give"), some),
    st.tuples(st.just("answered"), some),
    st.just(("leave", None)),
)


def take(shipped: Shipped, by_all: ByAll, step: Any) -> None:
    """One of `steps`, at both."""
    mirrors = shipped.mirrors
    match step:
        case MirrorRecord():
            shipped.apply(step, step)
        case FleetAssignment() | ("assigned", None):
            mirrors._take(step if isinstance(step, FleetAssignment) else None)
            by_all.transfer.reassigned()
        case ("gone", key):
            shipped.apply(record(key, 1, MirrorState.ACTIVE), None)
        case ("overridden", key):
            mirrors._map.overridden ^= {key}
        case (what, found):
            happens(shipped, (mirrors._transfer, by_all.transfer), what, found)


def happens(shipped: Shipped, transfers: Sequence[OwnershipTransfer], what: str, found: Any) -> None:
    """What is no record and no assignment."""
    mirrors = shipped.mirrors
    match what:
        case "paused":
            mirrors.paused = lambda: [topic for _, topic in found]
        case "promoted":
            mirrors.promoted = lambda: found
        case "paused_for_job" | "silent" | "leaving":
            setattr(mirrors._heartbeats, what, found)
        case "time":
            shipped.now += found
        case "give":
            for each in transfers:
                each.give(found, "b", shipped.now, keep=mirrors._kept())
        case "answered":
            for each in transfers:
                each.answered(found)
        case "leave":
            mirrors._leaving = True


LED_BY_A = FleetAssignment(leader="a", owners=dict.fromkeys(NAMES, frozenset()))
LED_BY_B = FleetAssignment(leader="b", owners={"a": frozenset([MirrorPartition("l", "t", 0)]), "b": frozenset()})
PROMOTED = record(("l", "t"), 2, MirrorState.PENDING_STOPPED)
TOPIC, NONE, COME = frozenset([("l", "t")]), frozenset[Key](), ("answered", partitions_of(PROMOTED))
KEPT = [COME, PROMOTED, ("promoted", TOPIC), LED_BY_B, ("promoted", NONE), ("time", 2.0)]
PAUSED = [COME, ("paused", TOPIC), ("time", 0.5), ("paused", NONE)]
LED_BY_NONE = FleetAssignment(leader="sidecar", owners=dict.fromkeys(NAMES, frozenset()))
ANEW = record(("l", "t"), 1, MirrorState.ACTIVE)  # with fewer partitions
LESS_IS_PAUSED = [LED_BY_A, ANEW, ("assigned", None), ("paused", TOPIC)]
LESS_IS_KEPT = [LED_BY_A, ANEW, ("overridden", ("l", "t")), ("overridden", ("l", "t"))]
PART_IS_NOBODYS = FleetAssignment(
    leader="sidecar", owners={"a": frozenset(), "b": frozenset([MirrorPartition("l", "t", 1)])}
)
LED_AGAIN = [replace(PART_IS_NOBODYS, leader="a")]
GIVEN_AWAY = [("give", frozenset([MirrorPartition("l", "t", 0)])), replace(LED_BY_A)]
LEAVES = [COME, ("leave", None), LED_BY_B, ("give", partitions_of(PROMOTED)), ("time", 5.0)]


@settings(max_examples=200)
@example(LED_BY_A, KEPT)
@example(LED_BY_B, PAUSED)
@example(LED_BY_A, LEAVES)
@example(LED_BY_NONE, LESS_IS_PAUSED)
@example(LED_BY_NONE, LESS_IS_KEPT)
@example(PART_IS_NOBODYS, LED_AGAIN)
@example(LED_BY_A, GIVEN_AWAY)
@given(assignments, st.lists(steps, max_size=25))
def test_what_has_changed_is_decided_on_as_all_of_it_would_be(first: FleetAssignment, story: list[Any]) -> None:
    shipped = Shipped()
    by_all = ByAll(shipped)
    for key in KEYS:
        shipped.apply(record(key, 2, MirrorState.ACTIVE), record(key, 2, MirrorState.ACTIVE))
    for step in (first, *story):
        take(shipped, by_all, step)
        shipped.asked.clear()
        shipped.mirrors.decide()
        assert shipped.asked == by_all.decide()
        one, other = shipped.mirrors._transfer, by_all.transfer
        assert one.here == other.here == shipped.engine.owned
        assert one.waiting == other.waiting
        assert (one._wanted, one._given, one._lingering) == (other._wanted, other._given, other._lingering)
        assert shipped.mirrors._places == {(each.topic, each.partition) for each in one.here}


def test_a_record_costs_its_own_partitions() -> None:
    shipped = Shipped()
    for number in range(50):
        one = record(("l", f"t{number}"), 2, MirrorState.ACTIVE)
        shipped.apply(one, one)
    shipped.mirrors._map.assignment = FleetAssignment(leader="a", owners={"a": frozenset(), "b": frozenset()})
    shipped.mirrors.decide()
    concerned: list[set[MirrorPartition]] = []
    find = shipped.mirrors._concerned

    def noted(*told: Any) -> set[MirrorPartition]:
        concerned.append(find(*told))
        return concerned[-1]

    shipped.mirrors._concerned = noted
    one = record(("l", "t3"), 3, MirrorState.PAUSED)
    shipped.apply(one, one)
    shipped.mirrors.decide()
    shipped.mirrors._map.overridden.add(("l", "t5"))
    shipped.mirrors.decide()
    shipped.mirrors.decide()
    of = [sorted({each.topic for each in found}) for found in concerned]
    assert of == [["t3"], ["t5"], []]
    assert len(concerned[0]) == 3
