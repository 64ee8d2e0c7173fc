"""Who may write: asked of the target on the client's own connection, kept for a while, never guessed."""

from __future__ import annotations

from typing import Any, cast

from gateway.proxy.produce.authorization import may_write
from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import peek_request_header
from protocol.messages import MetadataResponse
from tests.support.proxy.conversation import Conversation
from tests.support.proxy.limits import limits_with

WRITE, DESCRIBE = 1 << 4, 1 << 8
METADATA = int(ApiKey.METADATA)
KEPT_S = limits_with().rights_kept_s


class Asker:
    """Asks for a client, answers as the target, and counts how often it is to ask again."""

    def __init__(self, talk: Conversation) -> None:
        self.session = talk.session
        self.broker = talk.broker
        self.rights = talk.context.rights
        self.called = 0

    def ask(self, *topics: str) -> frozenset[str] | None:
        return may_write(self.session, topics, self._then)

    def _then(self) -> None:
        self.called += 1
        self.session.again(lambda: None)

    def target_says(self, **topics: tuple[int, int]) -> list[str]:
        """Topic -> error code and operations. Returns what was asked for."""
        (frame,) = self.broker.frames()
        header = peek_request_header(memoryview(frame))
        assert (header.api_key, header.api_version) == (METADATA, 8)
        request = decode_request(METADATA, 8, memoryview(frame)[header.body_offset :])
        assert request.include_topic_authorized_operations
        assert not request.allow_auto_topic_creation
        kind = MetadataResponse.MetadataResponseTopic
        of = [
            kind(name=topic, error_code=code, partitions=[], topic_authorized_operations=operations)
            for topic, (code, operations) in topics.items()
        ]
        response = MetadataResponse(brokers=[], topics=of)
        self.session.upstream_data(encode_response(response, METADATA, 8, header.correlation_id))
        return [topic.name for topic in request.topics]


async def test_the_target_says_which_topics(talk: Conversation) -> None:
    asker = Asker(talk)
    assert asker.ask("mine", "theirs", "hidden") is None
    asked = asker.target_says(
        mine=(0, WRITE | DESCRIBE), theirs=(0, DESCRIBE), hidden=(ErrorCode.TOPIC_AUTHORIZATION_FAILED, WRITE)
    )
    assert asked == ["mine", "theirs", "hidden"]
    assert asker.called == 1
    assert asker.ask("mine", "theirs", "hidden") == frozenset({"mine"})


async def test_a_topic_that_the_answer_leaves_out_may_not_be_written(talk: Conversation) -> None:
    asker = Asker(talk)
    assert asker.ask("left_out") is None
    asker.target_says()
    assert asker.ask("left_out") == frozenset()


async def test_nothing_later_is_looked_at_meanwhile(talk: Conversation) -> None:
    asker = Asker(talk)
    asker.ask("mine")
    assert asker.session._stalled
    asker.target_says(mine=(0, WRITE))
    assert not asker.session._stalled


async def test_only_what_is_not_known_is_asked_for(talk: Conversation) -> None:
    asker = Asker(talk)
    asker.ask("mine")
    asker.target_says(mine=(0, WRITE))
    assert asker.ask("mine", "new") is None
    assert asker.target_says(new=(0, WRITE)) == ["new"]
    assert asker.ask("mine", "new") == frozenset({"mine", "new"})


async def test_an_answer_counts_for_a_while(talk: Conversation) -> None:
    asker = Asker(talk)
    asker.ask("mine")
    asker.target_says(mine=(0, WRITE))
    talk.clock.now += KEPT_S
    assert asker.ask("mine") == frozenset({"mine"})
    talk.clock.now += 0.001
    assert asker.ask("mine") is None  # and a right that was taken away counts from then on
    asker.target_says(mine=(0, DESCRIBE))
    assert asker.ask("mine") == frozenset()


async def test_for_how_long_is_a_setting() -> None:
    talk = Conversation(limits=limits_with(rights_kept_s=1.0))
    asker = Asker(talk)
    asker.ask("mine")
    asker.target_says(mine=(0, WRITE))
    talk.clock.now += 1.0
    assert asker.ask("mine") == frozenset({"mine"})
    talk.clock.now += 0.001
    assert asker.ask("mine") is None


async def test_while_the_target_is_down_what_it_said_of_the_principal_counts(talk: Conversation) -> None:
    asker = Asker(talk)
    asker.session.principal = "alice"
    asker.ask("mine", "theirs")
    asker.target_says(mine=(0, WRITE), theirs=(0, DESCRIBE))
    asker.session.target_down = cast("Any", object())
    talk.clock.now += 10 * KEPT_S
    assert asker.ask("mine", "theirs", "never_asked") == frozenset({"mine"})
    asker.session.principal = "bob"
    assert asker.ask("mine") == frozenset()
    assert not talk.broker.written
