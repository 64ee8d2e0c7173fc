"""A client that logs in through a conversation, and a target broker that decides."""

from __future__ import annotations

from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_request, encode_response
from protocol.header import peek_request_header
from protocol.messages import (
    DescribeGroupsResponse,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.support.proxy.conversation import Conversation

METADATA, DESCRIBE_GROUPS = int(ApiKey.METADATA), int(ApiKey.DESCRIBE_GROUPS)
READ, DESCRIBE = 1 << 3, 1 << 8


class LoggingIn:
    """`talk`, and the steps of a login in it."""

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk

    def handshake(self, mechanism: str = "PLAIN") -> None:
        """The client names its mechanism, the broker takes it."""
        talk = self.talk
        talk.says(encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 1, "me"))
        assert len(talk.broker.frames()) == 1
        answer = SaslHandshakeResponse(error_code=0, mechanisms=[mechanism])
        talk.session.upstream_data(encode_response(answer, ApiKey.SASL_HANDSHAKE, 1, 1))
        talk.client.take()

    def says(self, message: bytes) -> None:
        """The client's message of a login; it is relayed as it is."""
        self.talk.says(encode_request(SaslAuthenticateRequest(auth_bytes=message), 1, 2, "me"))

    def broker_answers(self, error_code: int = 0, lifetime_ms: int = 0, message: bytes = b"") -> None:
        """What the broker says to it."""
        answer = SaslAuthenticateResponse(
            error_code=error_code, error_message=None, auth_bytes=message, session_lifetime_ms=lifetime_ms
        )
        self.talk.session.upstream_data(encode_response(answer, ApiKey.SASL_AUTHENTICATE, 1, 2))

    def plain(self, user: str, *, lifetime_ms: int = 0) -> None:
        """A login that the broker does not refuse."""
        self.handshake()
        self.says(f"\0{user}\0{user}".encode())
        self.talk.broker.take()
        self.broker_answers(lifetime_ms=lifetime_ms)
        self.talk.client.take()

    async def broker_takes_it(self) -> None:
        """The broker answers the question that only who has logged in gets an answer to."""
        await self.talk.turn()
        (frame,) = self.talk.broker.frames()
        header = peek_request_header(memoryview(frame))
        assert (header.api_key, header.client_id) == (METADATA, "lockgate")
        assert decode_request(METADATA, header.api_version, memoryview(frame)[header.body_offset :]).topics == []
        answer = encode_response(MetadataResponse(brokers=[], topics=[]), METADATA, 8, header.correlation_id)
        self.talk.session.upstream_data(answer)

    def broker_says_of_groups(self, **groups: tuple[int, int]) -> list[str]:
        """Group -> error code and authorised operations. Returns what was asked about."""
        (frame,) = self.talk.broker.frames()
        header = peek_request_header(memoryview(frame))
        assert (header.api_key, header.client_id) == (DESCRIBE_GROUPS, "lockgate")
        request = decode_request(DESCRIBE_GROUPS, header.api_version, memoryview(frame)[header.body_offset :])
        assert request.include_authorized_operations
        kind = DescribeGroupsResponse.DescribedGroup
        found = [
            kind(
                error_code=code,
                group_id=group,
                group_state="Dead",
                protocol_type="",
                protocol_data="",
                members=[],
                authorized_operations=operations,
            )
            for group, (code, operations) in groups.items()
        ]
        answer = DescribeGroupsResponse(throttle_time_ms=0, groups=found)
        self.talk.session.upstream_data(
            encode_response(answer, DESCRIBE_GROUPS, header.api_version, header.correlation_id)
        )
        return list(request.groups)
