"""The byte streams are cut the same way however they arrive."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.session.streams import RequestStream, ResponseStream, StreamError


class Recorder:
    """Collects intercepted api keys, passes the others; stops after collected frames when told to."""

    def __init__(self, intercepted: set[int], *, stop: bool = False) -> None:
        self.intercepted = intercepted
        self.stop = stop
        self.out: list[tuple[str, bytes]] = []
        self.begun: list[int] = []

    def begin(self, key: int, version: int, correlation: int, size: int, head: memoryview) -> bool | None:
        self.begun.append(correlation)
        return key in self.intercepted

    def passed(self, data: bytes | bytearray | memoryview) -> None:
        if self.out and self.out[-1][0] == "passed":
            self.out[-1] = ("passed", self.out[-1][1] + bytes(data))
        else:
            self.out.append(("passed", bytes(data)))

    def collected(self, frame: memoryview) -> bool:
        self.out.append(("collected", bytes(frame)))
        return not self.stop


def request(key: int, correlation: int, body: bytes) -> bytes:
    frame = struct.pack(">hhih", key, 0, correlation, 0) + body
    return struct.pack(">i", len(frame)) + frame


def expected(frames: list[tuple[int, bytes]], intercepted: set[int]) -> list[tuple[str, bytes]]:
    recorder = Recorder(intercepted)
    for index, (key, body) in enumerate(frames):
        data = request(key, index, body)
        if key in intercepted:
            recorder.collected(memoryview(data)[4:])
        else:
            recorder.passed(data)
    return recorder.out


FRAMES = st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=60)), max_size=12)
CUTS = st.lists(st.integers(1, 40), max_size=60)


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    pieces.append(data[at:])
    return [piece for piece in pieces if piece]


@given(FRAMES, CUTS, st.sets(st.integers(0, 5)), st.booleans())
def test_any_split_gives_the_same_frames(
    frames: list[tuple[int, bytes]], cuts: list[int], intercepted: set[int], stop: bool
) -> None:
    data = b"".join(request(key, index, body) for index, (key, body) in enumerate(frames))
    sink = Recorder(intercepted, stop=stop)
    stream = RequestStream(sink, 1000)
    for chunk in chunks(data, cuts):
        rest = stream.feed(chunk)
        while rest is not None:
            assert stop
            rest = stream.feed(bytes(rest))
    assert sink.out == expected(frames, intercepted)
    assert sink.begun == list(range(len(frames)))
    assert stream.collects == (bool(frames) and frames[-1][0] in intercepted)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcd",
        struct.pack(">i", 2**31 - 1) + b"x" * 20,
        struct.pack(">i", -5) + b"x" * 20,
    ],
)
def test_a_size_that_no_broker_accepts_is_an_error(garbage: bytes) -> None:
    with pytest.raises(StreamError):
        RequestStream(Recorder(set()), 104_857_600).feed(garbage)


@given(st.lists(st.binary(min_size=0, max_size=50), max_size=10), CUTS, st.sets(st.integers(0, 9)), st.booleans())
def test_responses_are_cut_the_same_way(bodies: list[bytes], cuts: list[int], collected: set[int], stop: bool) -> None:
    class Sink:
        def __init__(self) -> None:
            self.out: list[tuple[int, bytes]] = []
            self.now = -1
            self.ended = 0

        def response_begins(self, correlation_id: int, size: int) -> bool:
            self.now = correlation_id
            self.out.append((correlation_id, b""))
            return correlation_id in collected

        def response_passed(self, data: bytes | bytearray | memoryview) -> None:
            self.out[-1] = (self.now, self.out[-1][1] + bytes(data))

        def response_ended(self) -> None:
            self.ended += 1

        def response_collected(self, frame: memoryview) -> bool:
            self.out[-1] = (self.now, struct.pack(">i", len(frame)) + bytes(frame))
            return not stop

    whole = [struct.pack(">ii", len(body) + 4, index) + body for index, body in enumerate(bodies)]
    sink = Sink()
    stream = ResponseStream(sink)
    for chunk in chunks(b"".join(whole), cuts):
        rest = stream.feed(chunk)
        while rest:
            assert stop
            rest = stream.feed(bytes(rest))
    assert sink.out == list(enumerate(whole))
    assert stream.collects == (len(bodies) - 1 in collected)
    assert sink.ended == sum(1 for index in range(len(bodies)) if index not in collected)
