"""One batch of a log, asked for at its leader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.kafka.connection.errors import BrokerError
from gateway.mirror.partition import log_start
from gateway.mirror.partition.log_start import batch_at


async def test_a_code_that_nobody_knows_yet_is_the_brokers_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may be newer than the table of codes; a ValueError would end the task that asks, without a word."""

    async def answer(*_: object) -> Any:
        return SimpleNamespace(error_code=30_000, records=memoryview(b""))

    monkeypatch.setattr(log_start, "_fetch_one", answer)
    cluster: Any = SimpleNamespace(
        config=SimpleNamespace(api_timeout_s=1.0, retry_backoff_s=(0.01, 0.02)),
        rng=lambda: 0.5,
        leader=lambda *_: 1,
        leader_epoch=lambda *_: 3,
    )
    with pytest.raises(BrokerError, match="ERROR_30000") as refused:
        await batch_at(cluster, "t", 0, 5)
    assert refused.value.code == 30_000
