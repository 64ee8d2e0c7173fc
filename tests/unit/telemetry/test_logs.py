from __future__ import annotations

import json
import logging

import pytest
import structlog

from gateway.telemetry.logs import configure


@pytest.fixture(autouse=True)
def _restored():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_json_has_one_object_a_line_for_our_events_and_those_of_libraries(capsys):
    configure("info", "json")
    structlog.get_logger("lockgate.x").info("mirror state", topic="orders", new="PAUSED")
    logging.getLogger("somelib").warning("took %d s", 3)
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        structlog.get_logger("lockgate.x").error("failed", exc_info=True)

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    assert [(line["event"], line["level"], line["logger"]) for line in lines] == [
        ("mirror state", "info", "lockgate.x"),
        ("took 3 s", "warning", "somelib"),
        ("failed", "error", "lockgate.x"),
    ]
    assert (lines[0]["topic"], lines[0]["new"]) == ("orders", "PAUSED")
    assert "ZeroDivisionError" in lines[2]["exception"]


def test_the_level_is_kept(capsys):
    configure("warning", "console")
    structlog.get_logger("lockgate.x").info("quiet")
    structlog.get_logger("lockgate.x").warning("loud", a=1)

    err = capsys.readouterr().err
    assert "quiet" not in err
    assert "loud" in err
    assert "a=1" in err
