"""Two connections of one idempotent producer over a cutover: the partition's leader on the target moved meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase, routing_of
from gateway.proxy.produce import after_cutover
from gateway.proxy.rules.cutover_order import LATE_S, WATCHED_S
from gateway.proxy.session.proxy_session import ProxySession
from gateway.state.records import ProducerEntry
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.header import frame_response, peek_request_header, response_body_offset
from protocol.produce import PartitionResult, build_response_body, scan_response
from tests.support.mirror.batches import make_batch
from tests.support.proxy.conversation import Wire
from tests.unit.proxy.handlers.test_produce import produce, route

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

PRODUCE = int(ApiKey.PRODUCE)
PRODUCER = 2**49 + 7
TABLE = ((ProducerEntry(PRODUCER, 0, 2, 4, 42),),)
OK, MOVED, EARLY = 0, int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.NOT_ENOUGH_REPLICAS)


class Client:
    """One connection of the producer, to one of the target's brokers."""

    def __init__(self, talk: Conversation, number: int) -> None:
        self.client, self.broker = Wire(), Wire()
        self.session = ProxySession(talk.context, number)
        self.session.client_connected(cast("Any", self.client), "10.0.0.7")
        self.session.upstream_connected(cast("Any", self.broker))
        self.session.authorized["mirrored"] = (talk.clock(), True)
        self._sent = 0

    def sends(self, sequence: int, producer_id: int = PRODUCER) -> None:
        self._sent += 1
        batch = make_batch(0, 3, producer_id=producer_id, epoch=0, sequence=sequence)
        self.session.client_data(produce(self._sent, ("mirrored", 0), batch=batch))

    def broker_got(self) -> list[bytes]:
        return self.broker.frames()

    def broker_answers(self, frame: bytes, error: int = OK) -> None:
        header = peek_request_header(memoryview(frame))
        result = PartitionResult("mirrored", 0, error, -1 if error else 100)
        body = build_response_body(header.api_version, [result])
        self.session.upstream_data(frame_response(PRODUCE, header.api_version, header.correlation_id, body))

    def errors(self) -> list[int]:
        views = [memoryview(frame) for frame in self.client.frames()]
        return [scan_response(view[response_body_offset(PRODUCE, 9, view) :], 9)[0].error_code for view in views]


@pytest.fixture
async def known(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], frozenset[int]]:
    """The producers that the target's leaders know."""
    found = {("mirrored", 0): frozenset[int]()}

    async def active_producers(*_: Any, **__: Any) -> dict[tuple[str, int], frozenset[int]]:
        return found

    monkeypatch.setattr(after_cutover, "active_producers", active_producers)
    return found


def publish(talk: Conversation, phase: WritePhase, **more: Any) -> None:
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored", phase, **more)}))


def cut_over(talk: Conversation, **more: Any) -> None:
    publish(talk, WritePhase.SWITCHED, **more)


@pytest.fixture
async def clients(talk: Conversation, known: object) -> tuple[Client, Client]:
    """Writes of the topic pause."""
    publish(talk, WritePhase.FORWARD)
    publish(talk, WritePhase.PAUSED)
    return Client(talk, 1), Client(talk, 2)


@pytest.mark.parametrize("table", [TABLE, ()], ids=["known to the source", "new"])
async def test_a_later_batch_on_another_connection_does_not_overtake_the_earlier_ones(
    talk: Conversation, clients: tuple[Client, Client], table: Any
) -> None:
    """The target has never seen the producer, and would take the later one as its first."""
    old, new = clients
    old.sends(5)
    old.sends(8)
    new.sends(11)
    cut_over(talk, producers=table)
    earlier = old.broker_got()
    assert len(earlier) == 2, "a pipeline goes on as it was sent"
    assert new.broker_got() == []
    assert new.errors() == [EARLY]
    for frame in earlier:
        old.broker_answers(frame, MOVED)
    assert old.errors() == [MOVED, MOVED]
    new.sends(11)
    assert new.errors() == [EARLY]
    for sequence in (5, 8):
        new.sends(sequence)
    first, second = new.broker_got()
    new.broker_answers(first)
    new.broker_answers(second)
    new.sends(11)
    (third,) = new.broker_got()
    new.broker_answers(third)
    assert new.errors() == [OK, OK, OK]


async def test_what_another_gateway_has_sent_is_asked_of_the_target(
    talk: Conversation, clients: tuple[Client, Client], known: dict[tuple[str, int], frozenset[int]]
) -> None:
    _, new = clients
    cut_over(talk, producers=TABLE)
    known["mirrored", 0] = frozenset({PRODUCER})
    new.sends(20)
    assert new.errors() == [EARLY]
    await talk.run_pending()
    new.sends(20)
    assert len(new.broker_got()) == 1


async def test_once_the_target_has_taken_one_it_judges_itself(
    talk: Conversation, clients: tuple[Client, Client]
) -> None:
    old, new = clients
    cut_over(talk, producers=TABLE)
    old.sends(5)
    (frame,) = old.broker_got()
    new.sends(8)
    assert new.errors() == [EARLY], "not answered yet: it may go to a broker that leads no more"
    old.broker_answers(frame)
    new.sends(8)
    assert len(new.broker_got()) == 1


async def test_other_producers_are_not_waited_for(talk: Conversation, clients: tuple[Client, Client]) -> None:
    old, new = clients
    old.sends(5)
    new.sends(1000, PRODUCER + 1)  # long unknown to the source, or forgotten
    cut_over(talk, producers=TABLE)
    assert len(old.broker_got()) == len(new.broker_got()) == 1


@pytest.mark.parametrize("how", ["given up", "failed over", "long ago", "not seen as a pause"])
async def test_nothing_is_looked_at_but_right_after_a_cutover_that_was_seen(
    talk: Conversation, clients: tuple[Client, Client], how: str
) -> None:
    _, new = clients
    if how == "not seen as a pause":
        talk.context.routing.publish(routing_of())
    if how == "given up":
        publish(talk, WritePhase.FORWARD, producers=TABLE)
        new.sends(11)
        assert len(talk.source.node.sent) == 1
        return
    cut_over(talk, producers=TABLE, goes_on=how != "failed over")
    if how == "long ago":
        talk.clock.now += WATCHED_S
    if how == "failed over":
        new.sends(11)
        assert new.errors() == [EARLY], "what it follows may be held at another gateway"
        talk.clock.now += LATE_S
    new.sends(11)
    assert len(new.broker_got()) == 1
