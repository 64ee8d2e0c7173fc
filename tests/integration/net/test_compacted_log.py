"""A compacted topic of lockgate's own on a real broker."""

from __future__ import annotations

import time
import uuid

import pytest

from gateway.devcluster import DevCluster
from gateway.kafka.logs.compacted_log import CompactedLog
from tests.integration.net.conftest import OpenCluster


async def test_what_is_put_is_read_by_all_whatever_the_time_of_day(
    target: DevCluster, client: OpenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers since 3.6 refuse what is stamped more than an hour ahead of them, where they do not stamp it."""
    cluster = await client(target.bootstrap)
    topic = f"log-{uuid.uuid4().hex[:12]}"
    one, other = CompactedLog(cluster, topic), CompactedLog(cluster, topic)
    real = time.time
    for wrong_by_s in (0, 3 * 86_400, -3 * 86_400):
        monkeypatch.setattr(time, "time", lambda by=wrong_by_s: real() + by)
        await one.put([(b"key", b"%d" % wrong_by_s)], 30.0)
        found = [(each.key, each.value) async for records in other.news(30.0) for each in records]
        assert found == [(b"key", b"%d" % wrong_by_s)]
