"""TLS and SASL with a real broker: every way to log in, and what a wrong one says."""

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gateway.devcluster import DevCluster, claim_ports
from gateway.kafka import admin
from gateway.kafka.cluster import AuthenticationFailed, ClusterUnavailable
from protocol.apis import ApiKey
from protocol.codec import encode_body
from protocol.messages import AlterUserScramCredentialsRequest, MetadataRequest
from tests.integration.net.certificates import make_certificates
from tests.integration.net.conftest import OpenCluster
from tests.support.waiting import wait_until_async

_LISTENERS = {"TLS": "SSL", "MUTUAL": "SSL", "SASLTLS": "SASL_SSL", "SASL": "SASL_PLAINTEXT"}
_MODULE = "org.apache.kafka.common.security.{0}LoginModule required"
_REAUTH_MS = 10_000  # a client logs in again when at least 5 % are left: time enough on a busy machine


@dataclass
class Secured:
    """A running broker with a listener for each way in."""

    dev: DevCluster
    ports: dict[str, int]
    ca: str
    client_pem: str
    other_ca: str

    def at(self, listener: str, host: str = "127.0.0.1") -> str:
        return f"{host}:{self.ports[listener]}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    ours, other = folder / "ours", folder / "other"
    make_certificates(ours, "broker", "client")
    make_certificates(other)
    ports = dict(zip(_LISTENERS, claim_ports(len(_LISTENERS)), strict=True))
    plain = DevCluster.create("secured", kafka="4.3.1", parent=folder)
    properties = _properties(plain, ports, ours)
    dev = DevCluster(replace(plain.spec, properties=properties), plain.folder)
    try:
        dev.up()
        yield Secured(dev, ports, str(ours / "ca.pem"), str(ours / "client.pem"), str(other / "ca.pem"))
    finally:
        dev.down()


def _properties(dev: DevCluster, ports: dict[str, int], certificates: Path) -> dict[str, str]:
    node = dev.spec.nodes[0]
    inside = {"PLAINTEXT": node.client_port, "INTERNAL": node.internal_port}
    advertised = [f"{name}://127.0.0.1:{port}" for name, port in (inside | ports).items()]
    protocols = {"PLAINTEXT": "PLAINTEXT", "INTERNAL": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"} | _LISTENERS
    properties = {
        "listeners": ",".join([*advertised, f"CONTROLLER://127.0.0.1:{node.controller_port}"]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "connections.max.reauth.ms": str(_REAUTH_MS),
    }
    for listener in ("sasltls", "sasl"):
        prefix = f"listener.name.{listener}"
        properties[f"{prefix}.sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        properties[f"{prefix}.plain.sasl.jaas.config"] = _MODULE.format("plain.Plain") + ' user_ann="secret";'
        for scram in ("scram-sha-256", "scram-sha-512"):
            properties[f"{prefix}.{scram}.sasl.jaas.config"] = _MODULE.format("scram.Scram") + ";"
    return properties


@pytest.fixture
async def scram_user(secured: Secured, client: OpenCluster) -> None:
    """Ann's SCRAM credentials, for both hashes."""
    cluster = await client(secured.dev.bootstrap)
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    for mechanism, hash_name in ((1, "sha256"), (2, "sha512")):
        salted = hashlib.pbkdf2_hmac(hash_name, b"secret", b"salt", 4096)
        credentials = upsertion(name="ann", mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=salted)
        response = await cluster.request(AlterUserScramCredentialsRequest(deletions=[], upsertions=[credentials]))
        assert [result.error_code for result in response.results] == [0]


def sasl(mechanism: str, password: str = "secret", **more: str) -> dict[str, str]:
    return {"sasl_mechanism": mechanism, "sasl_username": "ann", "sasl_password": password, **more}


async def test_tls(secured: Secured, client: OpenCluster, topic: str) -> None:
    cluster = await client(secured.at("TLS"), security_protocol="SSL", ssl_ca_location=secured.ca)
    await admin.create_topic(cluster, topic, partitions=1, replication_factor=1)

    # Larger than what is joined into one write, and than one TLS record.
    names = [MetadataRequest.MetadataRequestTopic(name=f"{topic}-{number}") for number in range(3000)]
    body = memoryview(encode_body(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9))
    connection = await cluster.connection(1)
    answers: list[memoryview | None] = []
    for _ in range(3):
        connection.send(ApiKey.METADATA, 9, (body[:10], body[10:]), answers.append)
    await wait_until_async(lambda: len(answers) == 3)

    assert answers[0] is not None
    assert len(answers[0]) > len(body)
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    ("host", "properties", "said"),
    [
        ("127.0.0.1", {"ssl_ca_location": "other_ca"}, "certificate is not trusted"),
        ("localhost", {"ssl_ca_location": "ca"}, "certificate is not trusted .*localhost"),
    ],
)
async def test_a_broker_that_cannot_be_trusted(
    secured: Secured, client: OpenCluster, host: str, properties: dict[str, str], said: str
) -> None:
    files = {name: getattr(secured, value) for name, value in properties.items()}
    cluster = await client(secured.at("TLS", host), start=False, security_protocol="SSL", **files)

    with pytest.raises(ClusterUnavailable, match=said):
        await cluster.start(timeout_s=1)


async def test_the_host_name_is_not_looked_at_when_told_so(secured: Secured, client: OpenCluster) -> None:
    await client(
        secured.at("TLS", "localhost"),
        security_protocol="SSL",
        ssl_ca_location=secured.ca,
        ssl_endpoint_identification_algorithm="none",
    )


async def test_a_client_certificate(secured: Secured, client: OpenCluster) -> None:
    tls = {"security_protocol": "SSL", "ssl_ca_location": secured.ca}
    pem = {"ssl_certificate_location": secured.client_pem, "ssl_key_location": secured.client_pem}
    await client(secured.at("MUTUAL"), **tls, **pem)

    without = await client(secured.at("MUTUAL"), start=False, **tls)
    with pytest.raises(ClusterUnavailable):
        await without.start(timeout_s=1)


async def test_the_wrong_protocol_says_so(secured: Secured, client: OpenCluster) -> None:
    plain = await client(secured.at("TLS"), start=False)
    with pytest.raises(ClusterUnavailable, match=r"answered with TLS: is security.protocol right|closed by the broker"):
        await plain.start(timeout_s=1)

    tls = await client(secured.dev.bootstrap, start=False, security_protocol="SSL", ssl_ca_location=secured.ca)
    with pytest.raises(ClusterUnavailable, match=r"during the TLS handshake: is security.protocol right"):
        await tls.start(timeout_s=2)


@pytest.mark.usefixtures("scram_user")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
async def test_sasl(secured: Secured, client: OpenCluster, protocol: str, mechanism: str) -> None:
    listener = "SASLTLS" if protocol == "SASL_SSL" else "SASL"
    tls = {"ssl_ca_location": secured.ca} if protocol == "SASL_SSL" else {}
    cluster = await client(secured.at(listener), security_protocol=protocol, **tls, **sasl(mechanism))
    assert sorted(cluster.view.brokers) == [1]

    wrong = await client(
        secured.at(listener), start=False, security_protocol=protocol, **tls, **sasl(mechanism, "other")
    )
    with pytest.raises(AuthenticationFailed, match="Authentication failed"):
        await wrong.start(timeout_s=10)


@pytest.mark.slow
@pytest.mark.usefixtures("scram_user")
async def test_a_busy_connection_outlives_its_session(secured: Secured, client: OpenCluster) -> None:
    """KIP-368: the broker closes connections that do not log in again; nothing in flight is lost by doing so."""
    cluster = await client(secured.at("SASL"), security_protocol="SASL_PLAINTEXT", **sasl("SCRAM-SHA-256"))
    connection = await cluster.connection(1)
    body = encode_body(MetadataRequest(topics=[]), 9)
    answers: list[Any] = []
    sent = 0
    loop = asyncio.get_running_loop()
    end = loop.time() + 2 * _REAUTH_MS / 1000

    def one_more() -> bool:
        nonlocal sent
        while sent - len(answers) < 20:  # a busy machine must not have a queue that is longer than what is left
            connection.send(ApiKey.METADATA, 9, (body,), answers.append)
            sent += 1
        return loop.time() >= end

    await wait_until_async(one_more)
    await wait_until_async(lambda: len(answers) == sent)

    assert not connection.closed
    assert all(answer is not None for answer in answers)
    assert bytes(answers[0]) == bytes(answers[-1])
