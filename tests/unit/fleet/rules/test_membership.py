"""Who is admitted, whom a write pause waits for, and who mirrors what.

The members of the fleet that one gateway has.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.rules import membership
from gateway.fleet.rules.membership import (
    MOST_MOVES,
    FleetMember,
    FleetRole,
    Registered,
    admit,
    assign,
    balanced,
    departed_unheard,
    gateway_of,
    most_moves,
    must_acknowledge,
    newest,
    steps_back,
    worker_name,
)
from gateway.mirror.rules.period import MirrorPartition

PARTITIONS = [MirrorPartition("l", topic, index) for topic in ("t", "u") for index in range(8)]


def gateway(name: str, role: FleetRole = FleetRole.NODE, incarnation: str = "1") -> FleetMember:
    return FleetMember(name=name, incarnation=incarnation, role=role, peer=f"{name}:1", lease_s=60.0)


def test_a_sidecar_leads_only_where_there_is_no_node() -> None:
    sidecar, node = gateway("a", FleetRole.SIDECAR), gateway("b")
    assert steps_back(sidecar, [sidecar, node])
    assert not steps_back(sidecar, [sidecar])
    assert not steps_back(node, [sidecar, node])


def test_a_new_incarnation_replaces_the_old_one_of_its_name() -> None:
    old = Registered(name="a", incarnation="1", lease_s=60.0)
    assert admit([gateway("a")], {"a": old}) == ((), (), ())
    registered, replaced, succeeded = admit([gateway("a", incarnation="2"), gateway("b")], {"a": old})
    assert [(each.name, each.incarnation) for each in registered] == [("a", "2"), ("b", "1")]
    assert (replaced, succeeded) == ((), (old,))


def test_only_the_lock_of_the_name_at_one_place_says_that_the_old_one_is_dead() -> None:
    for before, after, dead in (("x", "x", True), ("x", "y", False), ("", "", False), ("x", "", False)):
        old = Registered(name="a", incarnation="1", lease_s=60.0, place=before)
        admission = admit([replace(gateway("a", incarnation="2"), place=after)], {"a": old})
        assert (admission.replaced, admission.succeeded) == (((old,), ()) if dead else ((), (old,)))


def test_the_younger_process_of_a_name_is_not_told_by_a_clock() -> None:
    """It was started on a machine whose time of day is behind."""
    members = {"x": gateway("a", incarnation="2"), "y": gateway("a", incarnation="1"), "z": gateway("b")}
    assert set(newest(members, {"a": "2", "b": "1"})) == {"y", "z"}
    assert set(newest(members, {"a": "1"})) == {"x", "z"}
    assert set(newest(members, {"a": "1"}, {("a", "2")})) == {"y", "z"}, "it was replaced before"
    assert set(newest(members, {})) == {"x", "z"}


def test_a_write_pause_waits_for_every_registered_gateway_that_may_still_write() -> None:
    assert must_acknowledge({"a", "b", "c", "d"}, frozenset("cdx")) == {"a", "b"}


def test_who_went_without_an_answer_may_have_writes_under_way() -> None:
    departures = [(4.0, "before"), (5.0, "c"), (6.0, "d"), (7.0, "c")]
    assert departed_unheard(departures, 5.0, {"a", "d"}) == ["c", "c"], "d acknowledged before it died and owes nothing"
    assert departed_unheard(departures, 5.0, {"c", "d"}) == []


owned_sets = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]), st.sets(st.sampled_from(PARTITIONS)), min_size=1, max_size=4
)


def test_thousands_move_in_some_rounds_and_never_too_many_at_once() -> None:
    partitions = [MirrorPartition("l", "t", index) for index in range(4_000)]
    owned, rounds = assign({"a": partitions, "b": ()}, partitions), 1
    assert len(owned["b"]) == MOST_MOVES
    while not balanced(owned):
        before = len(owned["b"])
        owned = assign(owned, partitions)
        assert len(owned["b"]) - before <= MOST_MOVES
        rounds += 1
    assert rounds < 40


@given(owned_sets, st.sets(st.sampled_from(PARTITIONS)), st.integers(0, 3))
def test_every_partition_has_one_owner_and_at_most_so_many_move(
    nodes: dict[str, set[MirrorPartition]], partitions: set[MirrorPartition], moves: int
) -> None:
    assignment = assign(nodes, partitions, moves=moves)
    assert sorted(p for owned in assignment.values() for p in owned) == sorted(partitions)
    lost = sum(1 for name, owned in nodes.items() for p in owned & partitions if p not in assignment[name])
    doubles = sum(len(owned & partitions) for owned in nodes.values()) - len(set().union(*nodes.values()) & partitions)
    assert lost <= moves + doubles


@given(owned_sets, st.sets(st.sampled_from(PARTITIONS)))
def test_rounds_of_single_moves_end_even_and_then_nothing_moves(
    nodes: dict[str, set[MirrorPartition]], partitions: set[MirrorPartition]
) -> None:
    owned = assign(nodes, partitions)
    for _ in range(len(PARTITIONS)):
        if balanced(owned):
            break
        owned = assign(owned, partitions)
    assert balanced(owned)
    assert assign(owned, partitions) == owned


def test_a_node_that_joins_gets_one_partition_after_the_other() -> None:
    owned = {"a": frozenset(PARTITIONS[:8]), "b": frozenset(PARTITIONS[8:])}
    sizes = []
    while not balanced(owned) or "c" not in owned:
        owned = assign({**owned, "c": owned.get("c", frozenset())}, PARTITIONS)
        sizes.append(len(owned["c"]))
    assert sizes == [1, 2, 3, 4, 5]


def test_nobody_mirrors_without_a_node() -> None:
    assert assign({}, PARTITIONS) == {}
    assert balanced({})


def test_what_was_given_to_nobody_yet_is_given_out_first() -> None:
    """It runs where it was created, and as it is created: the leader would have all of it for long after."""
    partitions = [MirrorPartition("l", f"t{number}", 0) for number in range(200)]
    given, new = frozenset(partitions[:160]), frozenset(partitions[160:])
    owned = {"a": given | new, "b": frozenset[MirrorPartition]()}
    found = assign(owned, partitions, given=given)
    assert found["b"] == new
    assert len(assign(owned, partitions)["b"]) == 200 // 8, "of what was given some move in a round"
    assert len(assign(owned, partitions, given=given, moves=3)["b"]) == 3


def test_the_rounds_of_a_rebalance_do_not_grow_with_the_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "MOST_MOVES", 5)
    rounds = []
    for count in (1_000, 5_000):
        owned = {name: _some(count // 10, name) for name in "abcdefghi"} | {"j": frozenset[MirrorPartition]()}
        wanted = frozenset[MirrorPartition]().union(*owned.values())
        rounds.append(0)
        while not balanced(owned):
            before, owned = owned, assign(owned, wanted)
            moved = sum(len(held - before[name]) for name, held in owned.items())
            assert moved <= most_moves(len(wanted))
            rounds[-1] += 1
    assert rounds[1] <= rounds[0] + 5 < 60


def _some(count: int, topic: str) -> frozenset[MirrorPartition]:
    return frozenset(MirrorPartition("l", topic, number) for number in range(count))


@pytest.mark.parametrize("gateway", ["gw", "10.0.0.7:9292", "box:9292", "a b@c"])
def test_a_worker_is_its_gateways(gateway: str) -> None:
    names = [worker_name(gateway, index) for index in range(12)]
    assert len(set(names)) == 12
    assert names[0] == gateway
    assert {gateway_of(name) for name in names} == {gateway}


def test_one_that_another_process_has_succeeded_stands_for_itself() -> None:
    assert gateway_of("gw#2@000017-ab12") == "gw#2@000017-ab12"
