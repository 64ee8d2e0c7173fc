"""What clients chose is text on a terminal, and secrets are on no command line."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from gateway.cli.main import app
from gateway.cli.output import col, facts, table
from gateway.telemetry.logs import configure

NAME = "orders\x1b[2J\x1b]0;owned\x07\r\n2026-11-22 [info] all is well\u202e"


@pytest.mark.parametrize("name", [NAME, "orders\x1b[2J", "orders\x1b[2J\n"])
def test_a_log_line_is_one_line_without_escapes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, root = io.StringIO(), logging.getLogger()
    before = root.handlers[:], root.level
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        configure("info", "console")
        structlog.get_logger("lockgate.test").info("gate closed", group=name)
        logging.getLogger("lockgate.test").warning("a peer's name: %s", name)
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        structlog.reset_defaults()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.isprintable()
        assert "x1b[2J" in line


def test_a_table_prints_no_escape(capsys: pytest.CaptureFixture[str]) -> None:
    table([col("Group"), col("Remark", note=True)], [[NAME, NAME]])
    facts([("Group", NAME)])
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.split("\n"))
    assert printed.count("\\x1b[2J") == 4


@pytest.mark.parametrize("name", ["sasl.password", "sasl.jaas.config", "ssl.key.password"])
def test_a_secret_is_not_taken_from_the_command_line(name: str, tmp_path: Path) -> None:
    created = CliRunner().invoke(app, ["link", "create", "l", "--bootstrap", "a:1", "--set", f"{name}=hunter-2"])
    assert created.exit_code == 2
    assert created.stderr == (
        f"error: --set {name}: others see a secret on a command line; give a reference to it, such as "
        "${env:NAME}, or put it into a file, --config-file FILE\n"
    )
