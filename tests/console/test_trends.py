"""Trends in a real browser: lines in tables, charts of one object, and gaps that are no zeros."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from gateway.console.rules.levels import levels
from gateway.console.rules.trends import HOUR_STEP_MS
from tests.support.control.secured_api import SecuredApi
from tests.support.pages.browser import Pictures, Scheme
from tests.support.pages.console import entered, go, measured

STEPS = 110
BEGINS_MS = 1_794_997_590_000
GAP = range(40, 55)  # nobody led


async def an_hour(api: SecuredApi) -> None:
    """Falls from 20,000 records; fifteen steps in which nothing was heard; a pause of 93 ms near its end."""
    plane, begins = api.plane, BEGINS_MS
    for step in range(STEPS):
        if step in GAP:
            continue
        behind = max(7, 20_000 - 250 * step + (900 if step % 9 == 0 else 0))
        plane.engine.numbers["l", "orders"] = [measured(0, behind), measured(1, 0), measured(2, 0)]
        found = dict(levels(plane.service.numbers()))
        if step == STEPS - 12:
            found["topic/l/orders"] = (behind, 6000.0, 93)
        found["group/l/billing"] = [400 + step]
        api.trends.trends.add(begins + step * HOUR_STEP_MS, found)


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_a_topic_has_charts_with_a_gap(api: SecuredApi, browser: Browser, width: int, scheme: Scheme) -> None:
    await an_hour(api)
    seen = await entered(browser, api, width=width, scheme=scheme)
    page = seen.page
    await go(seen, "topic/l/orders", "Partitions")
    behind = page.get_by_role("img", name="Behind: ")
    await expect(behind).to_have_attribute("aria-label", "Behind: 7 records; 20,900 records at most; 1 gap")
    path = await behind.locator("path.line").get_attribute("d") or ""
    assert path.count("M") == 2, "the gap is a gap"
    assert await page.get_by_role("img", name="Writes paused: 93 ms at most").count() == 1
    assert await seen.violations() == []
    assert not await seen.is_too_wide()
    await page.get_by_role("button", name="Since it began").click()
    await expect(page.get_by_role("button", name="Since it began")).to_have_attribute("aria-pressed", "true")
    await expect(page.get_by_text("since 18 Nov 2026, 10:26:00 UTC", exact=True)).to_be_visible()
    await page.get_by_role("button", name="The last hour").click()
    if scheme == "light":
        await Pictures(page).take("trends")
    assert seen.complaints == []


async def test_tables_have_lines_and_a_link_its_trends(api: SecuredApi, browser: Browser) -> None:
    await an_hour(api)
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "topics", "Mirror topics")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="orders", exact=True))
    await expect(row.get_by_role("img")).to_have_attribute("aria-label", "the last hour: 20,900 at most")
    assert await seen.violations() == []
    await go(seen, "groups", "Mirror groups")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="billing", exact=True))
    await expect(row.get_by_role("img")).to_have_attribute("aria-label", "the last hour: 509 at most")
    await go(seen, "lock", "Applications")
    await page.get_by_text("Trends of this link").click()
    await expect(page.get_by_role("img", name="Copied: ")).to_be_visible()
    assert await seen.violations() == []


async def test_an_object_of_which_nothing_was_heard_says_so(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    await go(seen, "group/l/billing", "Offsets")
    await expect(seen.page.get_by_text("Nothing has been heard yet")).to_be_visible()


async def test_paths_break_where_nothing_is_known(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    made = await seen.page.evaluate(
        """async () => {
          const { path, runs } = await import("/console/trends.js");
          const same = (value) => value;
          return [path([1, 2, null, 4, null, null, 7, 8], same, same), runs([null]).length, path([], same, same)];
        }"""
    )
    assert made == ["M0 1L1 2M3 4h2M6 7L7 8", 0, ""]
