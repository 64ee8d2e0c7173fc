"""/console: served to anybody, and empty; the feed takes a role."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.console.feed import LISTENERS
from gateway.console.files import page_files
from gateway.migration.rules.file_text import TEXT_BYTES
from tests.support.control.secured_api import SecuredApi, secured_api
from tests.support.waiting import wait_until_async


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[SecuredApi]:
    async with secured_api(tmp_path) as made:
        yield made


async def test_the_page_and_its_parts_are_shown_to_anybody(api: SecuredApi) -> None:
    async with api.client("") as client:
        page = await client.get("/console")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "script-src 'self'" in page.headers["content-security-policy"]
        for name, file in page_files().items():
            answer = await client.get(f"/console/{name}")
            assert (answer.content, answer.headers["content-type"]) == (file.content, file.kind)
        assert (await client.get("/console/nothing.js")).status_code == 404
        assert (await client.get("/console/caller")).json() == {"name": "", "role": "anyone"}
        assert (await client.get("/console/feed")).status_code == 401
        assert (await client.get("/v3/console")).status_code == 401


async def test_the_page_names_no_other_site_and_has_nothing_inline() -> None:
    """What its policy would refuse is not in it; every module that one imports is there."""
    files = page_files()
    text = {name: file.content.decode() for name, file in files.items()}
    assert "style=" not in text["console.html"]
    for name, content in text.items():
        assert "https://" not in content, name
        assert "http://" not in content.replace("http://www.w3.org/2000/svg", "").replace("http(s)://", ""), name
        assert "innerHTML" not in content, name
    for content in text.values():
        for line in content.splitlines():
            if line.startswith("import ") and ' from "./' in line:
                assert line.rpartition('"./')[2].rstrip('";') in files, line


def test_the_page_and_the_gateway_have_one_bound_for_files() -> None:
    assert f"const MOST = {TEXT_BYTES:_}; // bytes" in page_files()["migration_file.js"].content.decode()


async def test_who_asks_is_told_first(api: SecuredApi) -> None:
    async with api.client() as client, client.stream("GET", "/console/feed") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        assert await anext(lines) == "event: hello"
        assert '"role":"admin"' in await anext(lines)


async def test_one_listener_too_many_is_refused_in_one_line(tmp_path: Path) -> None:
    """And an admin's console is not (finding 14)."""
    viewer = tmp_path / "viewer.token"
    viewer.write_text("a-token-of-the-viewer", encoding="ascii")
    viewer.chmod(0o600)
    principals = [{"name": "vera", "role": "viewer", "token_file": viewer}]
    async with secured_api(tmp_path, principals=principals) as api:
        places = [api.feed.enter(f"viewer {number}") for number in range(LISTENERS)]
        async with api.client("a-token-of-the-viewer") as client:
            answer = await client.get("/console/feed")
            assert answer.status_code == 503
            assert "32 consoles listen" in answer.json()["message"]
            api.feed.leave(places.pop())
            async with client.stream("GET", "/console/feed") as stream:
                assert stream.status_code == 200
        async with api.client() as client, client.stream("GET", "/console/feed") as stream:
            assert stream.status_code == 200
        await wait_until_async(lambda: api.feed.listeners == len(places), what="who has left has no place any more")


async def test_a_snapshot_by_hand(api: SecuredApi) -> None:
    await api.plane.with_mirror("orders", 2)
    async with api.client() as client:
        sections = (await client.get("/v3/console")).json()["sections"]
        assert set(sections["topics"]) == {"l/orders"}
        partitions = (await client.get("/v3/console/partitions", params={"link": "l", "topic": "orders"})).json()
    assert partitions["columns"][:3] == ["link", "topic", "partition"]
    assert partitions["rows"] == []
