from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import structlog

from gateway.telemetry.log_rates import AGAIN_S, BURST, EVERY_S, LogRates, RepeatedLines
from gateway.telemetry.logs import configure
from gateway.transport import loop_watch
from gateway.transport.loop_watch import Frame


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


def test_what_strangers_cause_has_a_rate_and_what_operators_do_has_none(capsys):
    configure("info", "json")
    for at in range(BURST + 5):
        structlog.get_logger("lockgate.proxy").info("a bearer's token is refused", client=f"10.0.0.{at}")
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        structlog.get_logger("lockgate.control").info("mirror created", topic=f"t{at}")

    lines = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]

    assert lines.count("a bearer's token is refused") == BURST
    assert lines.count("Invalid HTTP request received.") == BURST
    assert lines.count("mirror created") == BURST + 5


def test_what_was_left_out_is_told_with_the_next_line():
    now = [0.0]
    rates = LogRates(lambda: now[0])
    assert [rates.take("l", "e") for _ in range(BURST + 3)] == [0] * BURST + [None] * 3
    now[0] = EVERY_S
    assert [rates.take("l", "e"), rates.take("l", "e")] == [3, None]
    assert rates.take("l", "another event") == 0
    now[0] = 1_000 * EVERY_S
    assert rates.take("l", "e") == 1


def test_however_many_events_there_are_few_are_remembered():
    rates = LogRates(lambda: 0.0)
    for at in range(10_000):
        rates.take("l", f"event {at}")
    assert len(rates._kept) == 256


@pytest.mark.parametrize("fmt", ["console", "json"])
def test_a_stall_of_the_event_loop_is_told_in_every_format(fmt: str, capsys):
    configure("info", fmt)
    loop_watch._logged("encoding", 0.443, [Frame("codec.py", 7, "encode"), Frame("store.py", 9, "put")], 0)

    told = capsys.readouterr().err
    assert "the event loop stood still" in told
    assert "codec.py:7 encode" in told
    assert "store.py:9 put" in told
    assert "Logging error" not in told


def test_a_trouble_that_is_said_again_in_the_same_words_has_one_line_a_minute():
    now, seen = [0.0], []
    lines = RepeatedLines(lambda: now[0])

    def say(level: int, **said: object) -> None:
        record = logging.LogRecord("lockgate.control", level, "", 0, {"timestamp": now[0], **said}, (), None)
        if lines.filter(record):
            told: Any = record.msg
            seen.append({name: value for name, value in told.items() if name != "timestamp"})

    for second in range(0, 121, 5):
        now[0] = float(second)
        say(logging.WARNING, event="topic configs not synced", link="west")
        say(logging.INFO, event="mirror state", new="PAUSED")
    told = [one for one in seen if one["event"] == "topic configs not synced"]
    every = int(AGAIN_S // 5) - 1
    assert [one.get("repeated", 0) for one in told] == [0, every, every]
    assert len(seen) - len(told) == 25  # what happens is told each time
    say(logging.WARNING, event="topic configs not synced", link="east")
    assert seen[-1]["link"] == "east"
