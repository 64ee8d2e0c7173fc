"""Off loopback: TLS with tokens or client certificates, and no start without."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import trustme
from cryptography import x509

from gateway.config.api import Api
from gateway.config.file import ConfigError, load
from gateway.config.tls import ServerTls
from gateway.runtime.server_tls import server_context
from gateway.transport import renewed
from tests.support.control.secured_api import SecuredApi, secured_api
from tests.support.identities.certificates import write_revoked

EVERYWHERE = "0.0.0.0"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """`ca`, `certificate`, `key` of the server, `other` authority; made for this test."""
    ca, other = trustme.CA(), trustme.CA()
    server = ca.issue_cert("localhost", "127.0.0.1")
    found = {name: tmp_path / f"{name}.pem" for name in ("ca", "certificate", "key", "other", "alice", "mallory")}
    ca.cert_pem.write_to_path(str(found["ca"]))
    other.cert_pem.write_to_path(str(found["other"]))
    server.cert_chain_pems[0].write_to_path(str(found["certificate"]))
    server.private_key_pem.write_to_path(str(found["key"]))
    for name, authority in (("alice", ca), ("mallory", other)):
        made = authority.issue_cert(f"{name}@example.org", common_name=name, organization_unit_name="payments")
        made.private_key_and_cert_chain_pem.write_to_path(str(found[name]))
    return found


def tls(files: dict[str, Path], **more: object) -> dict[str, object]:
    return {"certificate": files["certificate"], "key": files["key"], **more}


def trusting(files: dict[str, Path], certificate: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files["ca"])
    if certificate:
        context.load_cert_chain(files[certificate])
    return context


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "10.0.0.1", "gw.example", "192.168.1.4", ""])
def test_an_address_that_others_reach_needs_tls_and_principals(tmp_path: Path, host: str) -> None:
    file = tmp_path / "gw.yaml"
    for more in (
        "",
        ", tls: {certificate: c, key: k}",
        ", principals: [{name: a, role: admin, token_file: t}]",
        ", socket: ''",
    ):
        file.write_text(f"target: {{bootstrap.servers: 'a:1'}}\napi: {{host: '{host}'{more}}}\n", encoding="utf-8")
        with pytest.raises(ConfigError, match="can be reached from other machines: set tls, and principals"):
            load(file)
    file.write_text(
        f"target: {{bootstrap.servers: 'a:1'}}\napi: {{host: '{host}', tls: {{certificate: c, key: k}}, "
        "principals: [{name: a, role: admin, token_file: t}]}\n",
        encoding="utf-8",
    )
    assert load(file).api.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_neither(host: str) -> None:
    assert Api(host=host).tls is None


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{principals: [{name: a, role: admin}]}", "needs a token_file or a certificate"),
        ("{principals: [{name: a, role: admin, token_file: t, certificate: CN=a}]}", "and not both"),
        ("{principals: [{name: a, role: root, token_file: t}]}", "'viewer', 'operator' or 'admin'"),
        ("{principals: [{name: a, role: admin, certificate: CN=a}]}", "only seen with tls.client_ca"),
        ("{tls: {certificate: c, key: k, client_auth: required}}", "belong together"),
        ("{tls: {certificate: c, key: k, client_ca: c}}", "belong together"),
        ("{allowed_hosts: ['gw.example:8642']}", "not a host's name alone"),
        ("{allowed_hosts: ['https://gw.example']}", "not a host's name alone"),
        ("{allowed_hosts: ['*']}", "not a host's name alone"),
        ("{socket: /s, tls: {certificate: c, key: k}}", "has no TLS"),
        (
            "{principals: [{name: a, role: admin, token_file: t}, {name: a, role: viewer, token_file: u}]}",
            "two have the same name",
        ),
    ],
)
def test_what_would_not_hold_is_refused_in_one_line(tmp_path: Path, section: str, message: str) -> None:
    file = tmp_path / "gw.yaml"
    file.write_text(f"target: {{bootstrap.servers: 'a:1'}}\napi: {section}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as error:
        load(file)
    assert "\n" not in str(error.value)


async def test_tls_with_tokens(tmp_path: Path, files: dict[str, Path]) -> None:
    async with secured_api(tmp_path, tls=tls(files)) as api:
        async with api.client(verify=trusting(files)) as client:
            assert (await client.get("/v3/links")).status_code == 200
        async with api.client("", verify=trusting(files)) as client:
            assert (await client.get("/v3/links")).status_code == 401
        with pytest.raises(httpx.ConnectError):
            async with api.client(verify=ssl.create_default_context(cafile=files["other"])) as client:
                await client.get("/v3/links")
        reader = httpx.AsyncClient(base_url=api.url.replace("https", "http"), trust_env=False)
        async with reader:
            with pytest.raises(httpx.TransportError):
                await reader.get("/v3/links")


async def test_old_tls_is_not_spoken(tmp_path: Path, files: dict[str, Path]) -> None:
    old = trusting(files)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with secured_api(tmp_path, tls=tls(files, min_version="TLSv1.3")) as api:
        with pytest.raises(httpx.ConnectError):
            async with api.client(verify=old) as client:
                await client.get("/v3/links")


async def test_a_client_certificate_is_a_principal(tmp_path: Path, files: dict[str, Path]) -> None:
    """Its subject as Kafka writes it; of another authority it is nobody's, and one that no principal has is refused."""
    subject = subject_in(files["alice"])
    assert subject.startswith("CN=alice")
    mutual = tls(files, client_ca=files["ca"], client_auth="required")
    principals = [{"name": "alice", "role": "operator", "certificate": subject}]
    async with secured_api(tmp_path, tls=mutual, principals=principals) as api:
        async with api.client("", verify=trusting(files, "alice")) as client:
            assert (await client.get("/v3/links")).status_code == 200
            refused = await client.delete("/v3/links/l")
            assert (refused.status_code, "'alice' is operator" in refused.text) == (403, True)
        for none in ("", "mallory"):
            with pytest.raises(httpx.TransportError):
                async with api.client(verify=trusting(files, none)) as client:
                    await client.get("/v3/links")
    nobody = secured_api(tmp_path, tls=mutual, principals=[])
    async with nobody as api, api.client("", verify=trusting(files, "alice")) as client:
        refused = await client.get("/v3/links")
        assert refused.status_code == 401
        assert "no principal has the certificate CN=alice" in refused.json()["message"]


async def test_requested_takes_one_or_the_other(tmp_path: Path, files: dict[str, Path]) -> None:
    mutual = tls(files, client_ca=files["ca"], client_auth="requested")
    principals = [{"name": "alice", "role": "viewer", "certificate": subject_in(files["alice"])}]
    async with secured_api(tmp_path, tls=mutual, principals=principals) as api:
        async with api.client("", verify=trusting(files, "alice")) as client:
            assert (await client.get("/v3/links")).status_code == 200
        async with api.client(verify=trusting(files)) as client:
            assert (await client.get("/v3/links")).status_code == 200
        async with api.client("", verify=trusting(files)) as client:
            assert (await client.get("/v3/links")).status_code == 401


async def test_a_handshake_has_a_time(tmp_path: Path, files: dict[str, Path]) -> None:
    async with secured_api(tmp_path, tls=tls(files), request_timeout_s=0.3) as api:
        assert await closed_without_a_word(api)


@pytest.mark.parametrize("limit", ["max_connections", "connections_per_address"])
async def test_handshakes_count(tmp_path: Path, files: dict[str, Path], limit: str) -> None:
    """Who stands in one is nobody yet, has a connection all the same, and gives it up for who comes."""
    async with secured_api(tmp_path, tls=tls(files), **cast("Any", {limit: 1})) as api:
        reader, silent = await asyncio.open_connection("127.0.0.1", api.settings.port)
        async with api.client(verify=trusting(files)) as client:
            assert (await client.get("/v3/links")).status_code == 200
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        silent.close()


def at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at whenever somebody asks, not once a second."""
    monkeypatch.setattr(renewed, "_LOOK_S", 0.0)


async def test_certificates_and_authorities_are_renewed_without_a_restart(
    tmp_path: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_each_look(monkeypatch)
    mutual = tls(files, client_ca=files["ca"], client_auth="required")
    principals = [{"name": "m", "role": "viewer", "certificate": subject_in(files["mallory"])}]
    async with secured_api(tmp_path, tls=mutual, principals=principals) as api:
        with pytest.raises(httpx.TransportError):
            async with api.client("", verify=trusting(files, "mallory")) as client:
                await client.get("/v3/links")
        old_ca, replacement = trusting(files), trustme.CA()
        server = replacement.issue_cert("localhost", "127.0.0.1")
        server.cert_chain_pems[0].write_to_path(str(files["certificate"]))
        server.private_key_pem.write_to_path(str(files["key"]))
        files["other"].replace(files["ca"])  # who signs client certificates from now on
        with pytest.raises(httpx.ConnectError):
            async with api.client("", verify=old_ca) as client:
                await client.get("/v3/links")
        trusting_new = ssl.create_default_context()
        replacement.configure_trust(trusting_new)
        trusting_new.load_cert_chain(files["mallory"])
        async with api.client("", verify=trusting_new) as client:
            assert (await client.get("/v3/links")).status_code == 200


async def test_a_revoked_certificate_is_nobodys(
    tmp_path: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 21."""
    at_each_look(monkeypatch)
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(files["ca"]))
    for name in ("alice", "bob"):
        made = ca.issue_cert(f"{name}@example.org", common_name=name)
        made.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    server = ca.issue_cert("localhost", "127.0.0.1")
    server.cert_chain_pems[0].write_to_path(str(files["certificate"]))
    server.private_key_pem.write_to_path(str(files["key"]))
    files["bob"], crl = tmp_path / "bob.pem", tmp_path / "crl.pem"
    write_revoked(crl, ca)
    mutual = tls(files, client_ca=files["ca"], client_auth="required", crl=crl)
    principals = [{"name": name, "role": "viewer", "certificate": subject_in(files[name])} for name in ("alice", "bob")]

    async def status(name: str) -> int:
        async with api.client("", verify=trusting(files, name)) as client:
            answer = await client.get("/v3/links")
            assert answer.headers["strict-transport-security"] == "max-age=31536000"
            return answer.status_code

    async with secured_api(tmp_path, tls=mutual, principals=principals) as api:
        assert await status("alice") == 200
        write_revoked(crl, ca, files["alice"])
        with pytest.raises(httpx.TransportError):
            await status("alice")
        assert await status("bob") == 200


@pytest.mark.parametrize("text", ["", "none of it", None])
def test_a_list_of_no_use_is_named(tmp_path: Path, files: dict[str, Path], text: str | None) -> None:
    crl = tmp_path / "crl.pem"
    crl.write_text(files["ca"].read_text() if text is None else text, encoding="ascii")
    made = ServerTls(**cast("Any", tls(files, client_ca=files["ca"], client_auth="required", crl=crl)))
    with pytest.raises(ValueError, match=r"^api\.tls\.crl: .*crl\.pem cannot be used: it is no list of revoked"):
        server_context(made, "api.tls")
    with pytest.raises(ValueError, match="it takes client_ca"):
        ServerTls(**cast("Any", tls(files, crl=crl)))


async def test_tokens_are_renewed_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A principal's file with another token, and the admin's own, which is made anew when it was deleted."""
    at_each_look(monkeypatch)
    file = tmp_path / "grafana.token"
    file.write_text("the-first-token-of-it", encoding="ascii")
    file.chmod(0o600)
    principals = [{"name": "grafana", "role": "viewer", "token_file": file}]
    async with secured_api(tmp_path, principals=principals) as api:

        async def status(token: str) -> int:
            async with api.client(token) as client:
                return (await client.get("/v3/links")).status_code

        assert await status("the-first-token-of-it") == 200
        file.write_text("the-second-token-of-it", encoding="ascii")
        assert [await status("the-first-token-of-it"), await status("the-second-token-of-it")] == [401, 200]
        file.chmod(0o644)  # others can read it now: of no use, and the log says so
        file.write_text("the-third-token-of-it", encoding="ascii")
        assert [await status("the-second-token-of-it"), await status("the-third-token-of-it")] == [200, 401]
        old = api.token
        (tmp_path / "api.token").unlink()
        assert await status(old) == 401
        assert api.token != old
        assert await status(api.token) == 200


async def closed_without_a_word(api: SecuredApi) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.settings.port)
    try:
        async with asyncio.timeout(10):
            return await reader.read() == b""
    except ConnectionError:
        return True
    finally:
        writer.close()


async def test_a_unix_socket_is_its_owners(tmp_path: Path) -> None:
    """Only its owner can open it, so no token is needed, and none is made; no name of a host means anything."""
    path = tmp_path / "api.sock"
    async with secured_api(tmp_path, socket=str(path)) as api:
        assert path.stat().st_mode & 0o777 == 0o600
        assert not (tmp_path / "api.token").exists()
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport, base_url="http://any.name") as client:
            assert (await client.get("/v3/links")).status_code == 200
            assert (await client.delete("/v3/links/none")).status_code == 404
        assert '"proof": "socket"' in api.audit[-1]
        assert "unix:uid=" in api.audit[-1]
    assert not path.exists()


async def test_what_a_killed_process_left_is_taken_over_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    left.bind(str(path))
    left.close()
    async with secured_api(tmp_path, socket=str(path)):
        with pytest.raises(OSError, match="another process listens on"):
            async with secured_api(tmp_path, socket=str(path)):
                pass
    path.write_text("precious", encoding="ascii")
    with pytest.raises(OSError, match="no socket"):
        async with secured_api(tmp_path, socket=str(path)):
            pass
    assert path.read_text(encoding="ascii") == "precious"


def subject_in(file: Path) -> str:
    """As Java writes it (RFC 4514)."""
    _, mark, certificate = file.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    return x509.load_pem_x509_certificate(mark + certificate).subject.rfc4514_string()
