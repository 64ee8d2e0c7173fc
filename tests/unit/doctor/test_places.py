"""Real sockets, real TLS: what is seen of a place."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.doctor.places import Patience, look_at_file, look_at_places
from gateway.doctor.rules.facts import CertificateFacts, PlaceFacts
from gateway.kafka.connection.config import ClusterConfig
from tests.support.fakes.fake_broker import FakeBroker
from tests.support.identities.certificates import HOST, Certificates

PATIENT = Patience(connect_s=60.0, answer_s=60.0, cluster_s=240.0)
PLAIN = ClusterConfig.from_client_properties({"bootstrap.servers": "127.0.0.1:1"})


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def trusting(ca: Path) -> ClusterConfig:
    properties = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.ca.location": str(ca)}
    return ClusterConfig.from_client_properties(properties)


async def look(port: int, config: ClusterConfig = PLAIN, host: str = HOST) -> PlaceFacts:
    (found,) = await look_at_places([(host, port)], config, PATIENT, advertised=False)
    return found


async def shown(files: tuple[Path, Path], config: ClusterConfig) -> CertificateFacts:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    async with FakeBroker(ssl_context=context) as broker:
        found = (await look(broker.port, config)).certificate
    assert found is not None
    return found


async def test_one_that_is_open_and_one_that_is_not() -> None:
    async with FakeBroker() as broker:
        port = broker.port
        found = await look(port)
        assert (found.connects, found.certificate) == (True, None)
    found = await look(port)
    assert [(one.address, one.error) for one in found.addresses] == [(HOST, "connection refused")]


async def test_a_name_that_there_is_not() -> None:
    found = await look(9092, host="no-such-host.invalid")
    assert found.unresolved
    assert not found.connects
    assert (await look(9092, host="a" * 70)).unresolved  # no label may be so long


async def test_places_are_told_in_the_order_in_which_they_were_asked_for() -> None:
    wanted = [("127.0.0.1", port) for port in range(1, 40)]
    found = await look_at_places(wanted, PLAIN, PATIENT, advertised=True)
    assert [(one.host, one.port) for one in found] == wanted
    assert all(one.advertised for one in found)


async def test_a_certificate_that_is_trusted(certificates: Certificates) -> None:
    found = await shown(certificates.server("good"), trusting(certificates.ca))
    assert (found.error, found.names) == ("", (HOST,))
    assert found.not_before < found.not_after


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda own: own.server("other", host="kafka.example.org"), "IP address mismatch"),
        (lambda own: own.server("late", expired=True), "certificate has expired"),
    ],
    ids=["name", "expired"],
)
async def test_one_that_is_refused_is_seen_all_the_same(
    certificates: Certificates, made: Callable[[Certificates], tuple[Path, Path]], words: str
) -> None:
    found = await shown(made(certificates), trusting(certificates.ca))
    assert words in found.error
    assert found.not_after
    assert found.names


async def test_one_of_a_stranger(certificates: Certificates, tmp_path: Path) -> None:
    strangers = Certificates(tmp_path / "strangers")
    found = await shown(strangers.server("good"), trusting(certificates.ca))
    assert "not trusted" in found.error


async def test_where_no_tls_is_spoken(certificates: Certificates) -> None:
    async with FakeBroker() as broker:
        found = (await look(broker.port, trusting(certificates.ca))).certificate
    assert found is not None
    assert (bool(found.error), found.not_after) == (True, 0.0)


def test_a_file(certificates: Certificates, tmp_path: Path) -> None:
    certificate, key = certificates.server("good")
    assert look_at_file(certificate).names == (HOST,)
    assert look_at_file(key).error == "no certificate in PEM is in it"
    assert look_at_file(tmp_path / "none").error == "No such file or directory"
