"""The command line as somebody types it: in a pseudo-terminal, and in a pipe, against an API that is served for real.

Behind the API are fakes of both clusters, so that states and errors are what a test wants.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from gateway.cli.main import app
from tests.support.control.control_server import ControlServer
from tests.support.terminal import WAIT_S, Terminal, typed

MAIN: Final = "from gateway.cli.main import main; main()"

Type = Callable[..., Terminal]
Pipe = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def server() -> Iterator[ControlServer]:
    """A live API; `lockgate` asks it without being told where it is."""
    with capture_logs(), pytest.MonkeyPatch.context() as patch:
        made = ControlServer()
        patch.setenv("LOCKGATE_URL", made.url)
        for name in ("COLUMNS", "LINES", "LOCKGATE_LINK", "NO_COLOR"):
            patch.delenv(name, raising=False)
        patch.setenv("TERM", "xterm-256color")
        yield made
        made.close()


@pytest.fixture
def type_it() -> Iterator[Type]:
    """Types a command into a terminal that is so many columns wide."""
    begun: list[Terminal] = []

    def work(*words: str, columns: int = 120) -> Terminal:
        begun.append(typed(MAIN, *words, columns=columns))
        return begun[-1]

    yield work
    for one in begun:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()


@pytest.fixture
def pipe() -> Pipe:
    """Runs a command whose output goes into a pipe, and that nobody can answer."""

    def work(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    return work


def run(*words: str) -> str:
    """What a command that goes well prints, without a process of its own."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, (words, done.output)
    return done.stdout
