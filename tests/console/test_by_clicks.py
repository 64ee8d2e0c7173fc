"""A whole migration driven by clicks alone, between real clusters: link, mirror, rehearse, promote, and the way back.

Only what clients do is done beside the page: a producer and a consumer are restarted onto the gateway. With `PICTURES`
in the environment the pictures of docs/console.md are kept in that folder.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from playwright.async_api import Page, expect

from gateway.api.access.token_file import default_path, read_token
from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.clients.producers import ProducerProcess
from tests.support.gateways.gateway import running_gateway
from tests.support.pages.browser import Pictures, chromium, opened
from tests.support.waiting import wait_until_async

PARTITIONS = 3
PATIENCE_MS = 90_000

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


async def until_seen(seen: set[bytes], count: int) -> None:
    await wait_until_async(lambda: len(seen) >= count, PATIENCE_MS / 1000, what=f"{count} records read")


async def confirmed(page: Page, button: str, name: str = "") -> None:
    """The button of the page, and then the dialog's own, with the name typed where it is asked for."""
    await page.get_by_role("button", name=button, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    if name:
        await dialog.get_by_label(f"Type {name} to go on").fill(name)
    go_on = dialog.get_by_role("button", name=button, exact=True)
    await expect(go_on).to_be_enabled(timeout=PATIENCE_MS)
    await go_on.click()


async def test_a_migration_by_clicks(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> None:
    link, group = "west", f"billing-{topic[-4:]}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        async with chromium() as browser:
            seen = await opened(browser, f"{str(gateway.api.base_url).rstrip('/')}/console")
            page, pictures = seen.page, Pictures(seen.page)
            await page.get_by_label("Token").fill(read_token(default_path(os.environ)))
            await page.get_by_role("button", name="Open the console").click()

            # the link, and what it mirrors
            await page.get_by_role("link", name="Create a link").click(timeout=PATIENCE_MS)
            await page.get_by_label("Name of the link").fill(link)
            await page.get_by_label("Brokers of the source").fill(source.bootstrap)
            await expect(page.get_by_text("answers", exact=False)).to_be_visible(timeout=PATIENCE_MS)
            await pictures.take("link")
            await page.get_by_role("button", name="Create the link").click()
            await page.get_by_label(topic, exact=True).check(timeout=PATIENCE_MS)
            await page.get_by_role("button", name="Mirror them").click(timeout=PATIENCE_MS)
            await expect(page.get_by_text("1 mirror topic")).to_be_visible(timeout=PATIENCE_MS)

            # clients come: a producer onto the gateway, a consumer that still reads on the source, and its successor
            producer = ProducerProcess("librdkafka", gateway.bootstrap, topic, partitions=PARTITIONS, name="orders")
            with producer as writer:
                await asyncio.to_thread(writer.wait_for, 200)
                async with reading(source.bootstrap, topic, group, "billing-old") as before:
                    await until_seen(before, 50)
                    successor = reading(gateway.bootstrap, topic, group, "billing-new")
                    after = await successor.__aenter__()
                    try:
                        await expect(page.locator(".boat")).to_have_count(1, timeout=PATIENCE_MS)
                        await expect(page.get_by_text("waiting for 1 member on the source")).to_be_visible(
                            timeout=PATIENCE_MS
                        )
                        await pictures.take("lock")
                    except BaseException:
                        await successor.__aexit__(None, None, None)
                        raise
                try:
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

                    # the way back is kept open
                    await page.get_by_role("link", name="Topics").click()
                    await page.get_by_role("link", name=topic, exact=True).click()
                    await confirmed(page, "Mirror back…", topic)
                    await expect(page.get_by_text("mirrored back since", exact=False)).to_be_visible(
                        timeout=PATIENCE_MS
                    )
                    await expect(page.get_by_text(f"{PARTITIONS} partitions")).to_be_visible(timeout=PATIENCE_MS)
                    await pictures.take("topic")
                    await page.get_by_role("link", name="Timeline").click()
                    await expect(page.get_by_text(f"{topic} is written on the target")).to_be_visible()
                    await pictures.take("timeline")
                    await page.get_by_role("link", name="Groups").click()
                    await page.get_by_role("link", name=group).click()
                    await expect(page.get_by_role("heading", name=group)).to_be_visible()
                    await expect(page.get_by_text("billing-new at")).to_be_visible(timeout=PATIENCE_MS)
                    await pictures.take("group")
                finally:
                    await successor.__aexit__(None, None, None)
                await asyncio.to_thread(writer.stop)
            assert not writer.errors
            assert seen.complaints == []
    on_target = [record.key for log in read_logs(target.bootstrap, topic, PARTITIONS) for record in log]
    assert len(on_target) == len(writer.acknowledged)
    assert len(set(on_target)) == len(on_target)
