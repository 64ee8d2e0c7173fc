"""Who mirrors what: spread over the nodes, at the leader while in transition, shared when somebody is silent.

Silence is suspected after half a second, by all alike, and not after a pause of one's own.
"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.rules.ownership import PeerWatch, heirs, is_spread, mirrored_by, owners_now, partitions_of, spread
from gateway.mirror.rules.period import MirrorPartition
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, PartitionStart
from tests.support.control.mirror_records import mirror_record


def mirror(topic: str, state: MirrorState = MirrorState.ACTIVE, **more: object) -> MirrorRecord:
    starts = (PartitionStart(0, 0),) * 4
    values = {"readable": True, **more}
    return mirror_record(
        link="l",
        source_topic=topic,
        mirror_topic=topic,
        mirror_id=1,
        starts=starts,
        state=state,
        **values,
    )


def partition(topic: str, index: int) -> MirrorPartition:
    return MirrorPartition("l", topic, index)


def test_only_mirrors_that_nobody_drives_are_spread() -> None:
    assert is_spread(mirror("t"))
    assert is_spread(mirror("t", MirrorState.SOURCE_UNAVAILABLE))
    for state in MirrorState:
        if state not in (MirrorState.ACTIVE, MirrorState.SOURCE_UNAVAILABLE, MirrorState.LINK_FAILED):
            assert not is_spread(mirror("t", state))
    assert not is_spread(mirror("t", readable=False))
    assert not is_spread(mirror("t", created=False))
    assert not is_spread(mirror("t", direction=MirrorDirection.REVERSE))
    assert spread([mirror("t"), mirror("u", readable=False)]) == partitions_of(mirror("t"))


def test_what_is_not_given_out_is_the_leaders() -> None:
    given = {"a": {partition("t", 0), partition("p", 0)}, "b": {partition("t", 1)}, "c": set[MirrorPartition]()}
    found = owners_now("c", given, [mirror("t"), mirror("p", MirrorState.PENDING_STOPPED)])
    assert found["a"] == {partition("t", 0)}
    assert found["b"] == {partition("t", 1)}
    assert found["c"] == {partition("t", 2), partition("t", 3)} | partitions_of(mirror("p"))


def test_a_topic_that_is_gone_is_nobodys() -> None:
    assert owners_now("a", {"a": {partition("t", 0)}}, []) == {"a": frozenset()}


def test_every_partition_is_mirrored_by_exactly_one_whoever_is_silent() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    dice = random.Random(seed)
    for _ in range(200):
        nodes = [f"n{index}" for index in range(dice.randint(1, 5))]
        records = [mirror(f"t{index}", dice.choice(list(MirrorState))) for index in range(dice.randint(0, 6))]
        owners: dict[str, set[MirrorPartition]] = {name: set() for name in nodes}
        for each in spread(records):
            owners[dice.choice(nodes)].add(each)
        silent = set(dice.sample(nodes, dice.randint(0, len(nodes) - 1)))
        found = mirrored_by(owners_now(dice.choice(nodes), owners, records), silent)
        assert not silent & found.keys()
        everything = sorted(each for held in found.values() for each in held)
        assert everything == sorted(each for record in records for each in partitions_of(record))


def test_nobody_is_left() -> None:
    assert mirrored_by({"a": {partition("t", 0)}}, {"a"}) == {}


PARTITIONS = [MirrorPartition("l", "t", index) for index in range(60)]
ASSIGNMENT = {name: frozenset(PARTITIONS[at::3]) for at, name in enumerate("abc")}


def listened(watch: PeerWatch, start: float, end: float) -> frozenset[str]:
    """Look every tenth of a second."""
    found: frozenset[str] = frozenset()
    for tenth in range(round(start * 10), round(end * 10) + 1):
        found = watch.silent(tenth / 10)
    return found


def test_a_silent_peer_is_suspected_until_it_is_heard() -> None:
    watch = PeerWatch()
    watch.expect(["b", "c"], 0.0)
    assert listened(watch, 0.0, 0.4) == frozenset()
    watch.heard("c", 0.4)
    assert listened(watch, 0.5, 0.6) == {"b"}
    watch.heard("b", 0.6)
    assert listened(watch, 0.7, 0.8) == frozenset()
    watch.heard("stranger", 0.8)
    watch.left("c")
    assert watch.silent(0.9) == {"c"}
    watch.expect(["b"], 0.9)
    assert watch.silent(1.0) == frozenset()


def test_after_a_pause_of_its_own_a_gateway_suspects_nobody_at_once() -> None:
    watch = PeerWatch()
    watch.expect(["b", "c"], 0.0)
    watch.left("c")
    assert watch.silent(0.1) == {"c"}
    assert watch.silent(7.0) == {"c"}, "b may have been heard while nobody listened"
    assert listened(watch, 7.1, 7.4) == {"c"}
    assert listened(watch, 7.5, 7.6) == {"b", "c"}


@given(st.sets(st.sampled_from("abc")))
def test_all_that_hear_the_same_take_over_all_of_it_once(silent: set[str]) -> None:
    taken = [p for held in heirs(ASSIGNMENT, silent).values() for p in held]
    lost = [p for name in silent for p in ASSIGNMENT[name]]
    assert sorted(taken) == (sorted(lost) if silent != set("abc") else [])


def test_what_a_silent_node_had_is_spread_over_the_others() -> None:
    shares = [len(heirs(ASSIGNMENT, {"a"})[name]) for name in "bc"]
    assert sum(shares) == 20
    assert min(shares) >= 4
