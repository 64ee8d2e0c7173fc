"""TLS between gateways: who is let in, what is on the wire, and what is said to whoever has the wrong certificate."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.fleet.peers import serve
from gateway.fleet.peers.certificates import Certificates, FleetCertificates, GivenCertificates
from gateway.fleet.peers.channel import Peers, PeerUnavailable
from gateway.fleet.peers.wire import encode, proof, read
from gateway.transport import renewed
from tests.support.fakes.stream_server import StreamServer
from tests.support.identities.certificates import write_revoked
from tests.support.waiting import wait_until_async

HOST = "127.0.0.1"


class Gateway:
    """One end over TLS. `secret`: of the fleet, as it knows it."""

    def __init__(self, name: str, certificates: Certificates | None = None, secret: str = "s") -> None:
        self.secret = secret
        self.heard: list[Mapping[str, Any]] = []
        made = certificates or FleetCertificates(name, lambda: self.secret)
        self.peers = Peers(name, "1", lambda: self.secret, lambda _, said: self.heard.append(said), certificates=made)
        self.peers.handlers["echo"] = self._echo
        self.port = 0

    async def _echo(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"said": body["say"]}


@asynccontextmanager
async def gateways(*made: Gateway) -> AsyncIterator[None]:
    try:
        for one in made:
            one.port = await one.peers.listen(HOST, 0)
        for one in made:
            one.peers.expect({other.peers.name: f"{HOST}:{other.port}" for other in made})
        yield
    finally:
        await asyncio.gather(*(one.peers.close() for one in made))


class Between:
    """Stands between a gateway and its peer, and keeps what goes by."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.seen = bytearray()
        self._server = StreamServer(self._relay)

    async def listen(self) -> int:
        return await self._server.listen()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, self._to)
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                self.seen += data
                sink.write(data)
        except OSError:
            pass
        finally:
            sink.transport.abort()

    async def close(self) -> None:
        await self._server.close()


def files(folder: Path, ca: trustme.CA, name: str, crl: Path | None = None) -> GivenCertificates:
    leaf = ca.issue_cert(name)
    certificate, key, authority = folder / f"{name}.crt", folder / f"{name}.key", folder / f"{name}.ca"
    certificate.write_bytes(b"".join(each.bytes() for each in leaf.cert_chain_pems))
    key.write_bytes(leaf.private_key_pem.bytes())
    ca.cert_pem.write_to_path(str(authority))
    return GivenCertificates(certificate, key, "", authority, crl)


async def test_a_fleet_needs_no_set_up_and_nothing_can_be_read_on_the_wire() -> None:
    one, other = Gateway("one"), Gateway("other:9292 é")
    async with gateways(one, other):
        between = Between(other.port)
        port = await between.listen()
        one.peers.expect({other.peers.name: f"{HOST}:{port}"})
        said = "what nobody else may read"
        assert await one.peers.ask(other.peers.name, "echo", {"say": said}, 5) == {"said": said}
        one.peers.heartbeat({"say": said})
        await wait_until_async(lambda: bool(other.heard))
        assert len(between.seen) > 1_000
        for word in (said, "nonce", "proof", "heartbeat", "incarnation"):
            assert word.encode() not in between.seen
        one.peers.expect({})
        await between.close()


async def test_another_fleet_is_told_apart_by_its_certificate(caplog: pytest.LogCaptureFixture) -> None:
    one, stranger = Gateway("one"), Gateway("stranger", secret="another")
    async with gateways(one, stranger):
        with pytest.raises(PeerUnavailable, match=r"its certificate is not of this fleet \("):
            await stranger.peers.ask("one", "echo", {"say": 1}, 1.0)
        assert "its certificate is not of this fleet" in one.peers.why_not("stranger")
        assert not one.peers.connected() | stranger.peers.connected()
        stranger.secret = "s"  # it was not known yet
        await wait_until_async(lambda: stranger.peers.connected() == {"one"}, 5)


async def test_while_the_secret_is_not_known_nobody_is_let_in() -> None:
    one, other = Gateway("one", secret=""), Gateway("other")
    async with gateways(one, other):
        with pytest.raises(PeerUnavailable, match="the fleet's secret is not known yet"):
            await one.peers.ask("other", "echo", {"say": 1}, 0.3)
        assert not other.peers.connected()


async def test_given_certificates(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Both of the CA, or neither is let in: with one clear line at either end."""
    ca = trustme.CA()
    one, other = Gateway("one", files(tmp_path, ca, "one")), Gateway("other", files(tmp_path, ca, "other"))
    stranger = Gateway("stranger", files(tmp_path, trustme.CA(), "stranger"))
    async with gateways(one, other, stranger):
        assert await one.peers.ask("other", "echo", {"say": 1}, 5) == {"said": 1}
        assert await other.peers.ask("one", "echo", {"say": 2}, 5) == {"said": 2}
        with pytest.raises(PeerUnavailable, match="its certificate is not of this fleet"):
            await stranger.peers.ask("one", "echo", {"say": 1}, 0.5)
        assert "its certificate is not of this fleet" in one.peers.why_not("stranger")


async def test_a_certificate_that_the_other_end_does_not_take(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ca, own = trustme.CA(), trustme.CA()
    one = Gateway("one", files(tmp_path, ca, "one"))
    stranger = files(tmp_path, own, "stranger")
    ca.cert_pem.write_to_path(str(tmp_path / "stranger.ca"))  # it believes the fleet, and is not believed
    outsider = Gateway("stranger", GivenCertificates(stranger._certificate, stranger._key, "", stranger._ca))
    with caplog.at_level(logging.WARNING):
        async with gateways(one, outsider):
            with pytest.raises(PeerUnavailable, match="its log says whether it takes this gateway's certificate"):
                await outsider.peers.ask("one", "echo", {"say": 1}, 1.0)
    assert caplog.text.count("a peer from 127.0.0.1 was not let in: its certificate is not of this fleet") == 1


@pytest.mark.parametrize("hello", [b"", b"\0\0\0\2{}", b"GET / HTTP/1.1\r\n\r\n"], ids=["TLS", "plain", "HTTP"])
async def test_without_a_certificate_not_a_byte_is_read(hello: bytes, caplog: pytest.LogCaptureFixture) -> None:
    one = Gateway("one")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with caplog.at_level(logging.WARNING):
        async with gateways(one):
            reader, writer = await asyncio.open_connection(HOST, one.port, ssl=None if hello else context)
            writer.write(hello)
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                async with asyncio.timeout(5):
                    await read(reader)
            writer.transport.abort()
            wanted = "no TLS with it" if hello else "it has no certificate"
            await wait_until_async(lambda: f"was not let in: {wanted}" in caplog.text)


async def test_a_proof_cannot_be_handed_on(tmp_path: Path) -> None:
    """Somebody whom the CA knows for another purpose stands between two gateways, and passes their greetings on."""
    ca = trustme.CA()
    one, other = Gateway("one", files(tmp_path, ca, "one")), Gateway("other", files(tmp_path, ca, "other"))
    tls = files(tmp_path, ca, "printer")()
    assert tls is not None
    refused: list[str] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, other.port, ssl=tls.dials)
        writer.write(encode(await read(there)))
        back.write(encode(await read(reader)))
        answer = await read(there)
        refused.append(str(answer.get("refused")))
        writer.write(encode(answer))
        await writer.drain()
        writer.transport.abort()
        back.transport.abort()

    async with gateways(other):
        server = StreamServer(relay, tls.accepts)
        try:
            one.peers.expect({"other": f"{HOST}:{await server.listen()}"})
            await wait_until_async(lambda: bool(refused))
            assert refused[0] == "it does not know the secret of this fleet"
            assert not one.peers.connected()
        finally:
            await one.peers.close()
            await server.close()


async def test_silent_connections_of_one_address_shut_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_GREETING_S", 60.0)  # renewed as soon as they are cut off
    one, other = Gateway("one"), Gateway("other")
    other.port = await other.peers.listen(HOST, 0)
    dialled = (asyncio.open_connection(HOST, other.port, local_addr=("127.0.0.2", 0)) for _ in range(100))
    silent = await asyncio.gather(*dialled)
    try:
        await wait_until_async(lambda: sum(reader.at_eof() for reader, _ in silent) == 84)
        one.peers.expect({"other": f"{HOST}:{other.port}"})
        assert await one.peers.ask("other", "echo", {"say": 1}, 5) == {"said": 1}
        assert sum(reader.at_eof() for reader, _ in silent) == 84
    finally:
        for _, writer in silent:
            writer.transport.abort()
        await asyncio.gather(one.peers.close(), other.peers.close())


async def test_new_files_count_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewed, "_LOOK_S", 0.0)
    ca = trustme.CA()
    given = files(tmp_path, ca, "one")
    before = given()
    again = files(tmp_path, ca, "one")()
    os.utime(tmp_path / "one.crt", ns=(1, 1))
    after = given()
    assert before is not None
    assert after is not None
    assert again is not None
    assert before.fingerprint != after.fingerprint == again.fingerprint
    (tmp_path / "one.key").write_text("half", encoding="ascii")
    assert given() is after


async def test_a_gateway_whose_certificate_was_revoked_is_let_in_nowhere(tmp_path: Path) -> None:
    """Finding 21: whoever dials."""
    ca, crl = trustme.CA(), tmp_path / "crl.pem"
    write_revoked(crl, ca)
    lost = files(tmp_path, ca, "lost", crl)
    write_revoked(crl, ca, tmp_path / "lost.crt")
    one, other = (Gateway(name, files(tmp_path, ca, name, crl)) for name in ("one", "other"))
    stolen = Gateway("lost", lost)
    async with gateways(one, other, stolen):
        assert await one.peers.ask("other", "echo", {"say": 1}, 5) == {"said": 1}
        for asks, asked in ((one, "lost"), (stolen, "one")):
            with pytest.raises(PeerUnavailable):
                await asks.peers.ask(asked, "echo", {"say": 1}, 0.5)
        assert not stolen.peers.connected()


def test_files_of_no_use_are_named(tmp_path: Path) -> None:
    files(tmp_path, trustme.CA(), "one")
    for missing in ("one.crt", "one.key", "one.ca"):
        paths = [tmp_path / name if name != missing else tmp_path / "none" for name in ("one.crt", "one.key", "one.ca")]
        with pytest.raises(ValueError, match=r"^fleet.tls: .*none.* cannot be used: No such file") as error:
            GivenCertificates(paths[0], paths[1], "", paths[2])
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "hello",
    [
        b'{"name": "\\ud800", "incarnation": "1", "nonce": "b", "to": "one", "proof": "x"}',
        b'{"name": "other", "incarnation": "1", "nonce": "b", "to": "one", "proof": "\\u00e9\\ud800"}',
        b'{"name": "other", "incarnation": "1", "nonce": "b", "to": "one", "proof": 7}',
        b"[" * 4000,
        b"\xff",
        b"[]",
    ],
)
async def test_a_greeting_that_nobody_sends_is_a_stranger_s(hello: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """What comes before the proof raises nothing but what is caught."""
    one = Gateway("one")
    stranger = FleetCertificates("stranger", lambda: "s")()
    assert stranger is not None
    with caplog.at_level(logging.WARNING):
        async with gateways(one):
            reader, writer = await asyncio.open_connection(HOST, one.port, ssl=stranger.dials)
            await read(reader)
            writer.write(len(hello).to_bytes(4, "big") + hello)
            await reader.read()
            writer.transport.abort()
    assert [record.exc_info for record in caplog.records] == [None]
    assert "a peer's connection was closed: " in caplog.text


def test_a_proof_is_of_its_words() -> None:
    assert proof("s", "a", "bc") != proof("s", "ab", "c")
