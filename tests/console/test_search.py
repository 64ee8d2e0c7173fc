"""Search over everything, filters of tables, copy buttons and dates, in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from gateway.kafka.groups import MemberView
from tests.support.control.secured_api import SecuredApi
from tests.support.pages.browser import Pictures, Scheme
from tests.support.pages.console import entered, go


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_slash_finds_what_is_there_and_who(api: SecuredApi, browser: Browser, width: int, scheme: Scheme) -> None:
    """By the keyboard alone; a client leads to its group."""
    hosts = {"biller-1": "/10.0.0.7", "biller-2": "/10.0.0.8"}
    billers = [MemberView(member_id=name, client_id=name, host=host) for name, host in hosts.items()]
    api.plane.service.group_reports.who_on_source["l", "billing"] = billers
    seen = await entered(browser, api, width=width, scheme=scheme)
    page = seen.page
    await page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search")
    await expect(field).to_be_focused()
    await page.keyboard.type("bill")
    options = page.get_by_role("option")
    await expect(options).to_have_count(3)
    await expect(options.nth(0)).to_have_text("clientbiller-1on the source, group billing, 10.0.0.7")
    await expect(options.nth(0)).to_have_attribute("aria-selected", "true")
    assert await seen.violations() == []
    assert not await seen.is_too_wide()
    if scheme == "light":
        await Pictures(page).take("search")
        await field.fill("bill")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="billing", exact=True)).to_be_visible()
    await expect(field).to_have_value("")
    await page.keyboard.press("/")
    await page.keyboard.type("topic orders")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("gone")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("listbox", name="Found")).to_be_hidden()
    assert seen.complaints == []


async def test_a_slash_is_a_letter_where_one_types(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    await go(seen, "groups", "Mirror groups")
    field = seen.page.get_by_label("Filter mirror groups")
    await field.press_sequentially("a/b")
    await expect(field).to_have_value("a/b")
    await expect(field).to_be_focused()


async def test_tables_are_filtered_by_any_column(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "groups", "Mirror groups")
    field = page.get_by_label("Filter mirror groups")
    await field.fill("gate open")
    await expect(page.locator(".room .row:not([hidden])")).to_have_count(1)
    await expect(page.get_by_text("1 of 3")).to_be_visible()
    await expect(page.get_by_role("link", name="reports", exact=True)).to_be_visible()
    await field.fill("nobody")
    await expect(page.get_by_text("No row has that.")).to_be_visible()
    assert await seen.violations() == []
    for view, heading, label in (
        ("topics", "Mirror topics", "mirror topics"),
        ("partitions", "Partitions", "partitions of all mirror topics"),
        ("transactions", "Transactions", "open transactions"),
    ):
        await go(seen, view, heading)
        await expect(page.get_by_label(f"Filter {label}")).to_be_visible()


async def test_names_are_copied_and_times_have_a_date_and_a_zone(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    page = seen.page
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await go(seen, "topic/l/orders", "Partitions")
    await page.get_by_role("button", name="Copy the name of this topic").click()
    assert await page.evaluate("navigator.clipboard.readText()") == "orders"
    await expect(page.get_by_text("mirrored since 1 Jan 1970, 00:16:40 UTC")).to_be_visible()
    await go(seen, "lock", "Applications")
    await page.get_by_role("button", name="Copy the brokers").click()
    assert await page.evaluate("navigator.clipboard.readText()") == "source:9092"
