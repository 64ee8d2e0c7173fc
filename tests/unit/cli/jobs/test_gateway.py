"""What a job says to the gateway while it runs, and when it ends."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from gateway.cli.jobs import gateway as module
from gateway.cli.jobs.gateway import JobReports, ask_again
from gateway.cli.jobs.link import read_again
from gateway.jobs.errors import JobFailed
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.lost_records import LostRange

LOST = LostRange("orders", 0, 100, 200)
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
    answered: list[LostRange] = []
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


def asked(monkeypatch: pytest.MonkeyPatch, *answers: httpx.Response | Exception) -> tuple[Any, list[float]]:
    """What comes of a question that is answered so, and how long it paused between."""
    left, paused = list(answers), list[float]()

    def answer(request: httpx.Request) -> httpx.Response:
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(
        module, "client", lambda _: httpx.Client(base_url="http://here", transport=httpx.MockTransport(answer))
    )
    try:
        return ask_again("http://here", "/v3", pause=paused.append), paused
    except JobFailed as exc:
        return exc, paused


def test_a_gateway_that_restarts_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = (
        httpx.ConnectError("refused"),
        httpx.Response(503, json={"message": "no leader"}),
        httpx.Response(200, json={}),
    )
    assert asked(monkeypatch, *answers) == ({}, [module._PAUSE_S] * 2)


def test_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    found, paused = asked(monkeypatch, *[httpx.ConnectError("refused")] * module._TRIES)
    assert str(found) == "no answer from the gateway, asked 8 times: refused"
    assert len(paused) == module._TRIES - 1


def test_one_that_refuses_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found, paused = asked(monkeypatch, httpx.Response(401, json={"message": "token expired"}))
    assert (str(found), paused) == ("the gateway refuses: token expired", [])


def test_what_is_no_gateway_fails_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = asked(monkeypatch, httpx.Response(200, text="<html>"))
    assert "is not a lockgate API" in str(found)


def test_a_gateway_that_was_updated_meanwhile_fails_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cli.jobs.link.ask_again", lambda *_: {"version": "0.0.9"})
    with pytest.raises(JobFailed, match=r"the gateway is 0\.0\.9"):
        read_again("http://here", "west", LinkPlan.without_link({}, {}, ("t",)))
