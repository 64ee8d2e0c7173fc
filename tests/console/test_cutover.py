"""The cutover on a big screen: steps, clients by name, the pause, and the undo clock; and help for the picture."""

from __future__ import annotations

import time

import pytest
from playwright.async_api import Browser, expect

from gateway.kafka.groups import MemberView
from gateway.state.records import MirrorState
from tests.support.control.mirror_records import changed
from tests.support.control.secured_api import SecuredApi
from tests.support.pages.browser import Pictures, Scheme
from tests.support.pages.console import entered, go


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_an_application_on_a_big_screen(api: SecuredApi, browser: Browser, width: int, scheme: Scheme) -> None:
    plane = api.plane
    member = MemberView(member_id="m", client_id="biller-1", host="/10.0.0.7")
    plane.service.group_reports.who_on_source["l", "billing"] = [member]
    plane.parts.pauses_seen.ended("l", ["orders"], "stopped", 0.093)
    seen = await entered(browser, api, width=width, scheme=scheme)
    page = seen.page
    await go(seen, "lock", "Applications")
    await page.get_by_text("What the picture shows").click()
    await expect(page.get_by_text("A boat is a group that waits")).to_be_visible()
    assert await seen.violations() == []
    await page.get_by_role("link", name="Big screen of l").click()
    await expect(page.get_by_role("heading", name="l", exact=True)).to_be_visible()
    await expect(page.get_by_text("93 ms, the longest of the last ones")).to_be_visible()
    await expect(page.get_by_text("biller-1")).to_be_visible()
    assert await seen.violations() == []
    assert not await seen.is_too_wide()
    begun = {"state": MirrorState.PENDING_STOPPED, "state_since_ms": int(time.time() * 1000)}
    await plane.by_hand(changed(plane.store.mirrors["l", "orders"], **begun))
    await expect(page.get_by_text("1 topic is being promoted for")).to_be_visible(timeout=20_000)
    if scheme == "light":
        await Pictures(page).take("cutover")
    assert seen.complaints == []


async def test_the_undo_clock_counts_down(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    told = await seen.page.evaluate(
        """async () => {
          const { clockOf } = await import("/console/cutover.js");
          const row = { undo_open: 1, promoted: 1, undo_until_ms: 90061000 };
          return [clockOf(row, 0).split(",")[0], clockOf({ ...row, undo_until_ms: 0 }, 0), clockOf({ promoted: 0 }, 0)];
        }"""
    )
    assert told == ["25:01:01 left", "open without an end", "nothing is promoted yet"]
