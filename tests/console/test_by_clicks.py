"""Whole migrations driven by clicks alone, between real clusters: link, mirror, rehearse, promote, undo; and the same
from a migration file.

Only what clients do is done beside the page: a producer and a consumer are restarted onto the gateway. With `PICTURES`
in the environment the pictures of docs/guides/console.md are kept in that folder.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from playwright.async_api import Page, expect

from gateway.api.access.token_file import default_path, read_token
from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, log_ends, read_logs
from tests.support.clients.producers import ProducerProcess
from tests.support.gateways.gateway import running_gateway
from tests.support.pages.browser import Pictures, chromium, opened
from tests.support.waiting import wait_until_async

PARTITIONS = 3
PATIENCE_MS = 90_000

FILE = """migration: shop
link: {link}
failback_keep: 1h
applications:
- name: shop
  topics: [{topic}]
  groups: [{group}]
"""

pytestmark = pytest.mark.slow


@asynccontextmanager
async def reading(bootstrap: str, topic: str, group: str, client: str) -> AsyncIterator[set[bytes]]:
    """A member of a group that reads until the end of the block; the keys that it has read."""
    seen: set[bytes] = set()
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, client_id=client, auto_offset_reset="earliest"
    )

    async def run() -> None:
        await consumer.start()
        try:
            async for record in consumer:
                seen.add(record.key)
        finally:
            await consumer.stop()

    task = asyncio.create_task(run())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def idempotent(bootstrap: str, topic: str, name: str) -> ProducerProcess:
    """Without it a request that a busy broker answers late is sent again, and appended again."""
    config = {"enable.idempotence": True}
    return ProducerProcess("librdkafka", bootstrap, topic, partitions=PARTITIONS, name=name, config=config)


async def until_seen(seen: set[bytes], count: int) -> None:
    await wait_until_async(lambda: len(seen) >= count, PATIENCE_MS / 1000, what=f"{count} records read")


async def confirmed(page: Page, button: str, name: str = "") -> None:
    """The button of the page, and then the dialog's own, with the name typed where it is asked for."""
    await page.get_by_role("button", name=button, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    if name:
        await dialog.get_by_label(f"Type {name} to go on").fill(name)
    go_on = dialog.get_by_role("button", name=button.removesuffix("…"), exact=True)
    await expect(go_on).to_be_enabled(timeout=PATIENCE_MS)
    await go_on.click()


async def entered(page: Page) -> None:
    await page.get_by_label("Token").fill(read_token(default_path(os.environ)))
    await page.get_by_role("button", name="Sign in").click()


async def created(page: Page, link: str, bootstrap: str, pictures: Pictures, more: str = "") -> None:
    """The link, by its form."""
    await page.get_by_role("link", name="Create a link").click(timeout=PATIENCE_MS)
    await page.get_by_label("Name of the link").fill(link)
    await page.get_by_label("More client properties and link options").fill(more)
    await page.get_by_label("Brokers of the source").fill(bootstrap)
    await expect(page.get_by_text("answers", exact=False)).to_be_visible(timeout=PATIENCE_MS)
    await pictures.take("link")
    await page.get_by_role("button", name="Create the link").click()
    await expect(page.get_by_role("heading", name=f"Topics of link {link}")).to_be_visible(timeout=PATIENCE_MS)


async def assert_both_have_all(source: DevCluster, target: DevCluster, topic: str, *writers: ProducerProcess) -> None:
    """Each cluster has each record that was acknowledged, wherever it was written, once and at the same offset."""
    assert [each.errors for each in writers] == [[] for _ in writers]
    acknowledged = sum(len(each.acknowledged) for each in writers)

    def have_all() -> bool:
        return all(sum(log_ends(each.bootstrap, topic, PARTITIONS)) >= acknowledged for each in (source, target))

    await wait_until_async(have_all, PATIENCE_MS / 1000, what="all records on both clusters")
    logs = [await asyncio.to_thread(read_logs, each.bootstrap, topic, PARTITIONS) for each in (source, target)]
    assert logs[0] == logs[1]
    keys = [record.key for log in logs[0] for record in log]
    assert len(keys) == len(set(keys)) == acknowledged


async def test_a_migration_by_clicks(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> None:
    link, group = "west", f"billing-{topic[-4:]}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        async with chromium() as browser:
            seen = await opened(browser, f"{str(gateway.api.base_url).rstrip('/')}/console")
            page, pictures = seen.page, Pictures(seen.page)
            await entered(page)

            # the link, and what it mirrors
            await created(page, link, source.bootstrap, pictures, "failback.keep=1h")
            await page.get_by_label(topic, exact=True).check(timeout=PATIENCE_MS)
            await page.get_by_role("button", name="Mirror them").click(timeout=PATIENCE_MS)
            await expect(page.get_by_text("1 mirror topic")).to_be_visible(timeout=PATIENCE_MS)

            # clients come: a producer onto the gateway, a consumer that still reads on the source, and its successor
            producer = idempotent(gateway.bootstrap, topic, "orders")
            with producer as writer:
                await asyncio.to_thread(writer.wait_for, 200)
                async with AsyncExitStack() as clients:
                    async with reading(source.bootstrap, topic, group, "billing-old") as before:
                        await until_seen(before, 50)
                        after = await clients.enter_async_context(
                            reading(gateway.bootstrap, topic, group, "billing-new")
                        )
                        await expect(page.locator(".boat")).to_have_count(1, timeout=PATIENCE_MS)
                        await expect(page.get_by_text("waiting for 1 member on the source")).to_be_visible(
                            timeout=PATIENCE_MS
                        )
                        await pictures.take("lock")
                    await expect(page.get_by_text("open: reads on the target")).to_be_visible(timeout=PATIENCE_MS)
                    await until_seen(after, 50)

                    await confirmed(page, "Rehearse all…")
                    await expect(page.get_by_text("Came to the cutover")).to_be_visible(timeout=PATIENCE_MS)
                    await pictures.take("rehearsed")
                    await page.get_by_role("button", name="Close").click()

                    await page.get_by_role("button", name="Promote all…").click()
                    await expect(page.get_by_text("To be copied first")).to_be_visible(timeout=PATIENCE_MS)
                    await expect(page.get_by_text("Readiness", exact=False).first).to_be_visible()
                    await pictures.take("promote")
                    await page.get_by_role("button", name="Cancel").click()
                    await confirmed(page, "Promote all…", topic)
                    await expect(page.get_by_text("1 of 1 topic", exact=True)).to_be_visible(timeout=PATIENCE_MS)
                    await asyncio.to_thread(writer.wait_for, 200)
                    await pictures.take("promoted")

                    # the way back is kept open, and is gone
                    await page.get_by_role("link", name="Topics").click()
                    await page.get_by_role("link", name=topic, exact=True).click()
                    await expect(page.get_by_text("mirrored back since", exact=False)).to_be_visible(
                        timeout=PATIENCE_MS
                    )
                    await expect(page.get_by_text(f"{PARTITIONS} partitions")).to_be_visible(timeout=PATIENCE_MS)
                    await expect(page.get_by_text("The source is being asked.")).to_have_count(0, timeout=PATIENCE_MS)
                    await pictures.take("topic")
                    await page.get_by_role("button", name="Undo…").click(timeout=PATIENCE_MS)
                    await expect(page.get_by_text("Records at risk, copied to the source first")).to_be_visible(
                        timeout=PATIENCE_MS
                    )
                    await pictures.take("undo")
                    await page.get_by_role("button", name="Cancel").click()
                    await confirmed(page, "Undo…", topic)
                    await expect(page.get_by_text("mirrored since", exact=False)).to_be_visible(timeout=PATIENCE_MS)
                    await expect(page.get_by_text("the source", exact=True)).to_be_visible()
                    read = len(after)
                    await asyncio.to_thread(writer.wait_for, 200)
                    await until_seen(after, read + 200)  # on the target, of what is written on the source again
                    await page.get_by_role("link", name="Timeline").click()
                    await expect(page.get_by_text(f"{topic} is written on the target")).to_be_visible()
                    await pictures.take("timeline")
                    await page.get_by_role("link", name="Groups").click()
                    await page.get_by_role("link", name=group).click()
                    await expect(page.get_by_role("heading", name=group)).to_be_visible()
                    await expect(page.get_by_text("billing-new at")).to_be_visible(timeout=PATIENCE_MS)
                    await pictures.take("group")
                await asyncio.to_thread(writer.stop)
            await assert_both_have_all(source, target, topic, writer)
            assert seen.complaints == []


async def test_a_migration_file_by_clicks(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> None:
    """The file is drafted by discovery, changed, applied; the fleet does the rest; all of it is undone as one set."""
    link, group = "north", f"billing-{topic[-4:]}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        async with chromium() as browser:
            seen = await opened(browser, f"{str(gateway.api.base_url).rstrip('/')}/console")
            page, pictures = seen.page, Pictures(seen.page)
            await entered(page)
            await created(page, link, source.bootstrap, Pictures(page, kept=False))
            old = idempotent(source.bootstrap, topic, "old")
            writer = idempotent(gateway.bootstrap, topic, "orders")
            try:
                async with AsyncExitStack() as clients:
                    async with reading(source.bootstrap, topic, group, "billing-old") as before:
                        with old:
                            await asyncio.to_thread(old.wait_for, 50)
                        await until_seen(before, 50)
                        await page.get_by_role("link", name="Migrations").click()
                        await page.get_by_role("link", name="Apply a file").click()
                        await page.get_by_role("button", name="Draft it").click()
                        field = page.get_by_label("The migration file (YAML)")
                        await expect(field).to_have_value(re.compile(topic), timeout=PATIENCE_MS)
                        await field.fill(FILE.format(link=link, topic=topic, group=group))
                        await expect(page.get_by_text(f"shop: mirror topic {topic}")).to_be_visible(timeout=PATIENCE_MS)
                        await pictures.take("file")
                        await page.get_by_role("button", name="Apply…").click()
                        await expect(page.get_by_text("Topics that change sides")).to_be_visible(timeout=PATIENCE_MS)
                        await pictures.take("apply")
                        await page.get_by_role("button", name="Cancel").click()
                        await confirmed(page, "Apply…", "shop")
                        await expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible(
                            timeout=PATIENCE_MS
                        )
                        await expect(
                            page.get_by_text(f"began to mirror {topic} of application shop").first
                        ).to_be_visible(timeout=PATIENCE_MS)
                        await asyncio.to_thread(writer.start().wait_for, 50)
                        after = await clients.enter_async_context(
                            reading(gateway.bootstrap, topic, group, "billing-new")
                        )
                        await expect(page.get_by_text("shop: promote group")).to_contain_text(
                            "on the source", timeout=PATIENCE_MS
                        )
                        await pictures.take("migration")
                    await expect(page.get_by_text("Nothing is left to be done.")).to_be_visible(timeout=PATIENCE_MS)
                    await asyncio.to_thread(writer.wait_for, 200)
                    undo = page.get_by_role("button", name="Undo…").first
                    await undo.click(timeout=PATIENCE_MS)
                    dialog = page.get_by_role("dialog")
                    await expect(dialog.get_by_text("Topics that go home")).to_be_visible(timeout=PATIENCE_MS)
                    await page.get_by_role("button", name="Cancel").click()
                    await confirmed(page, "Undo…", "shop")
                    await expect(page.get_by_text("PAUSED since")).to_be_visible(timeout=PATIENCE_MS)
                    await expect(page.get_by_text("shop: promote topics")).to_be_visible(timeout=PATIENCE_MS)
                    await pictures.take("undone")
                    read = len(after)
                    await asyncio.to_thread(writer.wait_for, 200)
                    await until_seen(after, read + 200)
            finally:
                await asyncio.to_thread(writer.stop)
            await assert_both_have_all(source, target, topic, old, writer)
            await confirmed(page, "Forget…", "shop")
            await expect(page.get_by_text("There is no migration yet")).to_be_visible(timeout=PATIENCE_MS)
            assert seen.complaints == []
