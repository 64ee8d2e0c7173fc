"""The fleet's group on the wire: back and forth, and everything that is no such blob is refused."""

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.rules import assignment as blobs
from gateway.fleet.rules.assignment import (
    PACKED,
    FleetAssignment,
    MalformedAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from gateway.fleet.rules.membership import Gateway, Role, assign
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
    reads=st.integers(1, 3),
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


@given(gateways, st.sampled_from([0, 3, 1_000]))
def test_a_subscription_comes_back(gateway: Gateway, plain: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blobs, "_PLAIN", plain)
        assert decode_subscription(encode_subscription(gateway)) == gateway


@given(gateways)
def test_a_member_of_an_older_version_is_understood(gateway: Gateway) -> None:
    """It says nothing behind its keys."""
    older = replace(gateway, reads=1)
    assert decode_subscription(encode_subscription(older)[: -2 - 4]) == older


@given(assignments, st.sampled_from([1, PACKED]))
def test_an_assignment_comes_back_and_a_newer_form_is_read_as_far_as_it_is_known(
    assignment: FleetAssignment, form: int
) -> None:
    data = encode_assignment(assignment, form)
    assert decode_assignment(data) == assignment
    if form == 1:
        assert decode_assignment(b"\0\3" + data[2:] + b"more") == assignment


def test_what_a_hundred_thousand_partitions_take_goes_into_a_broker_s_record() -> None:
    """The coordinator keeps one record of the group: what each member says, and what each is told."""
    spread = [MirrorPartition("dc-east", f"t-{n % 37}.orders-{n}", index) for n in range(5_000) for index in range(20)]
    owners = assign({f"gateway-{number}": () for number in range(10)}, spread)
    told = encode_assignment(FleetAssignment(leader="gateway-0", owners=owners), PACKED)
    said = [
        encode_subscription(
            Gateway(name=name, incarnation="1", role=Role.NODE, peer="h:1", lease_s=1.0, owned=owned, reads=PACKED)
        )
        for name, owned in owners.items()
    ]
    assert decode_assignment(told).owners == owners
    assert 10 * len(told) + sum(map(len, said)) < 1_000_000


@given(assignments, st.sampled_from([1, PACKED]), st.data())
def test_a_torn_assignment_is_refused(assignment: FleetAssignment, form: int, data: st.DataObject) -> None:
    blob = encode_assignment(assignment, form)
    with pytest.raises(MalformedAssignment):
        decode_assignment(blob[: data.draw(st.integers(0, len(blob) - 1))])


def test_what_inflates_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "_MAX_INFLATED", 1_000)
    with pytest.raises(MalformedAssignment, match="more than 1000 bytes"):
        decode_assignment(b"\0\2" + zlib.compress(bytes(2_000)))


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
