import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.state.producer_ids import (
    GATEWAY_PID_BASE,
    MAX_FAILBACK_EPOCH,
    MAX_LINK_ID,
    MAX_MIRROR_ID,
    MIRROR_PID_BASE,
    MIRROR_PID_END,
    in_failback_epoch,
    is_gateway_issued,
    mirror_producer_id,
    of_any_failback_epoch,
)

links = st.integers(0, MAX_LINK_ID)
mirrors = st.integers(0, MAX_MIRROR_ID)


@given(links, mirrors, links, mirrors)
def test_every_mirror_has_its_own_id(link: int, mirror: int, other_link: int, other_mirror: int) -> None:
    one, other = mirror_producer_id(link, mirror), mirror_producer_id(other_link, other_mirror)
    assert (one == other) == ((link, mirror) == (other_link, other_mirror))
    assert MIRROR_PID_BASE <= one < MIRROR_PID_END
    assert not is_gateway_issued(one)


@pytest.mark.parametrize(("link", "mirror"), [(-1, 0), (0, -1), (MAX_LINK_ID + 1, 0), (0, MAX_MIRROR_ID + 1)])
def test_ids_out_of_range(link: int, mirror: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        mirror_producer_id(link, mirror)


def test_the_gateways_range() -> None:
    assert [is_gateway_issued(i) for i in (-1, 0, GATEWAY_PID_BASE - 1, GATEWAY_PID_BASE, MIRROR_PID_BASE - 1)] == [
        False,
        False,
        False,
        True,
        True,
    ]


@given(st.integers(0, 2**49 - 1), st.integers(0, MAX_FAILBACK_EPOCH))
def test_a_failback_epoch_is_a_bijection_and_meets_no_other_range(issued: int, failback_epoch: int) -> None:
    client = issued + GATEWAY_PID_BASE
    found = in_failback_epoch(client, failback_epoch)

    assert of_any_failback_epoch(found) == client
    assert found < 2**63
    assert failback_epoch == 0 or found > MIRROR_PID_END  # neither a cluster's own, nor another epoch's
    assert (found >> 51) == failback_epoch


@given(st.integers(0, MAX_LINK_ID), st.integers(0, MAX_MIRROR_ID), st.integers(0, MAX_FAILBACK_EPOCH), st.booleans())
def test_mirrors_of_all_failback_epochs_and_both_directions_have_ids_of_their_own(
    link: int, mirror: int, failback_epoch: int, reverse: bool
) -> None:
    found = mirror_producer_id(link, mirror, failback_epoch, reverse=reverse)

    assert found < 2**63
    assert not is_gateway_issued(of_any_failback_epoch(found))
    first = mirror_producer_id(link, mirror)
    assert (found == first) == (failback_epoch == 0 and not reverse)
    assert found % 2**51 == first
    assert found >> 51 == failback_epoch + (2**11 if reverse else 0)


@pytest.mark.parametrize("failback_epoch", [-1, MAX_FAILBACK_EPOCH + 1])
def test_there_is_an_end_to_failback_epochs(failback_epoch: int) -> None:
    with pytest.raises(ValueError, match="failback epoch"):
        in_failback_epoch(GATEWAY_PID_BASE, failback_epoch)


def test_no_producer_is_no_client_in_any_failback_epoch() -> None:
    assert not is_gateway_issued(of_any_failback_epoch(-1))
