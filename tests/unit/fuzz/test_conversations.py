"""The fuzzer's conversations as data: made by a seed, written down, made small."""

from __future__ import annotations

import random
from uuid import UUID

from protocol.apis import ADVERTISED
from protocol.codec import decode_request
from protocol.header import peek_request_header
from tests.fuzz.corpus import NO_CLASS, OFFERED, Request
from tests.fuzz.generate import conversation
from tests.fuzz.mutate import mutated, reordered
from tests.fuzz.shrink import frames, shrink
from tests.fuzz.steps import Conversation, Do, Step
from tests.fuzz.values import Filler

IDS = (UUID(int=5),)


def test_a_seed_always_makes_the_same_conversation() -> None:
    assert [conversation(seed, IDS) for seed in range(5)] == [conversation(seed, IDS) for seed in range(5)]


def test_a_conversation_can_be_written_down() -> None:
    made = conversation(3, IDS)
    assert Conversation.from_json(made.as_json()) == made


def test_every_api_that_is_offered_is_met_well_formed() -> None:
    filler = Filler(random.Random(1), IDS)
    for key, version in OFFERED:
        frame = memoryview(filler.frame(key, version, 1, "me"))[4:]
        decode_request(key, version, frame[peek_request_header(frame).body_offset :])
    assert {key for key, _ in OFFERED} | set(NO_CLASS) == set(ADVERTISED)


def test_what_is_mutated_tells_how() -> None:
    rng, request = random.Random(7), Request(bytes(range(60)), "a request")
    for _ in range(200):
        changed = mutated(rng, request)
        assert changed.note.startswith("a request (")
        assert reordered(rng, [request, changed])


def test_the_smallest_conversation_that_fails_is_found() -> None:
    frame = b"\0\0\0\x01x"
    steps = [Step(Do.WAIT, seconds=float(n)) for n in range(20)]
    steps[7] = Step(Do.SEND, 0, data=frame * 3 + b"\0\0\0\x01y", cuts=(2, 3), frames=4)
    small = shrink(Conversation(1, "as it comes", tuple(steps)), lambda each: any(b"y" in s.data for s in each.steps))
    assert small.steps == (Step(Do.SEND, 0, data=b"\0\0\0\x01y", frames=1),)


def test_bytes_are_cut_into_frames_as_far_as_they_are_some() -> None:
    assert frames(b"\0\0\0\x01x\0\0\0\x02yz\0\0\0\x09w") == [b"\0\0\0\x01x", b"\0\0\0\x02yz", b"\0\0\0\x09w"]
