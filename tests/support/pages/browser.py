"""Debian's Chromium for tests of pages: it reaches nobody but this machine, and what a page complains of is kept."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Browser, Page, async_playwright

Scheme = Literal["light", "dark"]


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The system's."""
    program = shutil.which("chromium")
    assert program, "Chromium is needed: apt-get install chromium"
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-background-networking"]
        )
        try:
            yield started
        finally:
            await started.close()


class Watched:
    """A page, with what it asked for and what it complained of (the security policy does so on its console)."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)

    async def violations(self) -> list[str]:
        """What axe finds, of all of its rules: a line for each element.

        axe is run by the debugger's protocol: as a script of the page the page's own policy would refuse it.
        """
        axe = files("axe_playwright_python").joinpath("axe.min.js").read_text()
        session = await self.page.context.new_cdp_session(self.page)
        await session.send("Runtime.evaluate", {"expression": axe})
        run = "axe.run().then((found) => JSON.stringify(found.violations))"
        said = await session.send("Runtime.evaluate", {"expression": run, "awaitPromise": True})
        await session.detach()
        found: list[dict[str, Any]] = json.loads(said["result"]["value"])
        return [f"{one['id']}: {node['html']} {node['failureSummary']}" for one in found for node in one["nodes"]]

    async def is_too_wide(self) -> bool:
        """It must be scrolled sideways."""
        return bool(await self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


class Pictures:
    """Of a page, at both widths, kept in the folder that `PICTURES` in the environment names; without it none is, nor
    where `kept` says so."""

    def __init__(self, page: Page, *, kept: bool = True) -> None:
        folder = os.environ.get("PICTURES") if kept else None
        self._page = page
        self._folder = Path(folder) if folder else None

    async def take(self, name: str) -> None:
        """`console-NAME-WIDTH.png`; the page must fit into either width."""
        for width in (1440, 390):
            await self._page.set_viewport_size({"width": width, "height": 900})
            assert not await self._page.evaluate("document.documentElement.scrollWidth > window.innerWidth"), name
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
                await self._page.screenshot(path=str(self._folder / f"console-{name}-{width}.png"))
        await self._page.set_viewport_size({"width": 1440, "height": 900})


async def opened(browser: Browser, url: str, width: int = 1440, scheme: Scheme = "light") -> Watched:
    """A page of its own, at this width."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    watched = Watched(await context.new_page())
    await watched.page.goto(url)
    return watched
