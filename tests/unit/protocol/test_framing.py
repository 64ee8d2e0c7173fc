"""Framing: whole frames come out however the stream is cut; a bad size ends it; memory follows what arrived."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import framing
from protocol.errors import MalformedFrame
from protocol.framing import FrameReader


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@given(frames=st.lists(st.binary(max_size=50)), cuts=st.lists(st.integers(1, 20)))
def test_any_cutting_of_the_stream_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, frames))
    reader = FrameReader()
    got: list[bytes] = []
    at = 0
    for cut in [*cuts, len(stream)]:
        got += map(bytes, reader.feed(stream[at : at + cut]))
        at += cut
    assert got == frames[: len(got)]
    got += map(bytes, reader.feed(stream[at:]))
    assert got == frames
    assert reader.pending == 0


def test_whole_frames_are_views_of_the_chunk() -> None:
    chunk = framed(b"abc") + framed(b"")
    first, second = FrameReader().feed(chunk)
    assert isinstance(first, memoryview)
    assert first.obj is chunk
    assert bytes(second) == b""


def test_other_buffers_are_copied_so_that_they_may_be_reused() -> None:
    chunk = bytearray(framed(b"abc"))
    (frame,) = FrameReader().feed(chunk)
    chunk[4:] = b"xyz"
    assert bytes(frame) == b"abc"


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 101])
def test_a_size_out_of_range_is_refused_before_anything_is_kept(size: int) -> None:
    with pytest.raises(MalformedFrame, match=str(size)):
        FrameReader(max_bytes=100).feed(struct.pack(">i", size) + b"some bytes")


def test_frames_before_a_bad_size_come_out_first() -> None:
    reader = FrameReader(max_bytes=100)
    assert list(map(bytes, reader.feed(framed(b"good") + framed(bytes(101))))) == [b"good"]
    with pytest.raises(MalformedFrame):
        reader.feed(b"")


def test_a_claimed_size_takes_no_memory() -> None:
    reader = FrameReader(max_bytes=2**31 - 1)
    assert reader.feed(struct.pack(">i", 2**31 - 1) + b"x" * 10) == []
    assert reader.pending == 14


def test_the_largest_frame_allowed_passes() -> None:
    assert list(map(bytes, FrameReader(max_bytes=3).feed(framed(b"abc")))) == [b"abc"]


def test_a_frame_of_two_pieces() -> None:
    assert framing.framed(b"abc") == framing.framed(memoryview(b"ab"), b"c") == framed(b"abc")
