"""`identity: token` in one session: what a client can say before and while the gateway logs in for it."""

from __future__ import annotations

import struct
from typing import Any

from gateway.proxy.identity.identity import Bearer, InvalidBearer
from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_request
from protocol.errors import ErrorCode
from protocol.header import peek_request_header, response_body_offset
from protocol.messages import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.proxy.token_login import TokenTalk

REFUSED = int(ErrorCode.SASL_AUTHENTICATION_FAILED)


def request(correlation: int, size: int = 20, key: int = int(ApiKey.DESCRIBE_ACLS)) -> bytes:
    """Any request that nobody intercepts; the first 8 bytes are those of a header."""
    head = struct.pack(">hhih", key, 1, correlation, 2) + b"me"
    return struct.pack(">i", size) + head + bytes(size - len(head))


def is_read(talk: TokenTalk) -> bool:
    return talk.talk.client.reading


def correlations(talk: TokenTalk) -> list[int]:
    return [peek_request_header(memoryview(frame)).correlation_id for frame in talk.talk.broker.frames()]


def answer(talk: TokenTalk, key: ApiKey, version: int) -> Any:
    (frame,) = talk.talk.client.frames()
    view = memoryview(frame)
    return decode_response(key, version, view[response_body_offset(key, version, view) :])


async def test_nothing_of_a_client_is_looked_at_before_the_broker_has_taken_its_token() -> None:
    talk = TokenTalk("CN=alice")
    talk.talk.says(request(7))
    assert talk.session.principal == ""
    first = await talk.broker_lets_in()
    assert first.startswith("n,,n=token-of-CN=3Dalice,r=")
    assert first.endswith(",tokenauth=true")
    assert talk.session.principal == "CN=alice"
    assert talk.session.login.accepted
    assert talk.session.login.since is None
    assert correlations(talk) == [7]


async def test_who_gets_no_token_is_closed() -> None:
    talk = TokenTalk("mallory")
    talk.tokens.refused["mallory"] = "lacks the ACL CreateTokens on User:mallory"
    talk.talk.says(request(7))
    await talk.talk.run_pending()
    assert talk.session.closed
    assert talk.talk.context.stats.closed == {"authentication failed": 1}
    assert talk.talk.broker.take() == b""


async def test_a_broker_that_does_not_know_the_token_is_not_believed() -> None:
    talk = TokenTalk("alice")
    await talk.broker_lets_in(knows=False)
    assert talk.session.closed
    assert [token.token_id for token in talk.tokens.forgotten] == ["token-of-alice"]


async def test_a_client_with_a_certificate_cannot_log_in_as_somebody_else() -> None:
    talk = TokenTalk("alice")
    await talk.broker_lets_in()
    talk.talk.says(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 3, "me"))
    assert talk.talk.broker.take() == b""
    assert answer(talk, ApiKey.SASL_HANDSHAKE, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    talk.talk.says(encode_request(SaslAuthenticateRequest(auth_bytes=b"\0bob\0bob"), 1, 4, "me"))
    assert talk.talk.broker.take() == b""
    assert talk.session.closed
    assert talk.session.principal == "alice"


async def test_the_login_is_repeated_between_two_requests_and_nothing_overtakes() -> None:
    talk = TokenTalk("alice")
    await talk.broker_lets_in(lifetime_ms=10_000)
    (timer,) = [each for each in talk.talk.loop.timers if not each.was_cancelled]
    assert timer.delay == 9.0
    half = request(1, size=4_000)
    talk.talk.says(half[:1_000])
    assert len(talk.talk.broker.take()) == 1_000
    talk.talk.loop.fire()
    await talk.talk.run_pending()
    assert talk.talk.broker.take() == b""
    assert not is_read(talk)
    talk.talk.says(half[1_000:] + request(2))
    sent = talk.talk.broker.take()
    assert len(sent) > 3_000
    handshake = sent[len(half) - 1_000 + 24 :]  # behind both requests: they came in one piece
    assert peek_request_header(memoryview(handshake)[4:]).api_key == ApiKey.SASL_HANDSHAKE
    talk.talk.broker.write(handshake)
    talk.talk.says(request(3))
    talk.session.upstream_data(struct.pack(">ii", 4, 1) + struct.pack(">ii", 4, 2))
    await talk.broker_lets_in(lifetime_ms=10_000)
    assert correlations(talk) == [3]
    talk.session.upstream_data(struct.pack(">ii", 4, 3))
    assert talk.talk.client.take() == b"".join(struct.pack(">ii", 4, each) for each in (1, 2, 3))
    assert is_read(talk)
    assert talk.tokens.asked == ["alice", "alice"]


async def test_a_right_that_was_taken_away_ends_the_session_at_its_next_login() -> None:
    talk = TokenTalk("alice")
    await talk.broker_lets_in(lifetime_ms=10_000)
    talk.tokens.refused["alice"] = "no more"
    talk.talk.loop.fire()
    await talk.talk.run_pending()
    assert talk.session.closed


# -- OAUTHBEARER -----------------------------------------------------------------------------------------------------


async def check(token: str) -> Bearer:
    if token == "bad":
        raise InvalidBearer("the token is not valid: Signature has expired")
    return Bearer(token, 100.0)


def handshake(talk: TokenTalk, mechanism: str = "OAUTHBEARER") -> Any:
    talk.talk.says(encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 3, "me"))
    return answer(talk, ApiKey.SASL_HANDSHAKE, 1)


def bear(talk: TokenTalk, token: str, asked: str = "") -> None:
    message = f"n,{asked},\x01auth=Bearer {token}\x01\x01".encode()
    talk.talk.says(encode_request(SaslAuthenticateRequest(auth_bytes=message), 1, 4, "me"))


async def test_a_bearer_is_let_in_when_the_broker_has_taken_its_principal() -> None:
    talk = TokenTalk(bearer=check)
    talk.talk.says(encode_request(ApiVersionsRequest(), 0, 1, "me"))
    assert correlations(talk) == [1]
    talk.session.upstream_data(struct.pack(">iihi", 10, 1, 0, 0))
    talk.talk.client.take()
    assert handshake(talk).error_code == 0
    bear(talk, "alice")
    await talk.talk.turn()
    assert talk.talk.client.take() == b""
    await talk.broker_lets_in()
    told = answer(talk, ApiKey.SASL_AUTHENTICATE, 1)
    assert (told.error_code, told.session_lifetime_ms) == (0, 100_000)
    assert talk.session.principal == "alice"
    talk.talk.says(request(7))
    assert correlations(talk) == [7]


async def test_a_bad_token_is_told_why_and_closed() -> None:
    talk = TokenTalk(bearer=check)
    handshake(talk)
    bear(talk, "bad")
    await talk.talk.run_pending()
    told = answer(talk, ApiKey.SASL_AUTHENTICATE, 1)
    assert (told.error_code, told.error_message) == (REFUSED, "the token is not valid: Signature has expired")
    assert talk.session.closed
    assert talk.talk.context.stats.closed == {"authentication failed": 1}
    assert talk.tokens.asked == []


async def test_the_missing_acl_is_told_to_a_bearer() -> None:
    talk = TokenTalk(bearer=check)
    talk.tokens.refused["bob"] = "lacks the ACL CreateTokens on User:bob"
    handshake(talk)
    bear(talk, "bob")
    await talk.talk.run_pending()
    told = answer(talk, ApiKey.SASL_AUTHENTICATE, 1)
    assert (told.error_code, told.error_message) == (REFUSED, "lacks the ACL CreateTokens on User:bob")


async def test_other_mechanisms_other_names_and_other_requests_are_refused() -> None:
    talk = TokenTalk(bearer=check)
    told = handshake(talk, "PLAIN")
    assert (told.error_code, told.mechanisms) == (int(ErrorCode.UNSUPPORTED_SASL_MECHANISM), ["OAUTHBEARER"])
    handshake(talk)
    bear(talk, "alice", "a=bob")
    await talk.talk.run_pending()
    assert answer(talk, ApiKey.SASL_AUTHENTICATE, 1).error_code == REFUSED
    talk = TokenTalk(bearer=check)
    bear(talk, "alice")  # without a handshake
    assert answer(talk, ApiKey.SASL_AUTHENTICATE, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    talk = TokenTalk(bearer=check)
    talk.talk.says(request(7))
    assert talk.session.closed
    assert talk.talk.broker.take() == b""


async def let_in(talk: TokenTalk) -> None:
    handshake(talk)
    bear(talk, "alice")
    await talk.talk.turn()
    await talk.broker_lets_in()
    talk.talk.client.take()


async def test_a_bearer_logs_in_again_as_the_same_principal_only() -> None:
    talk = TokenTalk(bearer=check)
    await let_in(talk)
    handshake(talk)
    bear(talk, "alice")
    await talk.talk.run_pending()
    assert answer(talk, ApiKey.SASL_AUTHENTICATE, 1).error_code == 0
    assert talk.talk.broker.take() == b""  # it concerns the gateway alone
    handshake(talk)
    bear(talk, "bob")
    await talk.talk.run_pending()
    told = answer(talk, ApiKey.SASL_AUTHENTICATE, 1)
    assert told.error_message == "the principal of a connection cannot change from alice to bob"
    assert talk.session.closed


async def test_a_bearer_whose_token_has_expired_is_closed() -> None:
    talk = TokenTalk(bearer=check)
    await let_in(talk)
    talk.talk.loop.fire()
    assert talk.session.closed
    assert talk.talk.context.stats.closed == {"login over": 1}
