"""What cannot be read of a topic is told, and is not taken for a topic without oddities."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.jobs.plan import sampling
from gateway.jobs.plan.sampling import sample_topics
from gateway.kafka.connection.errors import BrokerError
from protocol.batch.header import OldFormat
from protocol.errors import ErrorCode


class Reader:
    error: Exception

    def __init__(self, *_: object, **__: object) -> None:
        pass

    async def next(self) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "unread", "old"),
    [
        (BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t-0: TOPIC_AUTHORIZATION_FAILED"), "t-0: TOPIC_AUTH", 0),
        (OldFormat("v1"), "", 2),
    ],
)
async def test_what_goes_wrong_is_in_the_sample(monkeypatch, error, unread, old):
    monkeypatch.setattr(sampling, "RangeReader", type("Fails", (Reader,), {"error": error}))
    cluster: Any = None
    found = (await sample_topics(cluster, {("t", 0): (0, 2)}))["t"]
    assert found.unread.startswith(unread)
    assert bool(found.unread) == bool(unread)
    assert found.old_format == old
