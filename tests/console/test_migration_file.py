"""A migration file in the console: read as one types, held against the world, applied, and followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from gateway.kafka.groups import GroupView
from gateway.migration.rules.file_text import TEXT_BYTES
from gateway.state.migration_records import MigrationState
from tests.support.control.secured_api import SecuredApi
from tests.support.pages.browser import Pictures, Scheme
from tests.support.pages.console import entered, go

HEADING = "Apply a migration file"
FIELD = "The migration file (YAML)"
FILE = """migration: shop
link: l
failback_keep: 12h
applications:
- name: billing
  topics: [orders, payments]
  groups: [billing, invoices]   # the nightly one
- name: fraud
  topics: [scores]
  after: [billing]
  until: mirrored
"""
BROKEN = FILE.replace("until: mirrored", "untill: mirrored")


def with_topics(api: SecuredApi) -> None:
    for topic in ("payments", "scores"):
        api.plane.source.add(topic, 1, 10)
    for group in ("billing", "invoices"):
        api.plane.source.groups[group] = GroupView(group=group, state="Empty", type="", protocol_type="consumer")


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_a_file_is_checked_as_one_types(api: SecuredApi, browser: Browser, width: int, scheme: Scheme) -> None:
    """What is wrong has its line, in the command's own words; what is right is held against the world. All of it
    without a violation."""
    with_topics(api)
    seen = await entered(browser, api, width=width, scheme=scheme)
    page = seen.page
    await go(seen, "migration-file", HEADING)
    apply = page.get_by_role("button", name="Apply…")
    await page.get_by_label(FIELD).fill(BROKEN)
    await expect(page.get_by_text("applications.1.untill: unknown key")).to_be_visible(timeout=20_000)
    await expect(apply).to_be_disabled()
    assert await seen.violations() == []
    assert not await seen.is_too_wide()
    await page.get_by_role("button", name="Line 11").click()
    chosen = await page.evaluate("() => getSelection().toString()")
    assert chosen == "  untill: mirrored"
    await page.keyboard.type("  until: mirrored")
    await expect(page.get_by_text("migration shop: 2 applications, 3 names of topics, 2 of groups")).to_be_visible(
        timeout=20_000
    )
    left = page.get_by_role("list", name="What would be done")
    await expect(left.get_by_text("billing: mirror topic payments")).to_be_visible(timeout=20_000)
    await expect(left.get_by_text("fraud: mirror topic scores")).to_be_visible()
    await expect(left.get_by_text("billing: promote topics orders, payments")).to_contain_text("waits: ")
    await expect(left.get_by_text("fraud: until mirrored; 1 step more beyond that")).to_be_visible()
    await expect(page.locator("form.file .cli code")).to_have_text("lockgate migration apply shop.yaml --dry-run")
    await expect(apply).to_be_enabled()
    assert await seen.violations() == []
    assert not await seen.is_too_wide()
    await apply.click()
    await expect(page.get_by_role("dialog").get_by_text("Topics that change sides")).to_be_visible(timeout=20_000)
    assert await seen.violations() == []
    assert api.plane.store.migrations == {}
    assert [line for line in api.audit if "migrations:check" in line] == []
    assert seen.complaints == []


async def test_a_file_is_applied_and_followed(api: SecuredApi, browser: Browser) -> None:
    with_topics(api)
    seen = await entered(browser, api)
    page = seen.page
    await page.get_by_role("link", name="Migrations").click()
    await expect(page.get_by_text("There is no migration yet")).to_be_visible()
    await page.get_by_role("link", name="Apply a file").click()
    await page.get_by_label(FIELD).fill(FILE)
    await page.get_by_role("button", name="Apply…").click(timeout=20_000)
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("Migration shop begins")).to_be_visible(timeout=20_000)
    labels, values = [await dialog.locator(part).all_inner_texts() for part in ("dt", "dd")]
    facts = dict(zip(labels, values, strict=True))
    assert facts["Applications"] == "2"
    assert facts["Topics that are mirrored"] == "2"
    assert facts["Topics that change sides"] == "2"
    assert facts["Groups that change sides"] == "2"
    await expect(dialog.get_by_text("can be taken back for 12h")).to_be_visible()
    await expect(dialog.locator(".cli code")).to_have_text("lockgate migration apply shop.yaml")
    go_on = dialog.get_by_role("button", name="Apply")
    await expect(go_on).to_be_disabled()
    await dialog.get_by_label("Type shop to go on").fill("shop")
    await go_on.click()
    await expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible(timeout=20_000)
    assert api.plane.store.migrations["shop"].state is MigrationState.RUNNING
    assert api.plane.store.migrations["shop"].applied_by == "local"
    await expect(page.get_by_text("local applied the file of migration shop")).to_be_visible(timeout=20_000)
    assert await seen.violations() == []

    await page.get_by_role("button", name="Pause", exact=True).first.click()
    await expect(dialog.locator(".cli code")).to_have_text("lockgate migration pause shop")
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(page.get_by_text("PAUSED since")).to_be_visible(timeout=20_000)
    await page.get_by_role("button", name="Abort…").click()
    await expect(dialog.get_by_text("Steps that are not taken any more")).to_be_visible(timeout=20_000)
    await dialog.get_by_label("Type shop to go on").fill("shop")
    await dialog.get_by_role("button", name="Abort").click()
    await expect(page.get_by_text("ABORTED since")).to_be_visible(timeout=20_000)

    await page.get_by_role("button", name="Change its file").click()
    await expect(page.get_by_text("As it was applied last.")).to_be_visible(timeout=20_000)
    kept = await page.get_by_label(FIELD).input_value()
    await page.get_by_label(FIELD).fill(kept.replace('"12h"', "6h"))
    await page.get_by_role("button", name="Apply…").click(timeout=20_000)
    await expect(dialog.get_by_text("Migration shop is there already, and ABORTED")).to_be_visible(timeout=20_000)
    await dialog.get_by_label("Type shop to go on").fill("shop")
    await dialog.get_by_role("button", name="Apply").click()
    await expect(page.get_by_text("RUNNING since")).to_be_visible(timeout=20_000)
    assert '"failback_keep":"6h"' in api.plane.store.migrations["shop"].file

    await page.get_by_role("link", name="All migrations").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="shop", exact=True))
    await expect(row).to_contain_text("RUNNING")
    await expect(row).to_contain_text("of 3 topics")
    assert await seen.violations() == []
    assert seen.complaints == []


async def test_an_aborted_migration_is_forgotten(api: SecuredApi, browser: Browser) -> None:
    with_topics(api)
    async with api.client() as client:
        body = {"migration": "shop", "link": "l", "applications": [{"name": "a", "topics": ["scores"]}]}
        assert (await client.put("/v3/migrations/shop", json=body)).status_code == 200
        assert (await client.post("/v3/migrations/shop:abort")).status_code == 200
    seen = await entered(browser, api)
    await go(seen, "migration/shop", "What is left")
    await seen.page.get_by_role("button", name="Forget…").click(timeout=20_000)
    dialog = seen.page.get_by_role("dialog")
    await expect(dialog.get_by_text("Entries of its journal")).to_be_visible(timeout=20_000)
    await dialog.get_by_label("Type shop to go on").fill("shop")
    await dialog.get_by_role("button", name="Forget").click()
    await expect(seen.page.get_by_role("heading", name="Migrations")).to_be_visible(timeout=20_000)
    await expect(seen.page.get_by_text("There is no migration yet")).to_be_visible(timeout=20_000)
    assert api.plane.store.migrations == {}


async def test_what_the_gateway_would_refuse_is_said(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "migration-file", HEADING)
    await page.get_by_label(FIELD).fill(FILE.replace("link: l\n", "link: nowhere\n"))
    await expect(page.get_by_text("link 'nowhere' does not exist")).to_be_visible(timeout=20_000)
    await expect(page.get_by_role("button", name="Apply…")).to_be_disabled()
    await page.get_by_label(FIELD).fill(FILE.replace("scores", "nothing"))
    await expect(page.get_by_text("fraud: topic 'nothing' is not on the source of link 'l'")).to_be_visible(
        timeout=20_000
    )


async def test_who_may_not_apply_sees_why(api: SecuredApi, browser: Browser) -> None:
    """What is wrong with a file a viewer may know; what would be done takes who may do it."""
    seen = await entered(browser, api, "a-token-of-the-viewer")
    page = seen.page
    await go(seen, "migrations", "Migrations")
    await expect(page.get_by_text("To apply one takes the role operator; 'watcher' is viewer.")).to_be_visible()
    await go(seen, "migration-file", HEADING)
    await page.get_by_label(FIELD).fill(BROKEN)
    await expect(page.get_by_text("unknown key")).to_be_visible(timeout=20_000)
    await page.get_by_label(FIELD).fill(FILE)
    await expect(page.get_by_text("This takes the role operator; 'watcher' is viewer.")).to_be_visible(timeout=20_000)
    apply = page.get_by_role("button", name="Apply…")
    await expect(apply).to_be_disabled()
    assert "takes the role operator" in (await apply.get_attribute("title") or "")
    assert seen.complaints == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"#" * (TEXT_BYTES + 1), "has 1,048,576 bytes at most; this one has 1,048,577"),
        (b"migration: \xff\xfe", "it is no text in UTF-8"),
        (b"\x00" * 100, "Line 1 not YAML: control characters are not allowed"),
        (b"[" * 100_000, "Line 1 nested deeper than 32 levels"),
        (b"<img src=x onerror=alert(1)>: 1", "<img src=x onerror=alert(1)>: unknown key"),
    ],
    ids=["big", "no text", "zeros", "deep", "markup"],
)
async def test_a_file_that_cannot_be_one_is_refused_in_a_line(
    api: SecuredApi, browser: Browser, tmp_path: Path, content: bytes, words: str
) -> None:
    chosen = tmp_path / "west.yaml"
    chosen.write_bytes(content)
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "migration-file", HEADING)
    await page.get_by_label("Choose a file").set_input_files(chosen)
    await expect(page.locator("#file-checks")).to_contain_text(words, timeout=20_000)
    await expect(page.get_by_role("button", name="Apply…")).to_be_disabled()
    assert await page.locator("main img").count() == 0
    assert seen.complaints == []


async def test_a_chosen_file_names_the_command(api: SecuredApi, browser: Browser, tmp_path: Path) -> None:
    with_topics(api)
    chosen = tmp_path / "our shop.yaml"
    chosen.write_text(FILE)
    seen = await entered(browser, api)
    await go(seen, "migration-file", HEADING)
    await seen.page.get_by_label("Choose a file").set_input_files(chosen)
    await expect(seen.page.get_by_label(FIELD)).to_have_value(FILE)
    command = seen.page.locator("form.file .cli code")
    await expect(command).to_have_text("lockgate migration apply 'our shop.yaml' --dry-run")
    await go(seen, "topics", "Mirror topics")
    await go(seen, "migration-file", HEADING)
    await expect(seen.page.get_by_label(FIELD)).to_have_value(FILE)  # nothing typed is lost by a look elsewhere


async def test_the_keyboard_applies_a_file(api: SecuredApi, browser: Browser) -> None:
    """From the field to the dialog and through it, by Tab, Enter and letters."""
    with_topics(api)
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "migration-file", HEADING)
    await page.get_by_label(FIELD).focus()
    await page.keyboard.insert_text(FILE)
    apply = page.get_by_role("button", name="Apply…")
    await expect(apply).to_be_enabled(timeout=20_000)
    for _ in range(10):
        await page.keyboard.press("Tab")
        if await apply.evaluate("node => node === document.activeElement"):
            break
    await page.keyboard.press("Enter")
    name = page.get_by_role("dialog").get_by_label("Type shop to go on")
    await expect(name).to_be_visible()
    await name.focus()
    await page.keyboard.type("shop")
    await expect(page.get_by_role("dialog").get_by_role("button", name="Apply")).to_be_enabled(timeout=20_000)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible(timeout=20_000)
    assert "shop" in api.plane.store.migrations


async def test_pictures(api: SecuredApi, browser: Browser) -> None:
    """A file with a mistake: its line, and the command's words."""
    with_topics(api)
    seen = await entered(browser, api)
    await go(seen, "migration-file", HEADING)
    await seen.page.get_by_label(FIELD).fill(BROKEN)
    await expect(seen.page.get_by_text("applications.1.untill: unknown key")).to_be_visible(timeout=20_000)
    await Pictures(seen.page).take("migration-file")
