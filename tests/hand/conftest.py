"""The command line as somebody types it: in a pseudo-terminal, and in a pipe, against an API that is served for real.

Behind the API are fakes of both clusters, so that states and errors are what a test wants.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from gateway.cli.main import app
from tests.support.control.control_server import ControlServer
from tests.support.waiting import wait_until

MAIN: Final = "from gateway.cli.main import main; main()"
IN_FRONT: Final = (
    "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
)
"""Ctrl-C is for the terminal's session in front: this process makes itself that, before it begins. A shell has what it
runs in the background ignore Ctrl-C, and so would whatever the tests start there."""
WAIT_S: Final = 60.0
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")


@dataclass(frozen=True, slots=True)
class Ran:
    """What was seen, without colours and moves of the cursor, and the exit code."""

    shown: str
    code: int

    @property
    def lines(self) -> list[str]:
        """Of what was seen."""
        return self.shown.splitlines()


@dataclass(slots=True)
class Terminal:
    """A command in a pseudo-terminal of its own."""

    process: subprocess.Popen[bytes]
    side: int
    seen: bytes = field(default=b"")

    def until(self, words: str) -> None:
        """Read until it has shown these words."""
        deadline = time.monotonic() + WAIT_S
        while words not in self.text:
            assert time.monotonic() < deadline, self.text
            assert self._read(), f"it ended without {words!r}: {self.text}"

    def until_it_asks(self, words: str) -> None:
        """Read until it has shown these words and reads the keyboard. Python misses a Ctrl-C of the moment between the
        two (its `input` looks for signals, and then begins to wait); people take longer."""
        self.until(words)
        wait_until(self._reads_the_keyboard, WAIT_S, what="the command to read the keyboard")

    def _reads_the_keyboard(self) -> bool:
        """By the system call that Linux says it is in, which has the descriptor as the first argument."""
        return Path(f"/proc/{self.process.pid}/syscall").read_text(encoding="ascii").split()[1:2] == ["0x0"]

    def press_ctrl_c(self) -> None:
        """As the keyboard does."""
        os.write(self.side, b"\x03")

    def end(self) -> Ran:
        """Wait for the end."""
        while self._read():
            pass
        code = self.process.wait(WAIT_S)
        os.close(self.side)
        return Ran(self.text, code)

    @property
    def text(self) -> str:
        """What was shown by now."""
        return _ESCAPES.sub("", self.seen.decode().replace("\r\n", "\n"))

    def _read(self) -> bool:
        ready, _, _ = select.select([self.side], [], [], WAIT_S)
        assert ready, f"nothing more is shown: {self.text}"
        try:
            more = os.read(self.side, 65_536)
        except OSError:  # Linux: the other side is closed
            return False
        self.seen += more
        return bool(more)


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
        side, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-c", IN_FRONT + MAIN, *words],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        begun.append(Terminal(process, side))
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
