"""The fleet's group on the wire: back and forth, and everything that is no such blob is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.rules.assignment import (
    FleetAssignment,
    MalformedAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from gateway.fleet.rules.membership import Gateway, Role
from gateway.mirror.rules.mirror_partition import MirrorPartition

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
partitions = st.frozensets(st.builds(MirrorPartition, names, names, st.integers(0, 2**31 - 1)), max_size=6)
gateways = st.builds(
    Gateway,
    name=names,
    incarnation=names,
    role=st.sampled_from(Role),
    peer=names,
    lease_s=st.integers(1, 2**31 - 1).map(lambda ms: ms / 1000),
    owned=partitions,
    place=names,
    keys=names,
)
assignments = st.builds(
    FleetAssignment,
    leader=names,
    peers=st.dictionaries(names, names, max_size=4),
    owners=st.dictionaries(names, partitions, max_size=4),
    paused=st.dictionaries(names, st.integers(0, 2**31 - 1), max_size=4),
    state_offset=st.integers(0, 2**63 - 1),
    term=st.integers(-1, 2**63 - 1),
    closed=st.frozensets(names, max_size=4),
    members=st.dictionaries(names, names, max_size=4),
)


@given(gateways)
def test_a_subscription_comes_back(gateway: Gateway) -> None:
    assert decode_subscription(encode_subscription(gateway)) == gateway


@given(assignments)
def test_an_assignment_comes_back_and_a_newer_form_is_read_as_far_as_it_is_known(assignment: FleetAssignment) -> None:
    data = encode_assignment(assignment)
    assert decode_assignment(data) == assignment
    assert decode_assignment(b"\0\2" + data[2:] + b"more") == assignment


@given(assignments, st.data())
def test_a_torn_assignment_is_refused(assignment: FleetAssignment, data: st.DataObject) -> None:
    blob = encode_assignment(assignment)
    with pytest.raises(MalformedAssignment):
        decode_assignment(blob[: data.draw(st.integers(0, len(blob) - 1))])


@given(st.binary(max_size=60))
def test_arbitrary_bytes_do_no_harm(blob: bytes) -> None:
    for decode in (decode_assignment, decode_subscription):
        try:
            decode(blob)
        except MalformedAssignment:
            continue


def test_what_a_gateway_cannot_be_is_named() -> None:
    blob = encode_subscription(Gateway(name="g", incarnation="1", role=Role.NODE, peer="h:1", lease_s=1.0))
    with pytest.raises(MalformedAssignment, match="role 'nodd'"):
        decode_subscription(blob.replace(b"node", b"nodd"))
    with pytest.raises(MalformedAssignment, match="lease of 0 ms"):
        decode_subscription(blob.replace(b"\0\0\3\xe8", b"\0\0\0\0"))
