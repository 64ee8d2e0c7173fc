"""The console, opened by somebody with a token, and its views."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from gateway.mirror.interface import PartitionStatus
from tests.support.control.secured_api import SecuredApi
from tests.support.pages.browser import Scheme, Watched, opened


def measured(partition: int, lag: int, source_end: int = 1000) -> PartitionStatus:
    at = source_end - lag
    return PartitionStatus(
        partition=partition, phase="copying", source_end=source_end, mirrored_to=at, target_end=at, lag=lag,
        lag_ms=lag * 10, bytes_per_s=2000.0, bypassed_last_minute=0,
    )  # fmt: skip


async def entered(
    browser: Browser, api: SecuredApi, token: str = "", width: int = 1440, scheme: Scheme = "light"
) -> Watched:
    seen = await opened(browser, f"{api.url}/console", width, scheme)
    await seen.page.get_by_label("Token").fill(token or api.token)
    await seen.page.get_by_role("button", name="Sign in").click()
    await expect(seen.page.get_by_role("link", name="Lock")).to_be_visible()
    return seen


async def go(seen: Watched, view: str, heading: str) -> None:
    await seen.page.evaluate("view => { location.hash = `#/${view}`; }", view)
    await expect(seen.page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
