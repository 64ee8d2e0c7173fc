import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.transport.inbound import InboundFrames, LargeBuffers
from protocol.errors import MalformedFrame


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def feed(inbound: InboundFrames, data: bytes, cuts: list[int]) -> list[memoryview]:
    """Deliver the bytes in reads of the given sizes (the last repeated), never more than there is room for."""
    frames: list[memoryview] = []
    at = turn = 0
    while at < len(data):
        room = inbound.writable()
        assert len(room) > 0
        size = min(cuts[min(turn, len(cuts) - 1)], len(room), len(data) - at)
        room[:size] = data[at : at + size]
        frames += inbound.advance(size)
        at += size
        turn += 1
    return frames


bodies = st.lists(st.binary(min_size=4, max_size=400), max_size=12)
cuts = st.lists(st.integers(min_value=1, max_value=700), min_size=1, max_size=20)


@given(bodies, cuts, st.sampled_from([64, 256, 1024]))
@example([b"abcd"], [1], 64)
@example([b"x" * 31, b"y" * 32, b"z" * 33], [64], 64)
def test_frames_come_out_whole_whatever_the_reads(frames: list[bytes], sizes: list[int], chunk: int) -> None:
    inbound = InboundFrames(1000, chunk)

    found = feed(inbound, b"".join(map(framed, frames)), sizes)

    # Compared at the end: a view that was handed out early must not have been written over.
    assert [bytes(view) for view in found] == frames
    assert all(view.readonly for view in found)


def test_a_frame_within_one_read_is_not_copied() -> None:
    inbound = InboundFrames(1000)
    room = inbound.writable()
    room[:12] = framed(b"abcdefgh")

    (view,) = inbound.advance(12)

    assert view.obj is room.obj


def test_the_rest_of_a_large_frame_is_read_straight_into_its_own_buffer() -> None:
    inbound = InboundFrames(1_000_000)
    room = inbound.writable()
    room[:104] = (200_000).to_bytes(4, "big") + b"a" * 100
    assert not inbound.advance(104)

    rest = inbound.writable()
    assert len(rest) == 199_900
    rest[:] = b"b" * 199_900
    (view,) = inbound.advance(199_900)

    assert view.obj is rest.obj
    assert bytes(view) == b"a" * 100 + b"b" * 199_900


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"\x00\x00\x03\xe9", "1001 bytes"),
        (b"\xff\xff\xff\xff", "-1 bytes"),
        (b"\x00\x00\x00\x03", "3 bytes"),
        (b"HTTP/1.1 400", "HTTP"),
        (b"\x15\x03\x03\x00\x02", "TLS"),
    ],
)
def test_a_size_that_cannot_be_is_refused(start: bytes, said: str) -> None:
    inbound = InboundFrames(1000)
    inbound.writable()[: len(start)] = start

    with pytest.raises(MalformedFrame, match=said):
        inbound.advance(len(start))


MB = 1024 * 1024


def test_a_buffer_is_used_again_when_no_part_of_it_is_looked_at() -> None:
    buffers = LargeBuffers()
    view = buffers.take(3 * MB - 5)
    assert len(view) == 3 * MB - 5
    part = view.toreadonly()[10:20]
    first = view.obj
    del view
    other = buffers.take(2 * MB)
    assert other.obj is not first, "a part is still looked at"
    del part
    assert buffers.take(3 * MB).obj is first


def test_no_more_is_kept_than_the_limit() -> None:
    buffers = LargeBuffers()
    views = [buffers.take(16 * MB) for _ in range(5)]
    assert len({id(view.obj) for view in views}) == 5
    kept = {id(view.obj) for view in views[:3]}
    views.clear()
    again = [buffers.take(16 * MB) for _ in range(3)]
    assert {id(view.obj) for view in again} == kept


def test_small_ones_are_their_own() -> None:
    buffers = LargeBuffers()
    view = buffers.take(1000)
    assert view.nbytes == len(view.obj) == 1000  # type: ignore[arg-type]
