"""The fleet's group on the wire: back and forth, and everything that is no such blob is refused."""

import uuid
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.peers.wire import FRAME_BYTES
from gateway.fleet.rules import assignment as blobs
from gateway.fleet.rules.assignment import (
    GROUP_BYTES,
    OWNED_BYTES,
    PACKED,
    FleetAssignment,
    MalformedAssignment,
    decode_assignment,
    decode_subscription,
    digest_of,
    encode_assignment,
    encode_outline,
    encode_subscription,
    group_bytes,
)
from gateway.fleet.rules.membership import FleetMember, FleetRole, assign
from gateway.mirror.rules.period import MirrorPartition

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
partitions = st.frozensets(st.builds(MirrorPartition, names, names, st.integers(0, 2**31 - 1)), max_size=6)
gateways = st.builds(
    FleetMember,
    name=names,
    incarnation=names,
    role=st.sampled_from(FleetRole),
    peer=names,
    lease_s=st.integers(1, 2**31 - 1).map(lambda ms: ms / 1000),
    owned=partitions,
    place=names,
    keys=names,
    bootstrap=names,
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
def test_a_subscription_comes_back(gateway: FleetMember, plain: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blobs, "_PLAIN", plain)
        assert decode_subscription(encode_subscription(gateway)) == gateway


@given(gateways)
def test_a_member_of_an_older_version_is_understood(gateway: FleetMember) -> None:
    """It says nothing behind its keys."""
    older = replace(gateway, reads=1, bootstrap="")
    assert decode_subscription(encode_subscription(older)[: -2 - 4 - 1 - 2]) == older


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
            FleetMember(
                name=name, incarnation="1", role=FleetRole.NODE, peer="h:1", lease_s=1.0, owned=owned, reads=PACKED
            )
        )
        for name, owned in owners.items()
    ]
    assert decode_assignment(told).owners == owners
    assert 10 * len(told) + sum(map(len, said)) < 1_000_000


FLEET = [
    f"gateway-{n}.lockgate.svc.cluster.local:9092" + (f"#{w + 1}" if w else "") for n in range(100) for w in range(16)
]


def test_the_record_of_the_largest_fleet_is_one_that_a_broker_takes() -> None:
    """100 gateways of 16 processes, and 100,000 partitions: what SyncGroup would have written is 500 MB in whole."""
    spread = [MirrorPartition("dc-east", f"t-{n % 37}.orders-{n}", index) for n in range(5_000) for index in range(20)]
    owners = assign(dict.fromkeys(FLEET, ()), spread)
    peers = {name: f"10.42.{n // 250}.{n % 250}:{30_000 + n}" for n, name in enumerate(FLEET)}
    ids = {name: f"lockgate-{uuid.UUID(int=n)}" for n, name in enumerate(FLEET)}
    said = [
        encode_subscription(
            FleetMember(
                name=name,
                incarnation=f"{1_764_300_000_000 + n:015d}-0123abcd",
                role=FleetRole.NODE,
                peer=peers[name],
                lease_s=600.0,
                owned=owners[name],
                place=f"{uuid.UUID(int=n)}/4026531840",
                keys="k1,k2",
                bootstrap="gateway-1:9292",
                reads=PACKED,
            ),
            OWNED_BYTES // len(FLEET),
        )
        for n, name in enumerate(FLEET)
    ]
    assignment = FleetAssignment(leader=FLEET[17], peers=peers, owners=owners, members=ids, state_offset=9, term=7)
    told = encode_assignment(assignment, PACKED)
    outline = encode_outline(assignment, told)
    sizes = len(FLEET), sum(map(len, ids.values())), sum(map(len, said))
    assert group_bytes(*sizes, len(told)) > GROUP_BYTES
    assert group_bytes(*sizes, len(outline)) <= GROUP_BYTES < 1_048_588
    assert decode_assignment(told) == assignment
    assert len(told) * 4 / 3 < FRAME_BYTES, "it goes to a peer in one frame"


@given(assignments.filter(lambda one: bool(one.leader)), st.binary(max_size=20))
def test_an_outline_tells_where_the_rest_is_to_be_had_and_newer_ones_are_read(
    assignment: FleetAssignment, more: bytes
) -> None:
    told = encode_assignment(assignment, PACKED)
    assert decode_assignment(encode_outline(assignment, told) + more) == FleetAssignment(
        leader=assignment.leader,
        peers={assignment.leader: assignment.peers.get(assignment.leader, "")},
        state_offset=assignment.state_offset,
        term=assignment.term,
        digest=digest_of(told),
    )


@given(gateways.filter(lambda one: bool(one.owned)))
def test_who_has_no_room_to_say_what_it_owns_says_so(gateway: FleetMember) -> None:
    said = decode_subscription(encode_subscription(gateway, room=3))
    assert said == replace(gateway, owned=frozenset(), tells=False)


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
    blob = encode_subscription(FleetMember(name="g", incarnation="1", role=FleetRole.NODE, peer="h:1", lease_s=1.0))
    with pytest.raises(MalformedAssignment, match="role 'nodd'"):
        decode_subscription(blob.replace(b"node", b"nodd"))
    with pytest.raises(MalformedAssignment, match="lease of 0 ms"):
        decode_subscription(blob.replace(b"\0\0\3\xe8", b"\0\0\0\0"))
