"""/docs in a real browser: no other site is asked for anything, the token is asked for once and kept in the tab."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.support.control.control_plane import SOURCE
from tests.support.control.secured_api import SecuredApi, secured_api
from tests.support.pages.browser import chromium, opened

# The security policy forbids what is not ours; a page that needed it would say so on the console.
ROOMS = ("links", "mirrors", "failback", "groups", "migrations", "jobs", "gateway", "gateways", "console", "confluent")


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[SecuredApi]:
    async with secured_api(tmp_path) as made:
        yield made


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


async def test_the_page_works_without_any_other_site(api: SecuredApi, browser: Browser, tmp_path: Path) -> None:
    seen = await opened(browser, f"{api.url}/docs")
    page = seen.page
    assert await page.locator("details").count() == 0  # nothing is shown without a token
    await page.get_by_label("Token").fill(api.token)
    await page.get_by_role("button", name="Show").click()
    await page.locator("section").first.wait_for()
    documented = sum(len(methods) for methods in api.app.openapi()["paths"].values())
    assert await page.locator("details").count() == documented
    assert {text.lower() for text in await page.locator("h2").all_inner_texts()} == set(ROOMS)

    create = page.locator("section", has=page.get_by_role("heading", name="links", exact=True)).locator(
        "details", has=page.get_by_text("Create a cluster link to a source")
    )
    await create.locator("summary").click()
    body = {"link_name": "west", "configs": [{"name": "bootstrap.servers", "value": SOURCE}]}
    await create.get_by_label("Body").fill(json.dumps(body))
    await create.get_by_role("button", name="Send").click()
    await create.get_by_text("201 Created").wait_for()
    assert "west" in api.plane.store.links
    await page.screenshot(path=str(tmp_path / "docs-1440.png"))

    await page.reload()  # the tab still has the token
    await page.locator("section").first.wait_for()
    assert await page.locator("#enter").is_hidden()
    stored = await page.evaluate("[Object.keys(sessionStorage), Object.keys(localStorage), document.cookie]")
    assert stored == [["lockgate.token"], [], ""]
    assert {url.partition("/docs")[0].partition("/openapi")[0].partition("/v3")[0] for url in seen.asked} <= {
        api.url,
        "data:,",
    }
    assert not any(api.token in url for url in seen.asked)
    assert seen.complaints == []

    await page.get_by_role("button", name="Sign out").click()
    assert await page.locator("details").count() == 0
    assert await page.evaluate("sessionStorage.length") == 0


async def test_another_tab_is_asked_again_and_a_wrong_token_is_said_so(api: SecuredApi, browser: Browser) -> None:
    first = await opened(browser, f"{api.url}/docs", width=390)
    await first.page.get_by_label("Token").fill("not-the-token-of-this-one")
    await first.page.get_by_role("button", name="Show").click()
    await first.page.get_by_role("alert").filter(has_text="the bearer token is not known here").wait_for()
    assert await first.page.locator("#enter").is_visible()
    assert await first.page.evaluate("sessionStorage.length") == 0
    assert await first.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_what_a_link_is_called_is_no_markup(api: SecuredApi, browser: Browser) -> None:
    seen = await opened(browser, f"{api.url}/docs")
    page = seen.page
    await page.get_by_label("Token").fill(api.token)
    await page.get_by_role("button", name="Show").click()
    row = page.locator("details", has=page.get_by_text("Describe a cluster link", exact=True))
    await row.locator("summary").click()
    await row.get_by_label("link").fill("<img src=x onerror=alert(1)>")
    await row.get_by_role("button", name="Send").click()
    await row.get_by_text("404 Not Found").wait_for()
    assert await row.locator("pre img").count() == 0
    assert "<img src=x" in await row.locator("pre").inner_text()


@pytest.fixture
async def evil() -> AsyncIterator[str]:
    """Another site: a page that says nothing, from which scripts run as an attacker's would."""

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(page, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_a_page_of_another_site_changes_and_learns_nothing(api: SecuredApi, browser: Browser, evil: str) -> None:
    """What a browser sends without asking first, from a page that the operator has opened; even with the token."""
    await api.plane.with_mirror("orders", 1)
    page = (await opened(browser, evil)).page
    told = await page.evaluate(
        """async ([url, token]) => {
            const told = [];
            for (const [path, options] of [
                ["/v3/links/l/mirrors/orders:pause", { method: "POST", mode: "no-cors" }],
                ["/v3/links", { method: "POST", mode: "no-cors", body: '{"link_name": "x", "configs": []}' }],
                ["/v3/links/l/mirrors/orders:pause", { method: "POST", headers: { Authorization: `Bearer ${token}` } }],
                ["/v3/links", {}],
                ["/health", {}],
            ]) {
                try { told.push(await (await fetch(url + path, options)).text()); } catch { told.push(""); }
            }
            return told;
        }""",
        [api.url, api.token],
    )
    assert told == [""] * 5
    assert api.plane.state("orders").value == "ACTIVE"
    assert set(api.plane.store.links) == {"l"}
    sent = [json.loads(line) for line in api.audit]
    assert {(line["path"], line["status"]) for line in sent} >= {
        ("/v3/links/l/mirrors/orders:pause", 403),
        ("/v3/links", 403),
    }
