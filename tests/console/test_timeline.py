"""The timeline in a real browser: an action is a sentence that unfolds; filters by application, topic, kind, word."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Browser, expect

from gateway.state.migration_records import JournalEntry, MigrationRecord
from gateway.state.records import MirrorState
from tests.support.control.mirror_records import changed
from tests.support.control.secured_api import SecuredApi
from tests.support.pages.browser import Pictures, Scheme
from tests.support.pages.console import entered, go


async def promoted_by_a_migration(api: SecuredApi) -> None:
    """Ann applied a file; it promoted `orders` and `payments` as one step, and was refused a group thrice."""
    plane = api.plane
    await plane.with_mirror("payments", 1)
    shop = {"name": "shop", "topics": ["orders", "payments"], "groups": ["billing"]}
    file = {"migration": "m", "link": "l", "applications": [shop]}
    record = MigrationRecord(name="m", link="l", file=json.dumps(file), state_since_ms=plane.now_ms)
    record = record.noted(JournalEntry(plane.now_ms, "APPLIED", by="ann", detail="1 application"))
    await plane.by_hand(record)
    plane.now_ms += 60_000
    for state in (MirrorState.PENDING_STOPPED, MirrorState.STOPPED):
        plane.now_ms += 2000
        for topic in ("orders", "payments"):
            before = plane.store.mirrors["l", topic]
            await plane.by_hand(changed(before, state=state, state_since_ms=plane.now_ms, stopped_at=()))
    plane.now_ms += 1000
    step = JournalEntry(plane.now_ms, "PROMOTE_TOPICS", "shop", ("orders", "payments"), pause_ms=93)
    await plane.by_hand(plane.store.migrations["m"].noted(step))
    for _ in range(3):
        plane.now_ms += 5000
        refused = JournalEntry(plane.now_ms, "PROMOTE_GROUP_REFUSED", "shop", ("billing",), detail="no rights")
        await plane.by_hand(plane.store.migrations["m"].noted(refused))


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_one_action_is_one_line_that_unfolds(
    api: SecuredApi, browser: Browser, width: int, scheme: Scheme
) -> None:
    await promoted_by_a_migration(api)
    seen = await entered(browser, api, width=width, scheme=scheme)
    page = seen.page
    await go(seen, "timeline", "Timeline")
    items = page.locator(".timeline > li")
    refused, promoted = items.nth(0), items.nth(1)
    await expect(refused.locator(".line-said")).to_have_text(
        "migration m could not promote group billing of application shop"
    )
    await expect(refused.get_by_text("3 steps")).to_be_visible()
    await expect(promoted.locator(".line-said")).to_have_text(
        "migration m promoted topics orders, payments of application shop to the target"
    )
    await expect(promoted.get_by_text("writes were paused for 93 ms")).to_be_visible()
    await promoted.get_by_text("4 steps").click()
    await expect(promoted.get_by_text("orders is being promoted")).to_be_visible()
    await expect(promoted.locator("time")).to_have_text("1 Jan 1970, 00:17:45 UTC")
    assert await seen.violations() == []
    assert not await seen.is_too_wide()
    if scheme == "light":
        await Pictures(page).take("actions")
    assert seen.complaints == []


async def test_it_is_filtered_by_application_topic_kind_and_word(api: SecuredApi, browser: Browser) -> None:
    await promoted_by_a_migration(api)
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "timeline", "Timeline")
    items = page.locator(".timeline > li")
    await page.get_by_label("topic", exact=True).fill("payments")
    await expect(items).to_have_count(2)  # its mirror and its promote
    await page.get_by_label("topic", exact=True).fill("")
    await page.get_by_label("of application").select_option(label="shop (migration m)")
    await expect(items.filter(has_text="group reports")).to_have_count(0)
    await expect(items.filter(has_text="promoted topics")).to_have_count(1)
    await page.get_by_label("of application").select_option("")
    await page.get_by_label("with").fill("ann")
    await expect(items).to_have_count(1)
    await expect(items).to_contain_text("ann applied the file of migration m")
    await page.get_by_label("Show").select_option("gateway")
    await expect(page.get_by_text("Nothing of that has happened.")).to_be_visible()


async def test_a_journal_is_told_in_the_same_words(api: SecuredApi, browser: Browser) -> None:
    await promoted_by_a_migration(api)
    seen = await entered(browser, api)
    await go(seen, "migration/m", "What was done")
    items = seen.page.locator(".timeline > li")
    await expect(items).to_have_count(3)
    await expect(items.nth(1)).to_contain_text("writes were paused for 93 ms")
    await expect(items.nth(2)).to_contain_text("ann applied the file of migration m")
    assert await seen.violations() == []


async def test_what_happened_to_several_at_once_is_one_sentence(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    told = await seen.page.evaluate(
        """async () => {
          const { story } = await import("/console/story.js");
          const of = (at_ms, name, words, bad = false) => ({
            at_ms, kind: "topic", key: `l/${name}`, link: "l", names: [name], words,
            line: `${name} ${words}`, detail: "", bad, passing: false });
          const events = ["a", "b", "c", "d"].map((name, at) => of(at * 1000, name, "are paused"));
          events.push(of(90000, "e", "are paused"));
          events.push(...["a", "b"].map((name, at) => of(91000 + at, name, "have FAILED", true)));
          const told = story(events.map((each, at) => [String(at), each]));
          return told.map((one) => [one.line, one.parts.length]);
        }"""
    )
    assert told == [
        ["b have FAILED", 0],
        ["a have FAILED", 0],
        ["e are paused", 0],
        ["topics a, b, c and 1 more are paused", 4],
    ]
