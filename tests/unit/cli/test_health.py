"""`lockgate health`: the health check of the image."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.cli import health as command
from tests.support.control.control_server import ControlServer
from tests.unit.cli.conftest import Run

DOCKERFILE = Path(__file__).parents[3] / "Dockerfile"


def test_a_gateway_that_works(linked: ControlServer, run: Run) -> None:
    assert run("health").stdout == "it works\n"


def test_nobody_is_there(run: Run) -> None:
    assert "no answer from http://127.0.0.1:1" in run("health", "--url", "http://127.0.0.1:1", code=3).stderr


def test_what_does_not_work_is_named(linked: ControlServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        is_error = True

        def json(self) -> object:
            return {"status": "failing", "checks": {"loop": "failed", "target": "ok"}}

    class Connection:
        def __enter__(self) -> Connection:
            return self

        def __exit__(self, *_: object) -> None:
            return

        def get(self, *_: object, **__: object) -> Failing:
            return Failing()

    monkeypatch.setattr(command, "client", lambda url: Connection())
    assert run("health", code=1).stderr == "error: loop: failed\n"


def test_the_image_asks_so() -> None:
    """So that LOCKGATE_URL and LOCKGATE_CA_FILE count as for every command."""
    (check,) = re.findall(r"HEALTHCHECK[^\n]*\n\s+CMD (.*)", DOCKERFILE.read_text(encoding="utf-8"))
    assert check == '["lockgate", "health"]'
