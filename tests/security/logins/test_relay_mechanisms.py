"""`identity: relay` on a real broker: each mechanism of SASL passes through the gateway, and the broker decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from gateway.kafka.access.delegation_tokens import create_token
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import TOKEN_MECHANISM, ClusterConfig
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import AuthenticationFailed
from gateway.kafka.connection.sasl import Scram
from protocol import messages as m
from tests.support.brokers.logs import create_topic
from tests.support.brokers.secured_cluster import TOPIC, WRITE, give_scram_passwords, inside, login, unsigned_token
from tests.support.clients.raw_client import RawClient
from tests.support.gateways.identity_scene import Scene, produce
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.integration, pytest.mark.slow]
WRITES = 1 << 4


@pytest.fixture
def writable(scene: Scene, topic: str) -> str:
    """A topic that alice may write, and nobody else."""
    create_topic(inside(scene.target), topic, partitions=1)
    scene.acls.allow("alice", (TOPIC, topic, WRITE))
    return topic


@pytest.fixture(scope="module")
def scram(scene: Scene) -> None:
    """alice and bob have passwords of SCRAM: their names."""
    give_scram_passwords(scene.target, "alice", "bob")


def settings_of(scene: Scene, mechanism: str, user: str, password: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": scene.relay,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return {**found, "enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": f"principal={user}"}
    return {**found, "sasl.username": user, "sasl.password": password}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
@pytest.mark.usefixtures("scram")
def test_the_broker_knows_who_logs_in(scene: Scene, writable: str, mechanism: str) -> None:
    settings = settings_of(scene, mechanism, "alice", "alice")
    wait_until(lambda: produce(settings, "alice", writable, 5.0) == [None], 30.0, what="the broker knows the password")
    (refused,) = produce(settings_of(scene, mechanism, "bob", "bob"), "bob", writable, 20.0)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.usefixtures("scram")
def test_a_wrong_password_is_refused_by_the_broker(scene: Scene, writable: str, mechanism: str) -> None:
    told: list[int] = []
    settings = {**settings_of(scene, mechanism, "alice", "wrong"), "error_cb": lambda error: told.append(error.code())}
    (error,) = produce(settings, "alice", writable, 3.0)
    assert error is not None
    assert KafkaError._AUTHENTICATION in told


async def test_delegation_tokens(scene: Scene, writable: str) -> None:
    """One that was made for alice logs in as alice, by SCRAM with `tokenauth=true`."""
    admin = Cluster(ClusterConfig.from_client_properties(login("admin", scene.target.bootstrap)))
    try:
        await admin.start(30.0, topics=[])
        token = await create_token(admin, "alice", 600.0)
    finally:
        await admin.close()
    client = RawClient(scene.relay)
    try:
        sasl = Scram(TOKEN_MECHANISM, token.token_id, token.password, is_token=True)
        assert client.ask(m.SaslHandshakeRequest(mechanism=TOKEN_MECHANISM), 1).error_code == 0
        message: bytes | None = sasl.first()
        while message is not None:
            answer = client.ask(m.SaslAuthenticateRequest(auth_bytes=message), 2)
            assert not answer.error_code, answer.error_message
            message = sasl.respond(bytes(answer.auth_bytes))
        assert client.ask(_rights(writable), 8).topics[0].topic_authorized_operations & WRITES
    finally:
        client.socket.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.usefixtures("scram")
async def test_logins_are_repeated_on_the_same_connection(scene: Scene, writable: str, mechanism: str) -> None:
    """KIP-368: the broker closes a connection whose login is over; this one goes on, as who it was."""
    found = settings_of(scene, mechanism, "alice", "alice")
    config = ClusterConfig.from_client_properties(found)
    host, port = config.bootstrap[0]

    async def opened() -> Connection | None:
        try:
            return await Connection.open(host, port, config)
        except AuthenticationFailed:
            return None

    connection = await wait_until_async(opened, what="the broker knows the password")
    assert connection is not None
    before, most = _logins(scene), {"PLAIN": 2, "SCRAM-SHA-256": 4}[mechanism]
    try:

        async def repeated_twice() -> bool:
            answer = await connection.request(_rights(writable), cap=8)
            assert answer.topics[0].topic_authorized_operations & WRITES
            return _logins(scene) >= before + most

        await wait_until_async(repeated_twice, 60.0, what="the client has logged in twice more")
        assert not connection.closed
    finally:
        connection.close()


async def test_the_gateways_own_client_logs_in_by_a_bearer_token(scene: Scene, tmp_path: Path) -> None:
    """From a file that others renew; the broker wants the login repeated, and the token of then counts."""
    token = tmp_path / "token"

    token.write_text(f"{unsigned_token('admin')}\n", encoding="ascii")
    config = ClusterConfig.from_client_properties(
        {
            "bootstrap.servers": scene.target.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        }
    )
    host, port = config.bootstrap[0]
    connection = await Connection.open(host, port, config)
    everything = m.DescribeDelegationTokenRequest(owners=None)
    assert (await connection.request(everything)).error_code == 0
    token.write_text("nothing of use", encoding="ascii")
    await wait_until_async(lambda: connection.closed, what="the login is repeated with what the file says then")
    assert "not a token" in connection.close_reason
    token.write_text("n.o.pe", encoding="ascii")
    with pytest.raises(AuthenticationFailed):
        await Connection.open(host, port, config)


def _rights(topic: str) -> m.MetadataRequest:
    return m.MetadataRequest(
        topics=[m.MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )


def _logins(scene: Scene) -> float:
    line = 'lockgate_requests_total{api="SaslAuthenticate"}'
    text = scene.gateway.api.get("/metrics").text
    return sum(float(each.split()[-1]) for each in text.splitlines() if each.startswith(line))
