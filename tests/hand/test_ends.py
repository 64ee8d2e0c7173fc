"""Ctrl-C ends a command at once, whatever it does; what changes sides asks, and in a pipe refuses."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.hand.conftest import Pipe, Type, run
from tests.support.control.control_plane import SOURCE
from tests.support.control.control_server import ControlServer

AT_ONCE_S = 5.0


@pytest.fixture(scope="module", autouse=True)
def scene(server: ControlServer) -> None:
    server.plane.source.add("orders", 2, 100)
    run("link", "create", "west", "--bootstrap", SOURCE)


def test_ctrl_c_ends_a_watch_without_an_error(type_it: Type) -> None:
    watched = type_it("link", "list", "--watch")
    watched.until("ACTIVE")
    watched.press_ctrl_c()
    assert watched.end().code == 0


def test_ctrl_c_while_a_gateway_does_not_answer(type_it: Type) -> None:
    """It says for how long it waits, and ends when somebody has had enough."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        waiting = type_it("link", "list", "--url", f"http://127.0.0.1:{silent.getsockname()[1]}")
        waiting.until("no answer yet")
        began = time.monotonic()
        waiting.press_ctrl_c()
        ended = waiting.end()
    assert time.monotonic() - began < AT_ONCE_S
    assert ended.code == 130
    assert "Traceback" not in ended.shown


def test_in_a_pipe_nothing_changes_sides_unasked(pipe: Pipe, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("{migration: m, link: west, applications: [{name: a, topics: [orders]}]}")
    refused = pipe("migration", "apply", str(file))
    assert refused.returncode == 2
    assert "--yes goes on without asking" in refused.stderr
    assert run("migration", "list", "-o", "name") == ""


def test_on_a_terminal_it_asks_and_ctrl_c_changes_nothing(type_it: Type, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("{migration: m, link: west, applications: [{name: a, topics: [orders]}]}")
    asked = type_it("migration", "apply", str(file))
    asked.until("to go on")
    asked.press_ctrl_c()
    assert asked.end().code != 0
    assert run("migration", "list", "-o", "name") == ""
