"""What an audit notes of the topics' configs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.jobs.audit import clusters
from gateway.jobs.audit.clusters import AuditCluster
from gateway.kafka.admin import TopicConfigEntry


def test_tiered_storage_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def configs(_: object, names: list[str]) -> dict[str, dict[str, TopicConfigEntry]]:
        tiered = str(names == ["west.orders"]).lower()
        return {names[0]: {"remote.storage.enable": TopicConfigEntry(tiered, 1, is_default=False)}}

    async def sizes(*_: object) -> dict[Any, int]:
        return {}

    monkeypatch.setattr(clusters, "describe_topic_configs", configs)
    monkeypatch.setattr(clusters, "log_sizes", sizes)
    side = AuditCluster(SimpleNamespace(), ["orders", "quiet"], {"orders": "west.orders"})  # type: ignore[arg-type]
    side.partitions = {"orders": (0,), "quiet": (0,)}
    asyncio.run(side.policies({}))
    assert side.tiered == ["orders"]
