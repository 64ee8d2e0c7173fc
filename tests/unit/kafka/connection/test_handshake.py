import asyncio
import base64
import hashlib
import hmac
from typing import Any

import pytest

from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import AuthenticationFailed, ClusterUnavailable
from protocol.apis import ApiKey
from protocol.codec import encode_body, encode_response
from protocol.errors import ErrorCode
from protocol.messages import (
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from tests.support.brokers.quick_clusters import OpenConnection, quick
from tests.support.fakes.fake_broker import SILENCE, FakeBroker, Request
from tests.support.waiting import wait_until_async

SCRAM = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_username": "ann",
    "sasl_password": "secret",
}
PLAIN = SCRAM | {"sasl_mechanism": "PLAIN"}


class SaslBroker:
    """The broker's side of SASL: PLAIN and SCRAM-SHA-256 for ann with the password `secret`."""

    def __init__(self, lifetime_ms: int = 0) -> None:
        self.lifetime_ms = lifetime_ms
        self.password = b"secret"
        self.mechanisms = ["PLAIN", "SCRAM-SHA-256"]
        self.logins = 0
        self._mechanism: dict[int, str] = {}
        self._first: dict[int, tuple[str, str]] = {}

    def install(self, broker: FakeBroker) -> FakeBroker:
        broker.handlers[ApiKey.SASL_HANDSHAKE] = self.handshake
        broker.handlers[ApiKey.SASL_AUTHENTICATE] = self.authenticate
        broker.handlers[ApiKey.METADATA] = lambda _: MetadataResponse(
            brokers=[], topics=[], cluster_id="c", controller_id=1
        )
        return broker

    def handshake(self, request: Request) -> Any:
        self._mechanism[request.peer] = request.message.mechanism
        self._first.pop(request.peer, None)
        code = 0 if request.message.mechanism in self.mechanisms else int(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        return SaslHandshakeResponse(error_code=code, mechanisms=self.mechanisms)

    def authenticate(self, request: Request) -> Any:
        token = bytes(request.message.auth_bytes)
        if self._mechanism[request.peer] == "PLAIN":
            return self._done(b"") if token == b"\0ann\0" + self.password else self._refuse()
        if request.peer not in self._first:
            bare = token.decode().removeprefix("n,,")
            nonce = bare.split("r=")[1] + "broker"
            server_first = f"r={nonce},s={base64.b64encode(b'salt').decode()},i=4096"
            self._first[request.peer] = (bare, server_first)
            return self._token(server_first.encode())
        bare, server_first = self._first[request.peer]
        without_proof, proof = token.split(b",p=")
        message = f"{bare},{server_first},".encode() + without_proof
        salted = hashlib.pbkdf2_hmac("sha256", self.password, b"salt", 4096)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        if base64.b64decode(proof) != bytes(a ^ b for a, b in zip(client_key, signature, strict=True)):
            return self._refuse()
        verifier = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
        return self._done(b"v=" + base64.b64encode(verifier))

    def _done(self, token: bytes) -> Any:
        self.logins += 1
        return self._token(token, self.lifetime_ms)

    def _token(self, token: bytes, lifetime_ms: int = 0) -> Any:
        return SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms
        )

    def _refuse(self) -> Any:
        return SaslAuthenticateResponse(
            error_code=int(ErrorCode.SASL_AUTHENTICATION_FAILED),
            error_message="Authentication failed: Invalid username or password",
            auth_bytes=b"",
            session_lifetime_ms=0,
        )


async def test_a_broker_that_does_not_know_our_api_versions_version(connect: OpenConnection) -> None:
    broker = FakeBroker(versions={ApiKey.API_VERSIONS: (0, 2), ApiKey.METADATA: (0, 7)})

    def answer(request: Request) -> Any:
        if request.version > 2:
            refused = broker.api_versions(int(ErrorCode.UNSUPPORTED_VERSION))
            return encode_response(refused, ApiKey.API_VERSIONS, 0, request.correlation_id)
        return broker.api_versions()

    broker.handlers[ApiKey.API_VERSIONS] = answer
    async with broker:
        connection = await connect(broker.port)

        assert [r.version for r in broker.requests] == [4, 2]
        assert connection.version(ApiKey.METADATA) == 7


async def test_an_old_broker_that_leaves_the_ranges_out(connect: OpenConnection) -> None:
    broker = FakeBroker(versions={ApiKey.API_VERSIONS: (0, 0), ApiKey.METADATA: (0, 1)})

    def answer(request: Request) -> Any:
        if request.version > 0:
            refused = ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[])
            return encode_response(refused, ApiKey.API_VERSIONS, 0, request.correlation_id)
        return broker.api_versions()

    broker.handlers[ApiKey.API_VERSIONS] = answer
    async with broker:
        await connect(broker.port)

        assert [r.version for r in broker.requests] == [4, 0]


async def test_any_other_error_of_api_versions_ends_it() -> None:
    def answer(request: Request) -> Any:
        refused = ApiVersionsResponse(error_code=int(ErrorCode.ILLEGAL_SASL_STATE), api_keys=[])
        return encode_response(refused, ApiKey.API_VERSIONS, 0, request.correlation_id)

    async with FakeBroker({ApiKey.API_VERSIONS: answer}) as broker:
        with pytest.raises(ClusterUnavailable, match="ApiVersions: ILLEGAL_SASL_STATE"):
            await Connection.open("127.0.0.1", broker.port, quick("a:1"))
        await wait_until_async(lambda: not broker.open_connections)


@pytest.mark.parametrize("properties", [SCRAM, PLAIN])
async def test_log_in(connect: OpenConnection, properties: dict[str, str]) -> None:
    sasl = SaslBroker()
    async with sasl.install(FakeBroker()) as broker:
        connection = await connect(broker.port, **properties)

        assert (await connection.request(MetadataRequest(topics=[]))).cluster_id == "c"
        assert sasl.logins == 1


@pytest.mark.parametrize("properties", [SCRAM, PLAIN])
async def test_a_wrong_password(properties: dict[str, str]) -> None:
    sasl = SaslBroker()
    sasl.password = b"other"
    async with sasl.install(FakeBroker()) as broker:
        with pytest.raises(AuthenticationFailed, match=rf"^127.0.0.1:{broker.port}: Authentication failed: Invalid"):
            await Connection.open("127.0.0.1", broker.port, quick("a:1", **properties))
        await wait_until_async(lambda: not broker.open_connections)


async def test_a_mechanism_that_is_not_offered() -> None:
    sasl = SaslBroker()
    sasl.mechanisms = ["GSSAPI", "PLAIN"]
    async with sasl.install(FakeBroker()) as broker:
        with pytest.raises(AuthenticationFailed, match=r"SCRAM-SHA-256 is not offered .*GSSAPI, PLAIN"):
            await Connection.open("127.0.0.1", broker.port, quick("a:1", **SCRAM))


async def test_it_logs_in_again_before_the_session_ends(connect: OpenConnection) -> None:
    sasl = SaslBroker(lifetime_ms=200)
    async with sasl.install(FakeBroker()) as broker:
        connection = await connect(broker.port, **SCRAM)

        await wait_until_async(lambda: sasl.logins >= 3, 10)

        assert broker.connections == 1
        assert (await connection.request(MetadataRequest(topics=[]))).cluster_id == "c"


async def test_requests_wait_while_it_logs_in_again(connect: OpenConnection) -> None:
    """Between the frames of a handshake a broker takes nothing else."""
    sasl = SaslBroker(lifetime_ms=300)
    held, go_on = asyncio.Event(), asyncio.Event()

    async def slow_authenticate(request: Request) -> Any:
        if sasl.logins:
            held.set()
            await go_on.wait()
        return sasl.authenticate(request)

    broker = sasl.install(FakeBroker())
    broker.handlers[ApiKey.SASL_AUTHENTICATE] = slow_authenticate
    async with broker:
        connection = await connect(broker.port, **SCRAM)
        await held.wait()
        got: list[Any] = []
        body = encode_body(MetadataRequest(topics=[]), 9)
        for _ in range(3):
            connection.send(ApiKey.METADATA, 9, (body,), got.append)
        assert connection.in_flight == 3 + 1
        sasl.lifetime_ms = 0
        go_on.set()
        await wait_until_async(lambda: len(got) == 3)

        keys = [request.key for request in broker.requests]
        assert keys[-3:] == [ApiKey.METADATA] * 3
        assert ApiKey.METADATA not in keys[:-3]
        assert all(view is not None for view in got)


async def test_a_second_log_in_that_fails_closes_with_the_reason(connect: OpenConnection) -> None:
    sasl = SaslBroker(lifetime_ms=200)
    async with sasl.install(FakeBroker()) as broker:
        connection = await connect(broker.port, **SCRAM)
        sasl.password = b"changed"

        await wait_until_async(lambda: connection.closed, 10)

        assert connection.close_reason.startswith("re-authentication failed: ")
        assert "Invalid username or password" in connection.close_reason


async def test_what_was_held_gets_none_when_the_second_log_in_fails(connect: OpenConnection) -> None:
    sasl = SaslBroker(lifetime_ms=200)
    async with sasl.install(FakeBroker()) as broker:
        properties = SCRAM | {"socket_connection_setup_timeout_ms": "500"}
        connection = await connect(broker.port, **properties)
        broker.handlers[ApiKey.SASL_AUTHENTICATE] = lambda _: SILENCE
        await wait_until_async(lambda: len(broker.asked(ApiKey.SASL_AUTHENTICATE)) == 3, 10)
        got: list[Any] = []
        connection.send(ApiKey.METADATA, 9, (encode_body(MetadataRequest(topics=[]), 9),), got.append)

        await wait_until_async(lambda: connection.closed, 10)

        assert got == [None]
        assert not broker.asked(ApiKey.METADATA)
        assert connection.close_reason == "re-authentication failed: timed out"


async def test_closing_in_the_middle_of_a_log_in_leaves_no_task(connect: OpenConnection) -> None:
    sasl = SaslBroker(lifetime_ms=200)
    async with sasl.install(FakeBroker()) as broker:
        connection = await connect(broker.port, **SCRAM)
        broker.handlers[ApiKey.SASL_AUTHENTICATE] = lambda _: SILENCE
        await wait_until_async(lambda: len(broker.asked(ApiKey.SASL_AUTHENTICATE)) == 3, 10)
        connection.close("mine")

        await wait_until_async(lambda: not any(t.get_name().startswith("sasl") for t in asyncio.all_tasks()))

        assert connection.close_reason == "mine"
