"""Ctrl-C ends a command at once, whatever it does; what changes sides asks, and in a pipe refuses."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from gateway.state.records import MirrorDirection, MirrorState
from tests.hand.conftest import Pipe, Type, run
from tests.support.control.control_plane import SOURCE
from tests.support.control.control_server import ControlServer
from tests.support.control.mirror_records import changed

AT_ONCE_S = 5.0


@pytest.fixture(scope="module", autouse=True)
def scene(server: ControlServer) -> None:
    for topic in ("orders", "payments"):
        server.plane.source.add(topic, 2, 100)
    run("link", "create", "west", "--bootstrap", SOURCE)
    run("mirror", "create", "payments")


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
    asked.until_it_asks("to go on: ")
    asked.press_ctrl_c()
    assert asked.end().code != 0
    assert run("migration", "list", "-o", "name") == ""


def state(server: ControlServer) -> str:
    """Of `payments`: state, and the direction of its mirror."""
    record = server.plane.store.mirrors["west", "payments"]
    return f"{record.state} {record.failback.direction}"


def set_to(server: ControlServer, wanted: MirrorState, direction: MirrorDirection = MirrorDirection.FORWARD) -> None:
    """As the gateway would have left `payments`, level."""

    async def turn() -> None:
        plane = server.plane
        ended = {"stopped_at": (100, 100)} if direction is MirrorDirection.REVERSE else {}
        record = plane.store.mirrors["west", "payments"]
        await plane.by_hand(changed(record, state=wanted, direction=direction, readable=True, **ended))

    server.do(turn)


DECISIVE = {
    ("mirror", "promote", "payments"): (MirrorState.ACTIVE, MirrorDirection.FORWARD),
    ("mirror", "promote", "payments", "--failback"): (MirrorState.ACTIVE, MirrorDirection.REVERSE),
    ("mirror", "undo", "payments"): (MirrorState.ACTIVE, MirrorDirection.REVERSE),
    ("mirror", "reverse", "payments"): (MirrorState.ACTIVE, MirrorDirection.FORWARD),
    ("mirror", "failover", "payments"): (MirrorState.ACTIVE, MirrorDirection.FORWARD),
}
"""What brings writes to the other cluster, and where a topic stands for it."""


@pytest.mark.parametrize("words", DECISIVE, ids=" ".join)
def test_ctrl_c_before_consent_changes_nothing(server: ControlServer, type_it: Type, words: tuple[str, ...]) -> None:
    set_to(server, *DECISIVE[words])
    before = state(server)
    asked = type_it(*words)
    asked.until_it_asks("to go on: ")
    assert "1 topic (payments)" in asked.text
    asked.press_ctrl_c()
    ended = asked.end()
    assert (ended.code != 0, "Traceback" in ended.shown) == (True, False)
    assert state(server) == before


@pytest.mark.parametrize("words", DECISIVE, ids=" ".join)
def test_in_a_pipe_it_is_refused(server: ControlServer, pipe: Pipe, words: tuple[str, ...]) -> None:
    set_to(server, *DECISIVE[words])
    before = state(server)
    refused = pipe(*words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--yes goes on without asking" in refused.stderr
    assert state(server) == before


@pytest.mark.parametrize(
    ("words", "direction"),
    [
        (("mirror", "promote", "payments"), MirrorDirection.FORWARD),
        (("mirror", "undo", "payments"), MirrorDirection.REVERSE),
    ],
)
def test_ctrl_c_while_it_runs_says_that_it_goes_on_and_how_to_call_it_off(
    server: ControlServer, type_it: Type, words: tuple[str, ...], direction: MirrorDirection
) -> None:
    set_to(server, MirrorState.ACTIVE, direction)

    async def hold() -> None:
        server.plane.promoters.gate = asyncio.Event()

    async def let_go() -> None:
        server.plane.promoters.gate.set()
        server.plane.promoters.gate = None

    server.do(hold)
    try:
        running = type_it(*words, "--yes")
        running.until("0 of 1")
        assert state(server) == f"PENDING_STOPPED {direction}"
        began = time.monotonic()
        running.press_ctrl_c()
        ended = running.end()
        assert time.monotonic() - began < AT_ONCE_S
        assert ended.code == 130
        assert "the promote of payments goes on in the gateway" in ended.shown
        assert "lockgate mirror promote payments --cancel --link west" in " ".join(ended.shown.split())
        assert state(server) == f"PENDING_STOPPED {direction}"
        run("mirror", "promote", "payments", "--cancel", "--link", "west")
        assert state(server) == f"ACTIVE {direction}"
    finally:
        server.do(let_go)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (("mirror", "promote", "payments", "--yes"), "already written on the target"),
        (("mirror", "failover", "payments", "--yes"), "is STOPPED already"),
    ],
)
def test_asked_again_it_changes_nothing_and_names_the_side(
    server: ControlServer, pipe: Pipe, first: tuple[str, ...], words: str
) -> None:
    set_to(server, MirrorState.ACTIVE)
    assert pipe(*first).returncode == 0
    before = state(server)
    again = pipe(*first)
    assert words in again.stdout + again.stderr
    assert state(server) == before == "STOPPED FORWARD"
