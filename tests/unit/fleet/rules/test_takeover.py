"""Silence is suspected after half a second, by all alike, and not after a pause of one's own."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.rules.takeover import PeerWatch, heirs
from gateway.mirror.rules.mirror_partition import MirrorPartition

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
