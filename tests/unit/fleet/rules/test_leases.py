"""A holder's lease is over before any presumer takes it to be, whatever their clocks do within the drift."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.rules.leases import DRIFT, Presumptions, WriteLease, presumable_after

seconds = st.floats(0, 1e6, allow_nan=False)
rates = st.floats(1 / (1 + DRIFT), 1 + DRIFT)


def test_a_lease_begins_with_the_first_renewal_and_counts_from_when_it_was_sent() -> None:
    lease = WriteLease(2.0)
    assert not lease.valid(0.0)
    lease.renewed(10.0)
    assert lease.valid(11.9)
    assert not lease.valid(12.0)
    assert lease.left_s(11.5) == 0.5
    lease.renewed(9.0)  # an answer that was overtaken
    assert lease.valid(11.9)
    lease.revoked()
    assert not lease.valid(10.0)
    assert lease.left_s(10.0) == 0.0


@given(renewed=seconds, seen=seconds, lease_s=st.floats(0.1, 3600), holder=rates, presumer=rates, ends=seconds)
def test_nobody_is_presumed_who_may_still_write(
    renewed: float, seen: float, lease_s: float, holder: float, presumer: float, ends: float
) -> None:
    """All times true ones; `holder` and `presumer` are how fast their clocks run."""
    seen += renewed  # no renewal is sent after the generation without the holder was seen
    lease, presumptions = WriteLease(lease_s), Presumptions()
    lease.renewed(renewed * holder)
    presumptions.generation({"g": lease_s}, frozenset(), seen * presumer)
    at = seen + ends
    if presumptions.presumed(at * presumer):
        assert not lease.valid(at * holder + 1e-6)


def test_waiting_begins_when_a_member_is_first_missed_and_ends_when_it_is_back() -> None:
    presumptions = Presumptions()
    registered = {"a": 10.0, "b": 10.0}
    presumptions.generation(registered, frozenset("ab"), 0.0)
    assert presumptions.at("a") is None
    presumptions.generation(registered, frozenset("b"), 5.0)
    presumptions.generation(registered, frozenset("b"), 9.0)
    assert presumptions.at("a") == 5.0 + presumable_after(10.0)
    assert presumptions.presumed(15.0) == frozenset()
    assert presumptions.presumed(15.3) == {"a"}
    presumptions.generation(registered, frozenset("ab"), 16.0)
    assert presumptions.presumed(100.0) == frozenset()
    presumptions.generation(registered, frozenset("b"), 20.0)
    assert presumptions.presumed(25.0) == frozenset()
    presumptions.generation({"b": 10.0}, frozenset("b"), 26.0)
    assert presumptions.at("a") is None
