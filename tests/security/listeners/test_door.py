"""What a request must show before anything of it is read: Host, Origin, token, JSON, length, and time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.control.control_plane import SOURCE
from tests.support.control.secured_api import SecuredApi, read_answer, secured_api
from tests.support.waiting import wait_until_async

LINK = {"link_name": "l", "configs": [{"name": "bootstrap.servers", "value": SOURCE}]}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[SecuredApi]:
    async with secured_api(tmp_path) as made:
        yield made


def request(api: SecuredApi, method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """As a browser could send it; `headers` replace those of a good request, '' leaves one out."""
    said = {
        "Host": f"127.0.0.1:{api.settings.port}",
        "Authorization": f"Bearer {api.token}",
        "Content-Type": "application/json" if body else "",
        "Content-Length": str(len(body)) if body else "",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items() if value)]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def test_a_foreign_name_for_this_address_is_refused(api: SecuredApi) -> None:
    """DNS rebinding: the page of evil.example asks its own name, which points here now."""
    status, _, body = await api.raw(request(api, "GET", "/v3/links", Host=f"evil.example:{api.settings.port}"))
    assert status == 421
    assert "evil.example" in json.loads(body)["message"]
    assert "api.allowed_hosts" in json.loads(body)["message"]
    for good in (f"127.0.0.1:{api.settings.port}", "localhost", "LOCALHOST:9000"):
        assert (await api.raw(request(api, "GET", "/v3/links", Host=good)))[0] == 200, good
    for bad in ("", "127.0.0.1.evil.example", "evil.example/@127.0.0.1", "evil@127.0.0.1#", "0.0.0.0", "[::1"):
        assert (await api.raw(request(api, "GET", "/health", Host=bad)))[0] in (400, 421), bad
    assert (await api.raw(request(api, "GET", "/health") + b""))[0] == 200


async def test_a_name_that_the_settings_know_is_served(tmp_path: Path) -> None:
    async with secured_api(tmp_path, allowed_hosts=("Gw.Example",)) as api:
        assert (await api.raw(request(api, "GET", "/v3/links", Host="gw.example")))[0] == 200


async def test_a_page_of_another_site_is_refused_whatever_it_sends(api: SecuredApi) -> None:
    """Also with a token, and also by the requests that browsers send without asking first."""
    body = json.dumps(LINK).encode()
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{api.settings.port}", "http://127.0.0.1:1"):
        answer = await api.raw(request(api, "POST", "/v3/links", body, Origin=origin))
        assert answer[0] == 403, origin
        assert "Origin" in json.loads(answer[2])["message"]
    assert (await api.raw(request(api, "POST", "/v3/links/l/mirrors/t:pause", Origin="http://evil.example")))[0] == 403
    for site in ("cross-site", "same-site"):
        assert (await api.raw(request(api, "GET", "/v3/links", Sec_Fetch_Site=site)))[0] == 403
    assert api.plane.store.links == {}
    own = f"http://127.0.0.1:{api.settings.port}"
    assert (await api.raw(request(api, "POST", "/v3/links", body, Origin=own, Sec_Fetch_Site="same-origin")))[0] == 201


async def test_a_page_may_be_gone_to_from_elsewhere_but_not_be_part_of_another(api: SecuredApi) -> None:
    went = request(api, "GET", "/docs", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    status, headers, _ = await api.raw(went)
    assert status == 200
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


async def test_no_other_site_is_given_anything(api: SecuredApi) -> None:
    asked = request(api, "OPTIONS", "/v3/links", Origin="http://evil.example", Access_Control_Request_Method="POST")
    status, headers, _ = await api.raw(asked)
    assert status == 403
    assert not [name for name in headers if name.startswith("access-control")]


async def test_only_json_is_a_body(api: SecuredApi) -> None:
    """A form or a text needs no preflight: what looks like one is not read as JSON."""
    body = json.dumps(LINK).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonx"):
        assert (await api.raw(request(api, "POST", "/v3/links", body, Content_Type=kind)))[0] == 415, kind
    chunked = request(api, "POST", "/v3/links", Transfer_Encoding="chunked", Content_Type="text/plain")
    assert (await api.raw(chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)))[0] == 415
    assert api.plane.store.links == {}
    assert (await api.raw(request(api, "POST", "/v3/links", body, Content_Type="application/json; charset=utf-8")))[
        0
    ] == 201


async def test_without_a_token_nothing_is_told_or_done(api: SecuredApi) -> None:
    body = json.dumps(LINK).encode()
    for bad in ("", "Bearer", "Bearer wrong", f"Basic {api.token}", f"Bearer {api.token}x", f"Bearer {api.token[:-1]}"):
        for method, path, content in (
            ("GET", "/v3/links", b""),
            ("GET", "/metrics", b""),
            ("GET", "/v3/status", b""),
            ("GET", "/openapi.json", b""),
            ("GET", "/v3/nothing", b""),
            ("POST", "/v3/links", body),
            ("POST", "/v3/links/l/mirrors/t:truncate-and-restore", b""),
        ):
            status, headers, said = await api.raw(request(api, method, path, content, Authorization=bad))
            assert status == 401, (bad, path)
            assert headers["www-authenticate"].startswith("Bearer")
            assert api.token not in said
    assert api.plane.store.links == {}


async def test_two_tokens_in_one_request_are_none(api: SecuredApi) -> None:
    twice = request(api, "GET", "/v3/links").replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer x\r\n\r\n")
    assert (await api.raw(twice))[0] == 401


async def test_a_body_is_capped_while_it_arrives(tmp_path: Path) -> None:
    """Whether it says its length or not: no more than the limit is held."""
    async with secured_api(tmp_path, max_body_bytes=1024) as api:
        said = request(api, "POST", "/v3/links", Content_Length="1025", Content_Type="application/json")
        assert (await api.raw(said))[0] == 413  # nothing of it was sent
        chunked = request(api, "POST", "/v3/links", Transfer_Encoding="chunked", Content_Type="application/json")
        reader, writer = await asyncio.open_connection("127.0.0.1", api.settings.port)
        writer.write(chunked + b"400\r\n" + b" " * 1024 + b"\r\n")
        writer.write(b"1\r\n \r\n")  # and no end
        status, _, body = await read_answer(reader)
        writer.close()
        assert status == 413
        assert "api.max_body_bytes" in json.loads(body)["message"]
        body_ok = json.dumps(LINK).encode().ljust(1024)
        assert (await api.raw(request(api, "POST", "/v3/links", body_ok)))[0] == 201


@pytest.mark.parametrize(
    "drops",
    [
        b"GET /v3/links HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100,
        b"POST /v3/links HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n" + b"x" * 900,
        b"",
    ],
    ids=["a header that never ends", "a body that never ends", "nothing"],
)
async def test_who_sends_a_byte_at_a_time_is_cut_off(tmp_path: Path, drops: bytes) -> None:
    """Slow loris: each byte is progress, the request as a whole has a time."""
    async with secured_api(tmp_path, request_timeout_s=0.3) as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.settings.port)
        began = asyncio.get_running_loop().time()
        sent = 0

        async def drip() -> None:
            nonlocal sent
            for each in drops:
                writer.write(bytes([each]))
                sent += 1
                await asyncio.wait((over,), timeout=0.01)
                if over.done():
                    return

        async def until_closed() -> None:
            try:
                while await reader.read(4096):
                    pass
            except ConnectionError:
                pass

        over = asyncio.create_task(until_closed())
        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(10):
            await over
            await dripping
        took = asyncio.get_running_loop().time() - began
        writer.close()
        assert 0.2 < took < 3
        assert sent < len(drops) or not drops


async def test_who_takes_no_answers_is_cut_off(tmp_path: Path) -> None:
    """Without a token, too: what is open to all must not hold connections for ever."""
    async with secured_api(tmp_path, request_timeout_s=0.3) as api:
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(lazy, ("127.0.0.1", api.settings.port))
            asked = request(api, "GET", "/docs/docs.js", Authorization="") * 2_000  # 11 MB of answers
            sending = asyncio.create_task(loop.sock_sendall(lazy, asked))
            await wait_until_async(lambda: api.connections == 1, 10, what="a connection")
            await wait_until_async(lambda: api.connections == 0, 10, what="its end")
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def test_a_connection_that_is_used_lives_on(tmp_path: Path) -> None:
    """The time is a request's, not a connection's."""
    async with secured_api(tmp_path, request_timeout_s=0.2) as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.settings.port)
        loop = asyncio.get_running_loop()
        end = loop.time() + 0.7
        while loop.time() < end:
            writer.write(request(api, "GET", "/v3/links"))
            assert (await read_answer(reader))[0] == 200
        writer.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        return True


async def health(api: SecuredApi) -> int:
    """Asked on a connection of its own, without a token."""
    return (await api.raw(request(api, "GET", "/health", Authorization="")))[0]


@pytest.mark.parametrize("limit", ["max_connections", "connections_per_address"])
async def test_connections_are_counted(tmp_path: Path, limit: str) -> None:
    """In all, and of one address. The oldest that has proved nothing gives its place up (finding 14)."""
    async with secured_api(tmp_path, **cast("Any", {limit: 3})) as api:
        pairs = [await asyncio.open_connection("127.0.0.1", api.settings.port) for _ in range(3)]
        for (reader, writer), path in zip(pairs, ("/v3/links", "/health", "/v3/links"), strict=True):
            writer.write(request(api, "GET", path, Authorization="" if path == "/health" else f"Bearer {api.token}"))
            assert (await read_answer(reader))[0] == 200
        assert await health(api) == 200
        assert await is_closed(pairs[1][0])
        for reader, writer in (pairs[0], pairs[2]):
            writer.write(request(api, "GET", "/v3/links"))
            assert (await read_answer(reader))[0] == 200
        for _, each in pairs:
            each.close()


async def test_silent_strangers_keep_no_probe_out(tmp_path: Path) -> None:
    """Finding 14: 64 silent connections of one address, and a liveness probe from there failed."""
    async with secured_api(tmp_path, connections_per_second=1_000) as api:
        silent = [await asyncio.open_connection("127.0.0.1", api.settings.port) for _ in range(64)]
        await wait_until_async(lambda: api.connections == 64, what="all are there")
        for _ in range(3):
            assert await health(api) == 200
        for _, writer in silent:
            writer.close()


async def test_no_caller_has_all_places(tmp_path: Path) -> None:
    """Finding 14. An admin still gets one, and so does a probe."""
    viewer = tmp_path / "viewer.token"
    viewer.write_text("a-token-of-the-viewer", encoding="ascii")
    viewer.chmod(0o600)
    principals = [{"name": "vera", "role": "viewer", "token_file": viewer}]
    async with secured_api(tmp_path, principals=principals, max_connections=16) as api:
        told = []
        pairs = [await asyncio.open_connection("127.0.0.1", api.settings.port) for _ in range(6)]
        for reader, writer in pairs:
            writer.write(request(api, "GET", "/v3/links", Authorization="Bearer a-token-of-the-viewer"))
            told.append((await read_answer(reader))[0])
        assert told == [200] * 4 + [503] * 2
        async with api.client() as client:
            assert (await client.get("/v3/links")).status_code == 200
        assert await health(api) == 200
        for _, writer in pairs:
            writer.close()


async def test_new_connections_of_an_address_have_a_rate(tmp_path: Path) -> None:
    """Finding 9: each costs an accept, a handshake, and perhaps a line of the log."""
    async with secured_api(tmp_path, connections_per_second=1) as api:
        assert [await health(api) for _ in range(2)] == [200, 200]
        reader, writer = await asyncio.open_connection("127.0.0.1", api.settings.port)
        assert await is_closed(reader)
        writer.close()


async def test_every_answer_has_the_headers_that_keep_browsers_apart(api: SecuredApi) -> None:
    for path, token in (
        ("/health", ""),
        ("/v3/links", api.token),
        ("/v3/links", ""),
        ("/docs", ""),
        ("/none", api.token),
    ):
        _, headers, _ = await api.raw(request(api, "GET", path, Authorization=f"Bearer {token}" if token else ""))
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
        assert "set-cookie" not in headers
