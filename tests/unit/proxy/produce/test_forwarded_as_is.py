"""The short way of a forwarded Produce and the long one are the same to clients, to sources and to a write pause."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase, routing_of
from gateway.proxy.produce.forwarded_as_is import ForwardsAsIs
from gateway.proxy.session.proxy_session import ProxySession
from gateway.state.ack import Ack
from protocol.errors import ErrorCode
from protocol.produce import PartitionResult, build_response_body, scan_request
from tests.support.mirror.batches import make_batch
from tests.support.proxy.conversation import Conversation
from tests.support.proxy.limits import limits_with
from tests.unit.proxy.handlers.test_produce import BATCH, answers, produce, route

TOPICS = ("mirrored", "held")


def forwarding(**limits: Any) -> Conversation:
    """A session whose topics are mirrored, whose client may write them, and which has sent a first request."""
    talk = Conversation(limits=limits_with(**limits))
    for topic in TOPICS:
        talk.session.authorized[topic] = (talk.clock(), True)
    talk.context.routing.publish(routing_of({topic: route(topic) for topic in TOPICS}))
    talk.says(produce(0, ("mirrored", 0)))
    talk.source.node.answer(build_response_body(9, [PartitionResult("mirrored", 0, 0, 0)]))
    talk.client.take()
    talk.forwarded.clear()
    return talk


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each Produce took the short way."""
    took: list[bool] = []
    sends = ForwardsAsIs.sends

    def noting(self: ForwardsAsIs, *args: Any) -> bool:
        took.append(sends(self, *args))
        return took[-1]

    monkeypatch.setattr(ForwardsAsIs, "sends", noting)
    return took


async def test_the_common_case_is_sent_and_answered_in_the_bytes_that_came(short: list[bool]) -> None:
    talk = forwarding()
    short.clear()
    talk.says(produce(7, ("mirrored", 0), ("mirrored", 2)))
    assert short == [True]
    body = talk.source.node.sent[-1][2]
    assert produce(7, ("mirrored", 0), ("mirrored", 2)).endswith(body)
    assert talk.forwarder.in_flight("mirrored") == 1
    results = [PartitionResult("mirrored", 0, 0, 40, -1, 3), PartitionResult("mirrored", 2, 0, 9, -1, 0)]
    talk.source.node.answer(build_response_body(9, results, throttle_ms=5))
    written = talk.client.written
    assert written.endswith(build_response_body(9, results, throttle_ms=5))
    assert answers(talk) == [results]
    assert talk.forwarder.in_flight("mirrored") == 0
    assert talk.forwarded == [("mirrored", 0, 40, 3), ("mirrored", 2, 9, 3)]
    assert talk.context.stats.forwarded == 2
    assert talk.session.idle


@pytest.mark.parametrize(
    "request_",
    [
        produce(1, ("mirrored", 0), acks=0),
        produce(1, ("mirrored", 0), ("held", 0)),
        produce(1, ("mirrored", 0), ("plain", 0)),
        produce(1),
    ],
    ids=["acks=0", "two topics", "one that is not mirrored", "nothing"],
)
async def test_what_is_not_of_the_common_case_takes_the_long_way(short: list[bool], request_: bytes) -> None:
    talk = forwarding()
    short.clear()
    talk.says(request_)
    assert short == [False]


async def test_answers_that_come_together_leave_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = forwarding()
    wires = talk.context.wires
    told: list[str] = []

    def flush() -> None:
        told.append("flush")
        wires.collecting = False

    monkeypatch.setattr(type(wires), "flush", lambda _: flush())
    for number in range(3):
        talk.says(produce(number, ("mirrored", 0)))
    told.clear()
    bodies = [build_response_body(9, [PartitionResult("mirrored", 0, 0, offset)]) for offset in range(3)]
    talk.source.node.answer_together(*bodies)
    assert told == ["flush"]
    assert not wires.collecting


def test_a_quota_is_told_on_the_short_way_too() -> None:
    talk = forwarding(forwarded_bytes_per_second=len(BATCH))
    talk.says(produce(1, ("mirrored", 0)))
    talk.source.node.answer(build_response_body(9, [PartitionResult("mirrored", 0, 0, 40)]))
    frame = talk.client.take()
    assert int.from_bytes(frame[-5:-1], "big") > 0
    assert not talk.client.reading


class Story:
    """One random history, told to a conversation of its own; `heard`: all that anybody could see of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ack = self.random.choice((Ack.SOURCE, Ack.SOURCE, Ack.BOTH))
        self.talk = forwarding()
        self.lease = True
        self.talk.lease(lambda: self.lease)
        self.talk.install()
        self.numbers = iter(range(1, 1000))
        self.routes()
        self.heard: list[object] = []

    def routes(self, phase: WritePhase = WritePhase.FORWARD, **more: Any) -> None:
        routes = {topic: route(topic, phase, ack=self.ack, **more) for topic in TOPICS}
        self.talk.context.routing.publish(routing_of(routes))

    def request(self) -> None:
        chance, number = self.random, next(self.numbers)
        topics = chance.choice(
            (["mirrored"], ["mirrored"], ["held"], ["mirrored", "held"], ["plain"], ["mirrored"] * 3)
        )
        parts = [(topic, index) for index, topic in enumerate(topics)]
        batch = make_batch(0, chance.randint(1, 5), producer_id=2**49 + 7, epoch=0, sequence=5 * number)
        acks = chance.choices((-1, 1, 0), (8, 4, 1))[0]
        self.talk.says(produce(number, *parts, acks=acks, version=chance.choice((3, 8, 9)), batch=bytes(batch)))

    def answer(self) -> None:
        for node in (self.talk.source.node, self.talk.source.other):
            sent = node.sent[len(node.sent) - len(node.waiting) :]
            bodies = []
            for _, version, body in sent[: self.random.randint(0, 3)]:
                code = int(self.random.choice((0, 0, 0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_RECORD)))
                results = [
                    PartitionResult(part.topic, part.partition, code, -1 if code else 40)
                    for part in scan_request(body, version).parts
                ]
                bodies.append(build_response_body(version, results))
            node.answer_together(*bodies)

    def lost(self) -> None:
        self.talk.source.drop(["produce"], "lost")

    def lease_changes(self) -> None:
        self.lease = not self.lease

    def leader_moves(self) -> None:
        self.talk.source.moves(self.random.choice(TOPICS))

    def rights_change(self) -> None:
        asked_at = self.talk.clock() - self.random.choice((0, 100))
        self.talk.session.authorized[self.random.choice(TOPICS)] = (asked_at, self.random.random() < 0.7)

    def comes_home(self) -> None:
        self.routes(failback_epoch=self.random.choice((0, 0, 1)), by_clients=self.random.random() < 0.8)

    def pause(self) -> None:
        self.routes(self.random.choice((WritePhase.PAUSED, WritePhase.FORWARD, WritePhase.FORWARD)))

    def mirrored(self) -> None:
        self.talk.clock.now += 1
        self.talk.progress.advance(self.random.choice(TOPICS), 0, 50)

    def step(self) -> None:
        steps = {
            self.request: 12,
            self.answer: 10,
            self.mirrored: 1,
            self.lost: 0.1,
            self.lease_changes: 0.5,
            self.leader_moves: 0.3,
            self.rights_change: 0.5,
            self.comes_home: 0.3,
            self.pause: 0.5,
        }
        (does,) = self.random.choices(list(steps), list(steps.values()))
        does()
        self.heard.append((does.__name__, *self.seen()))

    def seen(self) -> tuple[object, ...]:
        talk = self.talk
        return (
            bytes(talk.client.written),
            bytes(talk.broker.written),
            [list(node.sent) for node in (talk.source.node, talk.source.other)],
            [talk.forwarder.in_flight(topic) for topic in TOPICS],
            {topic: len(times) for topic, times in talk.forwarder._unknown.items()},
            list(talk.forwarded),
            list(talk.source.invalidated),
            talk.context.stats.forwarded,
            talk.session.closed,
            talk.session._stalled,
            talk.session.context.held.bytes,
        )

    def told(self) -> list[object]:
        for _ in range(60):
            self.step()
            if self.talk.session.closed:
                break
        return self.heard


async def test_it_is_as_the_long_way_is_whatever_happens(monkeypatch: pytest.MonkeyPatch, short: list[bool]) -> None:
    for seed in range(150):
        by_both = Story(seed).told()
        with monkeypatch.context() as patched:
            patched.setattr(ForwardsAsIs, "sends", lambda *_: False)
            assert Story(seed).told() == by_both, f"seed {seed}"
    assert 300 < sum(short) < len(short) - 300  # both ways were gone


async def test_a_session_of_another_client_asks_for_its_own_right(short: list[bool]) -> None:
    talk = forwarding()
    other = ProxySession(talk.context, 1)
    other.client_connected(cast("Any", talk.client), "10.0.0.8")
    other.upstream_connected(cast("Any", talk.broker))
    short.clear()
    other.client_data(produce(1, ("mirrored", 0)))
    assert short == [False]
    assert len(talk.broker.frames()) == 1  # Metadata, for the rights
