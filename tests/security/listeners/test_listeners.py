"""Listeners side by side: each with its own ports, TLS and client certificates, before one target."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from bench.contestants.haproxy import haproxy_binary
from gateway.config.settings import Settings
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.devcluster import claim_ports, release_ports
from gateway.groups.gate.rules.gates import GroupGates
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.mirror.rules.progress import MirrorProgress
from gateway.runtime.data_plane import DataPlane
from gateway.state.views import StateViews
from gateway.transport import renewed
from tests.support.fakes.fake_cluster import FakeCluster
from tests.support.identities.certificates import write_revoked

HOST = "127.0.0.1"
NONE: Mapping[str, str] = MappingProxyType({})


class Place:
    """A folder with a CA's certificates, and ports."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.folder = folder
        self.ports = ports
        self.ca, self.others = trustme.CA(), trustme.CA()
        self.ca.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.server("server")

    def server(self, name: str, password: str = "") -> None:
        self._write(name, self.ca.issue_cert(HOST), password)

    def client(self, name: str, ca: trustme.CA | None = None) -> dict[str, str]:
        """Properties of a client with the certificate CN=name."""
        issued = (ca or self.ca).issue_cert(f"{name}@example.org", common_name=name, organization_name="Org, Inc.")
        self._write(name, issued, "")
        return {
            "ssl.certificate.location": str(self.folder / f"{name}.crt"),
            "ssl.key.location": str(self.folder / f"{name}.key"),
        }

    def tls(self, **more: Any) -> dict[str, Any]:
        return {"certificate": self.folder / "server.crt", "key": self.folder / "server.key", **more}

    def _write(self, name: str, issued: trustme.LeafCert, password: str) -> None:
        key = issued.private_key_pem.bytes()
        if password:
            loaded = load_pem_private_key(key, None)
            sealed = BestAvailableEncryption(password.encode())
            key = loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed)
        (self.folder / f"{name}.crt").write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        (self.folder / f"{name}.key").write_bytes(key)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    ports = claim_ports(9, consecutive=True)
    yield Place(tmp_path, ports)
    release_ports(ports)


@asynccontextmanager
async def gateway(place: Place, listeners: dict[str, Any], **first: Any) -> AsyncIterator[DataPlane]:
    """`listeners` in order get the ports of `place`: bootstrap, then two for brokers."""
    ports = iter(place.ports)

    def ported(endpoint: dict[str, Any]) -> dict[str, Any]:
        bootstrap, base, _ = next(ports), next(ports), next(ports)
        return {"bootstrap_port": bootstrap, "base_port": base, **endpoint}

    async with FakeCluster(2) as fake:
        target = {"bootstrap.servers": fake.bootstrap}
        settings = Settings(
            target=target,
            listener=cast("Any", ported(first)),
            listeners=cast("Any", {name: ported(each) for name, each in listeners.items()}),
        )
        cluster = Cluster(ClusterConfig.from_client_properties(target))
        await cluster.start()
        data = DataPlane(
            settings,
            routing=RoutingTable(),
            gates=GroupGates(),
            progress=MirrorProgress(),
            source_topics=cast("Any", None),
            source_offsets=cast("Any", None),
            target=cluster,
            sources={},
            on_forwarded=lambda *_: None,
            lease_valid=lambda: True,
            views=cast("StateViews", SimpleNamespace(gateways={}, ports={}, subscribe=lambda _: None)),
            store_ports=_stored,
        )
        try:
            await data.listeners.start()
            yield data
        finally:
            await data.listeners.close(0.0)
            await cluster.close()


async def _stored(_: Any) -> None:
    """Ports are kept nowhere here."""


@asynccontextmanager
async def client(
    place: Place, port: int, properties: Mapping[str, str] = NONE, *, tls: bool = True
) -> AsyncIterator[Cluster]:
    """A client of a listener, connected."""
    given = {"bootstrap.servers": f"{HOST}:{port}", **properties}
    if tls:
        given |= {"security.protocol": "SSL", "ssl.ca.location": str(place.folder / "ca.pem")}
    cluster = Cluster(ClusterConfig.from_client_properties(given))
    try:
        await cluster.start(10.0)
        yield cluster
    finally:
        await cluster.close()


async def refused(place: Place, port: int, properties: Mapping[str, str] = NONE) -> bool:
    """Whether it is closed before anything is said."""
    given = {"bootstrap.servers": f"{HOST}:{port}", "security.protocol": "SSL", **properties}
    given["ssl.ca.location"] = str(place.folder / "ca.pem")
    context = ClusterConfig.from_client_properties(given).ssl_context()
    try:
        reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    except OSError:
        return True
    try:
        async with asyncio.timeout(1.0):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        writer.transport.abort()


async def test_each_tells_its_own_ports(place: Place) -> None:
    """Clients stay at the listener that they came by: another one may not be reachable for them."""
    ports = place.ports
    public = {"protocol": "SSL", "tls": place.tls(), "advertised_host": "localhost"}
    async with gateway(place, {"public": public, "plain2": {}}, protocol="PLAINTEXT") as data:
        async with client(place, ports[0], tls=False) as plain:
            assert {(b.host, b.port) for b in plain.view.brokers.values()} == {(HOST, ports[1]), (HOST, ports[2])}
        async with client(place, ports[3], {"ssl.endpoint.identification.algorithm": "none"}) as encrypted:
            told = {(b.host, b.port) for b in encrypted.view.brokers.values()}
            assert told == {("localhost", ports[4]), ("localhost", ports[5])}
            await encrypted.refresh(())
        async with client(place, ports[4], {"ssl.endpoint.identification.algorithm": "none"}) as at_a_broker:
            assert {b.port for b in at_a_broker.view.brokers.values()} == {ports[4], ports[5]}
        async with client(place, ports[6], tls=False) as plain:
            assert {b.port for b in plain.view.brokers.values()} == {ports[7], ports[8]}
        assert data.names() == {
            "bootstrap": f"{HOST}:{ports[0]}",
            "1": f"{HOST}:{ports[1]}",
            "2": f"{HOST}:{ports[2]}",
            "public.bootstrap": f"localhost:{ports[3]}",
            "public.1": f"localhost:{ports[4]}",
            "public.2": f"localhost:{ports[5]}",
            "plain2.bootstrap": f"{HOST}:{ports[6]}",
            "plain2.1": f"{HOST}:{ports[7]}",
            "plain2.2": f"{HOST}:{ports[8]}",
        }
        assert data.listeners.closed() == []


PATTERN = "broker-$(nodeId).kafka.example.com"
BY_NAME = {"addressing": "sni", "advertised_host": "boot.kafka.example.com", "advertised_host_pattern": PATTERN}


@pytest.fixture
def named(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """With a certificate for names that all lead here."""
    place._write("server", place.ca.issue_cert("*.kafka.example.com", "kafka.other.example", HOST), "")
    found = socket.getaddrinfo

    def here(host: Any, *asked: Any, **more: Any) -> Any:
        return found(HOST if str(host).endswith(".example.com") else host, *asked, **more)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    return place


async def reached(place: Place, port: int, name: str) -> bool:
    """Whether a handshake with this server name comes to its end."""
    context = ssl.create_default_context(cafile=str(place.folder / "ca.pem"))
    context.check_hostname = False
    try:
        _, writer = await asyncio.open_connection(HOST, port, ssl=context, server_hostname=name)
    except OSError:
        return False
    writer.transport.abort()
    return True


async def test_brokers_are_told_apart_by_name_at_one_port(named: Place) -> None:
    """Each at its listener: those of the first one have ports, and nobody is told the other's."""
    port = named.ports[3]
    sni = {"names": {**BY_NAME, "tls": named.tls(), "advertised_port": port}}
    async with gateway(named, sni) as data:
        async with client(named, port, {"bootstrap.servers": f"boot.kafka.example.com:{port}"}) as by_name:
            told = {(b.host, b.port) for b in by_name.view.brokers.values()}
            assert told == {("broker-1.kafka.example.com", port), ("broker-2.kafka.example.com", port)}
            await by_name.refresh(())
        for node in (1, 2):
            at = {"bootstrap.servers": f"broker-{node}.kafka.example.com:{port}"}
            async with client(named, port, at) as at_a_broker:
                assert node in {session.node_id for session in data.sessions.open}
                assert {b.port for b in at_a_broker.view.brokers.values()} == {port}
        async with client(named, named.ports[0], tls=False) as plain:
            assert {b.port for b in plain.view.brokers.values()} == set(named.ports[1:3])
        assert data.listeners.closed() == []
        assert data.names()["names.2"] == f"broker-2.kafka.example.com:{port}"


async def test_a_name_that_is_nobodys_ends_the_handshake_and_is_counted(named: Place) -> None:
    port = named.ports[0]
    async with gateway(named, {}, **BY_NAME, tls=named.tls()) as data:
        for name in ("kafka.other.example", "broker-7.kafka.example.com", HOST):  # an address is no server name
            assert not await reached(named, port, name), name
        assert data.sessions.admission.refused == {"server_name": 3}
        assert not data.sessions.open
        data.listeners.advertised(7, HOST, 1)  # a response has told of a broker that joined
        assert await reached(named, port, "broker-7.kafka.example.com")
        assert await reached(named, port, "boot.kafka.example.com")


async def test_both_who_came_by_a_port_stays_with_ports(named: Place) -> None:
    first = {**BY_NAME, "addressing": "both", "tls": named.tls()}
    async with gateway(named, {}, **first) as data:
        boot, *brokers = named.ports[:3]
        for port, host, told in (
            (boot, "boot.kafka.example.com", {boot}),
            (boot, HOST, set(brokers)),
            (brokers[0], "localhost", set(brokers)),
            (brokers[0], "boot.kafka.example.com", set(brokers)),
        ):
            at = {"bootstrap.servers": f"{host}:{port}", "ssl.endpoint.identification.algorithm": "none"}
            async with client(named, port, at) as one:
                assert {b.port for b in one.view.brokers.values()} == told, (port, host)
        assert not await reached(named, boot, "broker-7.kafka.example.com")
        assert data.sessions.admission.refused == {"server_name": 1}


async def test_client_certificates(place: Place) -> None:
    rules = "RULE:^CN=([a-z]+),.*$/$1/U"
    auth = {"client_ca": place.folder / "ca.pem"}
    required = {"tls": place.tls(client_auth="required", principal_mapping_rules=rules, **auth)}
    requested = {"tls": place.tls(client_auth="requested", **auth)}
    listeners = {"required": required, "requested": requested}
    async with gateway(place, listeners) as data:
        ports = place.ports
        assert await refused(place, ports[3])
        assert await refused(place, ports[3], place.client("stranger", place.others))
        assert await refused(place, ports[6], place.client("stranger", place.others))
        assert not data.sessions.open
        alice = place.client("alice")
        async with client(place, ports[3], alice):
            assert {session.principal for session in data.sessions.open} == {"ALICE"}
        async with client(place, ports[6], alice):
            last = list(data.sessions.open)[-1]
            assert last.certificate_principal == "CN=alice,OU=" + last.certificate_principal.partition("OU=")[2]
            assert last.certificate_principal.endswith("O=Org\\, Inc.")
        async with client(place, ports[6]):
            assert list(data.sessions.open)[-1].principal == ""
        assert await refused(place, ports[3], place.client("Bob"))  # no rule for capitals
        assert data.sessions.stats.closed["certificate of nobody"] > 0


async def test_the_least_version(place: Place) -> None:
    async with gateway(place, {"new": {"tls": place.tls(min_version="TLSv1.3")}}, tls=place.tls()):
        for port, version, taken in (
            (place.ports[0], ssl.TLSVersion.TLSv1_2, True),
            (place.ports[3], ssl.TLSVersion.TLSv1_2, False),
            (place.ports[3], ssl.TLSVersion.TLSv1_3, True),
        ):
            assert await handshake(place, port, version) is taken


async def handshake(place: Place, port: int, version: ssl.TLSVersion) -> bool:
    context = ssl.create_default_context(cafile=str(place.folder / "ca.pem"))
    context.maximum_version = version
    try:
        _, writer = await asyncio.open_connection(HOST, port, ssl=context)
    except OSError:
        return False
    writer.transport.abort()
    return True


async def test_an_encrypted_key(place: Place) -> None:
    place.server("server", password="hush")
    with pytest.raises(ValueError, match=r"^listener.tls: .*server.key cannot be used"):
        async with gateway(place, {}, tls=place.tls(key_password="wrong")):
            raise AssertionError
    async with gateway(place, {}, tls=place.tls(key_password="hush")), client(place, place.ports[0]):
        pass


async def test_new_certificates_count_without_a_restart(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """For new connections; the client that was there goes on. Also a CA that is taken away."""
    monkeypatch.setattr(renewed, "_LOOK_S", 0.0)
    ca = place.folder / "clients.pem"
    place.ca.cert_pem.write_to_path(str(ca))
    alice = place.client("alice")
    tls = place.tls(client_auth="required", client_ca=ca)
    async with gateway(place, {}, tls=tls), client(place, place.ports[0], alice) as before:
        (place.folder / "ca.pem").unlink()
        place.ca = trustme.CA()
        place.ca.cert_pem.write_to_path(str(place.folder / "ca.pem"))
        assert await refused(place, place.ports[0], alice)
        place.server("server")
        async with client(place, place.ports[0], alice):
            pass
        (place.folder / "server.key").write_text("half of it", encoding="ascii")
        async with client(place, place.ports[0], alice):
            pass
        place.server("server")
        place.ca.cert_pem.write_to_path(str(ca))
        os.utime(ca, ns=(1, 1))
        assert await refused(place, place.ports[0], alice)
        async with client(place, place.ports[0], place.client("bob")):
            pass
        await before.refresh(())


async def test_a_revoked_certificate_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 21. The list is read anew when it changes; one that is over lets nobody in."""
    monkeypatch.setattr(renewed, "_LOOK_S", 0.0)
    crl = place.folder / "crl.pem"
    alice, bob = place.client("alice"), place.client("bob")
    write_revoked(crl, place.ca)
    auth = {"client_ca": place.folder / "ca.pem", "crl": crl}
    listeners = {"requested": {"tls": place.tls(client_auth="requested", **auth)}}
    async with gateway(place, listeners, tls=place.tls(client_auth="required", **auth)):
        for port in (place.ports[0], place.ports[3]):
            async with client(place, port, alice):
                pass
        write_revoked(crl, place.ca, place.folder / "alice.crt")
        for port in (place.ports[0], place.ports[3]):
            assert await refused(place, port, alice)
            async with client(place, port, bob):
                pass
        write_revoked(crl, place.ca, hours=-1)
        assert await refused(place, place.ports[0], bob)


@pytest.mark.skipif(haproxy_binary() is None, reason="HAProxy is not installed")
@pytest.mark.parametrize("version", ["send-proxy", "send-proxy-v2"])
async def test_a_real_load_balancer_tells_its_clients(place: Place, version: str) -> None:
    """HAProxy at 127.0.0.9 before a listener; its client is at 127.0.0.1."""
    (port,) = claim_ports(1)
    config = place.folder / "haproxy.cfg"
    config.write_text(
        "global\n    maxconn 100\n"
        "defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1m\n    timeout server 1m\n"
        f"listen kafka\n    bind {HOST}:{port}\n    server gateway {HOST}:{place.ports[0]} source 127.0.0.9 {version}\n"
    )
    async with gateway(place, {}, protocol="SSL", tls=place.tls(), proxy_protocol_from=["127.0.0.9"]) as data:
        assert await refused(place, place.ports[0])
        assert data.sessions.admission.refused == {"proxy": 1}
        balancer = await asyncio.create_subprocess_exec(str(haproxy_binary()), "-db", "-f", str(config))
        try:
            async with client(place, port):
                assert [session.host for session in data.sessions.open] == [HOST]
        finally:
            balancer.terminate()
            await balancer.wait()
            release_ports([port])
