"""The console in a real browser, before a control plane without Kafka: each view, who may what, and that it is calm."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace

import pytest
from playwright.async_api import Browser, Route, expect

from gateway.state.migration_records import MigrationRecord, MigrationState
from gateway.state.records import MirrorDirection, MirrorState, Undo
from tests.support.control.mirror_records import changed
from tests.support.control.secured_api import SecuredApi
from tests.support.pages.browser import Pictures, Scheme, opened
from tests.support.pages.console import entered, go, measured

PARTITIONS = 10_000
VIEWS = (
    ("lock", "Applications"),
    ("topics", "Mirror topics"),
    ("topic/l/orders", "Partitions"),
    ("partitions", "Partitions"),
    ("groups", "Mirror groups"),
    ("group/l/billing", "Offsets"),
    ("transactions", "Transactions"),
    ("fleet", "Fleet"),
    ("timeline", "Timeline"),
    ("alerts", "Alerts"),
    ("migrations", "Migrations"),
    ("migration-file", "Apply a migration file"),
    ("link", "Create a link"),
    ("link/l", "Topics of link l"),
)


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_every_view_is_whole_and_without_violations(
    api: SecuredApi, browser: Browser, width: int, scheme: Scheme
) -> None:
    """Axe's whole list, in light and in dark, wide and narrow; and nothing is asked of any other site."""
    seen = await opened(browser, f"{api.url}/console", width, scheme)
    await expect(seen.page.get_by_label("Token")).to_be_visible()
    assert await seen.violations() == []
    await seen.page.get_by_label("Token").fill(api.token)
    await seen.page.get_by_role("button", name="Sign in").click()
    for view, heading in VIEWS:
        await go(seen, view, heading)
        assert await seen.violations() == [], view
        assert not await seen.is_too_wide(), view
    assert {url.split("/")[2] if url.startswith("http") else url for url in seen.asked} <= {
        api.url.split("/")[2],
        "data:,",
    }
    assert not any(api.token in url for url in seen.asked)
    assert seen.complaints == []


async def test_on_a_phone_headings_are_whole_and_the_tab_is_in_sight(api: SecuredApi, browser: Browser) -> None:
    """Chosen there, and when the page becomes that narrow later."""
    seen = await entered(browser, api, width=390)
    page = seen.page
    cut = "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.textContent)"
    for view, heading in (("topic/l/orders", "Partitions"), ("partitions", "Partitions"), ("topics", "Mirror topics")):
        await go(seen, view, heading)
        await expect(page.locator(".room .row").first).to_be_visible(timeout=20_000)
        assert await page.locator(".row.head .cell").evaluate_all(cut) == [], view
    timeline = page.get_by_role("link", name="Timeline", exact=True)
    await timeline.click()
    await expect(timeline).to_be_in_viewport(ratio=0.9)
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    await page.set_viewport_size({"width": 390, "height": 900})
    await expect(timeline).to_be_in_viewport(ratio=0.9)


async def test_that_everybody_has_moved_takes_an_answer(api: SecuredApi, browser: Browser) -> None:
    """Who has not moved is never an empty list: who is left, that nobody is, or why that is not known."""
    seen = await entered(browser, api)
    page, said = seen.page, {"bypassed_last_minute": 0, "readers": [], "unknown": ""}
    told: list[dict[str, object]] = [
        {**said, "readers": None, "unknown": "it does not answer"},
        {**said, "bypassed_last_minute": 7, "readers": [{"group": "g", "client_id": "c", "host": "/h"}]},
        said,
    ]

    async def answer(route: Route) -> None:
        found = {"clients_not_migrated": told.pop(0), "records_after_cutover": {}}
        await route.fulfill(json=found)

    await page.route("**/v3/links/l/mirrors/orders", answer)
    for lines in (
        ["Who reads on the source is not known: it does not answer"],
        ["7 records came beside the gateway in the last minute.", "c (/h) of group g reads on the source."],
        ["Everybody has moved: no group reads on the source, and nothing came beside the gateway in the last minute."],
    ):
        await go(seen, "topic/l/orders", "Partitions")
        await expect(page.locator("ul.lines li")).to_have_text(lines)
        await go(seen, "topics", "Mirror topics")
    await go(seen, "topic/l/unheard", "Partitions")
    await expect(page.get_by_role("heading", name="Who has not moved yet")).to_be_hidden()


async def test_it_is_live_and_nothing_jumps(api: SecuredApi, browser: Browser) -> None:
    """A number changes in its place: the row is the same element as before, and stays where it is."""
    seen = await entered(browser, api)
    await go(seen, "topics", "Mirror topics")
    row = seen.page.get_by_role("row").filter(has=seen.page.get_by_role("link", name="orders", exact=True))
    await expect(row).to_contain_text("7")
    kept = await row.element_handle()
    before = await row.bounding_box()
    api.plane.engine.numbers["l", "orders"] = [measured(0, 5), measured(1, 4321), measured(2, 0)]
    await expect(row).to_contain_text("4,326", timeout=20_000)
    assert kept is not None
    assert await kept.evaluate("node => node.isConnected && node.textContent.includes('4,326')")
    assert await row.bounding_box() == before


async def test_ten_thousand_partitions_are_a_page_of_rows(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    api.plane.engine.numbers["l", "orders"] = [measured(index, index % 7) for index in range(PARTITIONS)]
    await go(seen, "partitions", "Partitions")
    await expect(seen.page.get_by_text(f"{PARTITIONS:,} partitions")).to_be_visible(timeout=30_000)
    assert await seen.page.locator(".room .row").count() < 60
    edges = "rows => rows.map(row => [...row.children].map(cell => cell.getBoundingClientRect().right))"
    head, first = await seen.page.locator(".row.head, .room .row:first-child").evaluate_all(edges)
    assert head == first  # each heading ends where its column does, with or without a scrollbar
    table = seen.page.get_by_role("table")
    assert await table.get_attribute("aria-rowcount") == str(PARTITIONS + 1)
    await seen.page.get_by_role("button", name="Partition", exact=True).click()
    await expect(seen.page.locator(".room .row:not([hidden])", has_text="9999").first).to_be_visible()
    await seen.page.locator(".scroll").evaluate("box => { box.scrollTop = box.scrollHeight; }")
    last = seen.page.locator(f'.room .row[aria-rowindex="{PARTITIONS + 1}"]')
    await expect(last).to_be_visible()


async def test_a_promote_says_what_it_will_do_and_asks_for_the_name(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "topic/l/orders", "Partitions")
    await page.get_by_role("button", name="Promote…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("To be copied first")).to_be_visible()
    await expect(dialog.get_by_text("7 records")).to_be_visible()
    await expect(dialog.locator(".cli code")).to_have_text("lockgate mirror promote orders --link l")
    go_on = dialog.get_by_role("button", name="Promote")
    await expect(go_on).to_be_disabled()
    await dialog.get_by_label("Type orders to go on").fill("order")
    await expect(go_on).to_be_disabled()
    assert await seen.violations() == []
    await dialog.get_by_label("Type orders to go on").fill("orders")
    await go_on.click()
    await expect(dialog).to_have_count(0)
    assert api.plane.promoters.asked == [("l", ("orders",), False)]


async def test_a_promote_that_has_not_cut_over_is_called_off(api: SecuredApi, browser: Browser) -> None:
    plane = api.plane
    await plane.by_hand(changed(plane.store.mirrors["l", "orders"], state=MirrorState.PENDING_STOPPED))
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "topic/l/orders", "Partitions")
    await page.get_by_role("button", name="Call off…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("Topics that go back")).to_be_visible()
    command = dialog.locator(".cli code")
    await expect(command).to_have_text("lockgate mirror promote orders --cancel --link l")
    assert await seen.violations() == []
    await dialog.get_by_role("button", name="Call off").click()
    await expect(dialog).to_have_count(0)
    assert plane.state("orders") is MirrorState.ACTIVE


async def test_groups_that_move_together_are_promoted_with_their_topic(api: SecuredApi, browser: Browser) -> None:
    """Only those that are not promoted yet can be ticked, and none with force; the command says the same."""
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "topic/l/orders", "Partitions")
    await page.get_by_role("button", name="Promote…").click()
    dialog = page.get_by_role("dialog")
    along = dialog.get_by_role("group").get_by_role("checkbox")
    await expect(along).to_have_count(1)
    await dialog.get_by_label("billing", exact=True).check()
    command, force = dialog.locator(".cli code"), dialog.get_by_label("Force:", exact=False)
    await expect(command).to_have_text("lockgate mirror promote orders --link l --groups billing")
    assert await seen.violations() == []
    await force.check()
    await expect(command).to_have_text("lockgate mirror promote orders --link l --force")
    await expect(along).to_be_disabled()
    await force.uncheck()
    await dialog.get_by_label("Type orders to go on").fill("orders")
    await dialog.get_by_role("button", name="Promote").click()
    await expect(dialog).to_have_count(0)
    assert api.plane.promoters.along == [(("orders",), ("billing",))]


UNTIL_MS = (int(time.time()) + 86_400) * 1000


async def kept(api: SecuredApi, **more: object) -> None:
    """`orders` is mirrored back by itself, level but for three records; the group `reports` has its place there."""
    plane = api.plane
    plane.engine.numbers["l", "orders"] = [measured(0, 3), measured(1, 0), measured(2, 0)]
    values = {"direction": MirrorDirection.REVERSE, "undo": Undo.OPEN, "undo_until_ms": UNTIL_MS}
    record = plane.store.mirrors["l", "orders"]
    back = changed(record, stopped_at=(1000,) * 3, readable=True, **values, **more)
    application = {"name": "shop", "topics": ["orders"], "groups": ["reports"]}
    file = {"migration": "m", "link": "l", "applications": [application, {"name": "other", "topics": ["refunds"]}]}
    stopped_by = "late_writes is 7, 0 at most ('orders')"
    migration = MigrationRecord(
        name="m", link="l", file=json.dumps(file), state=MigrationState.PAUSED, stopped_by=stopped_by
    )
    await plane.by_hand(back, migration)
    plane.engine.start_mirror(back)
    plane.promoters.gate = asyncio.Event()


async def test_an_undo_says_until_when_and_what_is_at_risk(api: SecuredApi, browser: Browser) -> None:
    await kept(api)
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "topic/l/orders", "Partitions")
    await expect(page.get_by_text("; 3 records at risk")).to_be_visible()
    await page.get_by_role("button", name="Undo…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("Records at risk, copied to the source first")).to_be_visible()
    facts = await dialog.locator("dd").all_inner_texts()
    assert facts[0].startswith("until ")
    assert facts[1:] == ["3", "1", "0"]
    await dialog.get_by_label("reports", exact=True).check()
    await expect(dialog.locator("dd")).to_have_text([facts[0], "3", "1", "1"])
    await expect(dialog.locator(".cli code")).to_have_text("lockgate mirror undo orders --link l --groups reports")
    await Pictures(page).take("undo")
    assert await seen.violations() == []
    go_on = dialog.get_by_role("button", name="Undo")
    await expect(go_on).to_be_disabled()
    await dialog.get_by_label("Type orders to go on").fill("orders")
    await go_on.click()
    await expect(dialog).to_have_count(0)
    assert api.plane.promoters.along == [(("orders",), ("reports",))]
    await expect(page.get_by_text("failing back since")).to_be_visible(timeout=20_000)
    await expect(page.get_by_role("button", name="Undo…")).to_have_count(0)


async def test_late_writes_are_told_and_kept_if_somebody_says_so(api: SecuredApi, browser: Browser) -> None:
    await kept(api)
    api.plane.promoters.late_writes = "4 records were written to the source (4 in partition 1 from offset 9 on)"
    api.plane.promoters.after_cutover = {1: 4}
    seen = await entered(browser, api)
    await go(seen, "topic/l/orders", "Partitions")
    await seen.page.get_by_role("button", name="Undo…").click()
    dialog = seen.page.get_by_role("dialog")
    await expect(dialog.get_by_text("4 in partition 1 from offset 9 on")).to_be_visible()
    await expect(dialog.get_by_role("button", name="Undo")).to_be_disabled()
    await dialog.get_by_label("Keep 4 records that came to the source beside the gateway").check()
    await expect(dialog.get_by_text("Records that came to the source beside the gateway, and stay")).to_be_visible()
    await expect(dialog.locator(".cli code")).to_have_text("lockgate mirror undo orders --link l --keep-late-writes")
    await dialog.get_by_label("Type orders to go on").fill("orders")
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog).to_have_count(0)
    assert api.plane.promoters.kept_late


async def test_a_mirror_back_is_begun_by_hand(api: SecuredApi, browser: Browser) -> None:
    record = api.plane.store.mirrors["l", "orders"]
    await api.plane.by_hand(changed(record, state=MirrorState.STOPPED, stopped_at=(100,) * 3, readable=True))
    seen = await entered(browser, api)
    await go(seen, "topic/l/orders", "Partitions")
    await seen.page.get_by_role("button", name="Mirror back…").click(timeout=20_000)
    dialog = seen.page.get_by_role("dialog")
    await expect(dialog.get_by_text("so that the way back stays open")).to_be_visible(timeout=20_000)
    await expect(dialog.locator(".cli code")).to_have_text("lockgate mirror reverse orders --link l")
    await dialog.get_by_label("Type orders to go on").fill("orders")
    await dialog.get_by_role("button", name="Mirror back").click(timeout=20_000)
    await expect(dialog).to_have_count(0, timeout=20_000)
    assert api.plane.store.mirrors["l", "orders"].failback.direction is MirrorDirection.REVERSE


async def test_an_undo_that_would_be_refused_says_why(api: SecuredApi, browser: Browser) -> None:
    await kept(api, state=MirrorState.PAUSED)
    seen = await entered(browser, api)
    await go(seen, "topic/l/orders", "Partitions")
    await seen.page.get_by_role("button", name="Undo…").click()
    dialog = seen.page.get_by_role("dialog")
    await expect(dialog.get_by_text("lockgate mirror resume")).to_be_visible()
    await dialog.get_by_label("Type orders to go on").fill("orders")
    await expect(dialog.get_by_role("button", name="Undo")).to_be_disabled()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_a_migration_is_undone_beside_its_steps(
    api: SecuredApi, browser: Browser, width: int, scheme: Scheme
) -> None:
    """Of one application, or of all as one set: then it is the migration's name that is asked for."""
    await kept(api)
    seen = await entered(browser, api, width=width, scheme=scheme)
    page = seen.page
    await go(seen, "lock", "Applications")
    shop = page.get_by_role("listitem").filter(has=page.get_by_text("shop", exact=True))
    await expect(shop.get_by_text("STOPPED_BY_RULE: late_writes is 7")).to_be_visible()
    await expect(shop.get_by_text("; 3 records at risk")).to_be_visible()
    assert await seen.violations() == []
    assert not await seen.is_too_wide()
    await shop.get_by_role("button", name="Undo…").click()
    dialog = page.get_by_role("dialog")
    command = dialog.locator(".cli code")
    await expect(command).to_have_text("lockgate migration undo m --application shop")
    await expect(dialog.get_by_text("Migration m is PAUSED")).to_be_visible()
    await expect(dialog.get_by_label("Type shop to go on")).to_be_visible()
    await dialog.get_by_label("All applications of migration m").check()
    await expect(command).to_have_text("lockgate migration undo m")
    facts = dialog.locator("dd")
    await expect(facts.nth(1)).to_have_text("3")
    await dialog.get_by_label("Groups that only read, too").check()
    await expect(facts.last).to_have_text("1")
    await expect(command).to_have_text("lockgate migration undo m --groups")
    await dialog.get_by_label("Groups that only read, too").uncheck()
    await expect(facts.last).to_have_text("0")
    assert await seen.violations() == []
    await dialog.get_by_label("Type m to go on").fill("m")
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog).to_have_count(0)
    assert api.plane.promoters.asked == [("l", ("orders",), False)]


@pytest.mark.parametrize("whole", [False, True])
async def test_late_writes_are_kept_when_a_migration_is_undone(api: SecuredApi, browser: Browser, whole: bool) -> None:
    await kept(api)
    api.plane.promoters.late_writes = "4 records were written to the source (4 in partition 1 from offset 9 on)"
    api.plane.promoters.after_cutover = {1: 4}
    seen = await entered(browser, api)
    place, heading = ("migration/m", "What is left") if whole else ("lock", "Applications")
    await go(seen, place, heading)
    await seen.page.get_by_role("button", name="Undo…").first.click()
    dialog = seen.page.get_by_role("dialog")
    await expect(dialog.get_by_text("4 in partition 1 from offset 9 on")).to_be_visible()
    await expect(dialog.get_by_role("button", name="Undo")).to_be_disabled()
    of_all = "" if whole else " of migration m"
    await dialog.get_by_label(f"Keep 4 records{of_all} that came to the source beside the gateway").check()
    await expect(dialog.get_by_text("Records that came to the source beside the gateway, and stay")).to_be_visible()
    await expect(dialog.locator("dd").last).to_have_text("4")
    name, of_it = ("m", "") if whole else ("shop", " --application shop")
    await expect(dialog.locator(".cli code")).to_have_text(f"lockgate migration undo m{of_it} --keep-late-writes")
    await dialog.get_by_label(f"Type {name} to go on").fill(name)
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog).to_have_count(0)
    assert api.plane.promoters.kept_late


async def test_a_migration_that_a_rule_has_stopped_is_an_alert(api: SecuredApi, browser: Browser) -> None:
    await kept(api)
    seen = await entered(browser, api)
    await go(seen, "alerts", "Alerts")
    alert = seen.page.get_by_role("listitem").filter(has_text="migration m is STOPPED_BY_RULE")
    await expect(alert).to_contain_text("late_writes is 7, 0 at most ('orders')", timeout=20_000)
    await expect(alert).to_contain_text("restart it onto the gateway")
    await alert.get_by_role("link").click()
    await expect(seen.page.get_by_role("heading", name="Applications")).to_be_visible()
    await seen.page.get_by_role("button", name="Resume", exact=True).first.click()
    await expect(seen.page.get_by_role("dialog").get_by_text("Who resumes it accepts that value")).to_be_visible()


async def test_a_viewer_sees_everything_and_does_nothing(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api, "a-token-of-the-viewer")
    await go(seen, "topic/l/orders", "Partitions")
    await expect(seen.page.locator("#who")).to_contain_text("watcher · viewer")
    promote = seen.page.get_by_role("button", name="Promote…")
    await expect(promote).to_be_disabled()
    assert "takes the role operator" in (await promote.get_attribute("title") or "")


async def test_the_keyboard_is_enough(api: SecuredApi, browser: Browser) -> None:
    """From the token to a dialog and back, without a mouse; the dialog keeps the focus, and gives it back."""
    seen = await opened(browser, f"{api.url}/console#/topic/l/orders")
    page = seen.page
    await expect(page.get_by_label("Token")).to_be_focused()
    await page.keyboard.type(api.token)
    await page.keyboard.press("Enter")
    pause = page.get_by_role("button", name="Pause", exact=True)
    await expect(pause).to_be_visible()
    for _ in range(40):
        await page.keyboard.press("Tab")
        if await pause.evaluate("node => node === document.activeElement"):
            break
    await expect(pause).to_be_focused()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    assert await dialog.evaluate("node => node.contains(document.activeElement)")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(pause).to_be_focused()


async def test_what_a_topic_is_called_is_no_markup(api: SecuredApi, browser: Browser) -> None:
    record = replace(api.plane.store.groups["l", "audit"], error_message="<img src=x onerror=alert(1)>")
    await api.plane.by_hand(record)
    seen = await entered(browser, api)
    await go(seen, "alerts", "Alerts")
    await expect(seen.page.get_by_text("<img src=x")).to_be_visible(timeout=20_000)
    assert await seen.page.locator("main img").count() == 0
    assert seen.complaints == []


async def test_a_wrong_token_is_said_and_not_kept(api: SecuredApi, browser: Browser) -> None:
    seen = await opened(browser, f"{api.url}/console", 390)
    await seen.page.get_by_label("Token").fill("not-the-token-of-this-one")
    await seen.page.get_by_role("button", name="Sign in").click()
    await expect(seen.page.get_by_role("alert").filter(has_text="not known here")).to_be_visible()
    assert await seen.page.evaluate("sessionStorage.length") == 0


async def test_the_feed_goes_on_when_the_gateway_is_away_for_a_moment(api: SecuredApi, browser: Browser) -> None:
    """Streams end; the page asks again by itself, and shows what is so then."""
    seen = await entered(browser, api)
    await expect(seen.page.locator("#live-text")).to_have_text("live")
    for listener in tuple(api.feed._listeners):
        listener.end()
    await go(seen, "timeline", "Timeline")
    await api.plane.service.mirrors.pause("l", "orders")
    await expect(seen.page.get_by_text("orders is paused")).to_be_visible(timeout=20_000)


async def test_a_link_is_checked_as_one_types(api: SecuredApi, browser: Browser) -> None:
    seen = await entered(browser, api)
    page = seen.page
    await go(seen, "link", "Create a link")
    create = page.get_by_role("button", name="Create the link")
    await page.get_by_label("Name of the link").fill("west")
    await expect(page.get_by_text("say where its brokers are")).to_be_visible()
    await page.get_by_label("Brokers of the source").fill("source:9092,")
    await expect(create).to_be_disabled()
    await page.get_by_label("Brokers of the source").fill("source:9092")
    await expect(page.get_by_text("cluster S answers")).to_be_visible(timeout=20_000)
    assert "west" not in api.plane.store.links
    await expect(page.locator(".cli code")).to_have_text("lockgate link create west --bootstrap source:9092")
    await create.click()
    await expect(page.get_by_role("heading", name="Topics of link west")).to_be_visible(timeout=20_000)
    assert "west" in api.plane.store.links


async def test_records_of_both_clusters_stand_side_by_side(api: SecuredApi, browser: Browser) -> None:
    """Asked for by a button; markup in a record is text; what is missing on one side is said."""
    seen = await entered(browser, api)
    page = seen.page
    asked: list[str] = []
    evil = "<img src=x onerror=alert(1)>"

    def record(offset: int, text: str, encoding: str = "utf-8", size: int = 0, note: str | None = None) -> object:
        value = {"size": size or len(text), "encoding": encoding, "text": text}
        return {"offset": offset, "timestamp_ms": 5, "key": None, "value": value, "headers_count": 0, "note": note}

    pairs = [
        {"source": record(3, evil), "target": record(3, evil), "is_equal": True},
        {"source": record(4, "00ff", "hex", 9), "target": record(4, "00fe", "hex", 9), "is_equal": False},
        {"source": None, "target": record(5, "", note="a control batch"), "is_equal": False},
    ]

    async def answer(route: Route) -> None:
        asked.append(route.request.url.split("?")[1])
        ranges = {"log_start": 0, "log_end": 1234}
        await route.fulfill(json={"data": pairs, "source_range": ranges, "target_range": ranges})

    await page.route("**/v3/links/l/mirrors/orders/partitions/2/messages?*", answer)
    await go(seen, "topic/l/orders", "Partitions")
    await page.get_by_label("Partition", exact=True).fill("2")
    await page.get_by_label("From offset on the source").fill("3")
    await page.get_by_role("button", name="Show records").click()
    rows = page.locator(".messages tbody tr")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(0)).to_contain_text(f"null → {evil}")
    await expect(rows.nth(0).locator("td").last).to_have_text("yes")
    await expect(rows.nth(1)).to_contain_text("0x00ff… (9 bytes)")
    await expect(rows.nth(1).locator("td").last).to_have_text("NO")
    await expect(rows.nth(2)).to_contain_text("nothing here")
    await expect(rows.nth(2)).to_contain_text("a control batch")
    await expect(page.get_by_text("1 of 3 records equal. Source: offsets 0 to 1,234")).to_be_visible()
    await expect(page.get_by_text("lockgate mirror messages orders --link l --partition 2 --offset 3")).to_be_visible()
    assert asked == ["count=10&offset=3"]
    assert await seen.violations() == []
    await page.set_viewport_size({"width": 390, "height": 900})
    assert not await seen.is_too_wide()
    assert seen.complaints == []
