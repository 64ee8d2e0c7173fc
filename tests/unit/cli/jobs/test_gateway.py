"""What a job says to the gateway while it runs, and when it ends."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from gateway.cli.jobs import gateway as module
from gateway.cli.jobs.gateway import JobReports
from gateway.jobs.lost_records import Lost

LOST = Lost("orders", 0, 100, 200)
TOLD = {"mirror_topic_name": "west.orders", "partition": 0, "first": 100, "following": 200}


class Gateway:
    """Answers as `answers` say; notes what it was told."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.told: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.told.append(json.loads(request.content))
        return httpx.Response(self.answers.pop(0))

    def reports(self, monkeypatch: pytest.MonkeyPatch) -> JobReports:
        made = httpx.Client(base_url="http://here", transport=httpx.MockTransport(self))
        monkeypatch.setattr(module, "client", lambda _: made)
        return JobReports("http://here", "west", "job-1", {"orders": "west.orders"})


def test_a_loss_is_told_with_a_heartbeat_until_one_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway(503, 204, 204)
    reports = gateway.reports(monkeypatch)
    answered: list[Lost] = []
    reports.lost.add(LOST, lambda: answered.append(LOST))
    reports.heartbeat.step()
    assert answered == []
    reports.heartbeat.step()
    assert answered == [LOST]
    reports.heartbeat.step()
    assert [one["lost"] for one in gateway.told] == [[TOLD], [TOLD], []]
    assert {one["state"] for one in gateway.told} == {"running"}


def test_a_job_that_fails_tells_what_it_has_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway(204)
    reports = gateway.reports(monkeypatch)
    reports.lost.add(LOST, lambda: None)
    reports.end("failed")
    assert [(one["state"], one["lost"]) for one in gateway.told] == [("failed", [TOLD])]
