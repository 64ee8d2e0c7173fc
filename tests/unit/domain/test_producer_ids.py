import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.producer_ids import (
    GATEWAY_PID_BASE,
    MAX_LINK_ID,
    MAX_MIRROR_ID,
    MIRROR_PID_BASE,
    MIRROR_PID_END,
    is_gateway_issued,
    mirror_producer_id,
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
