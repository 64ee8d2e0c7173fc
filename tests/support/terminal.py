"""A command in a pseudo-terminal, as somebody sees it who has typed it; what it asks may be answered."""

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

from tests.support.gateways.forked import SERVER
from tests.support.waiting import wait_until

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


class ForkedCommand:
    """A process that was forked, with what `subprocess.Popen` has of it that a terminal uses."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, the negative number of the signal that ended it, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """For its end: the exit code.

        Raises:
            subprocess.TimeoutExpired: not within `timeout` seconds.
        """
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("lockgate", timeout or 0.0)
        return code


@dataclass(slots=True)
class Terminal:
    """A command in a pseudo-terminal of its own. `wait_s`: for how long it may show nothing."""

    process: subprocess.Popen[bytes] | ForkedCommand
    side: int
    wait_s: float = WAIT_S
    seen: bytes = field(default=b"")

    def until(self, words: str) -> None:
        """Read until it has shown these words."""
        deadline = time.monotonic() + self.wait_s
        while words not in self.text:
            assert time.monotonic() < deadline, self.text
            assert self.read(), f"it ended without {words!r}: {self.text}"

    def until_it_asks(self, words: str) -> None:
        """Read until it has shown these words and reads the keyboard. Python misses a Ctrl-C of the moment between the
        two (its `input` looks for signals, and then begins to wait); people take longer."""
        self.until(words)
        wait_until(self._reads_the_keyboard, self.wait_s, what="the command to read the keyboard")

    def _reads_the_keyboard(self) -> bool:
        """By the system call that Linux says it is in, which has the descriptor as the first argument."""
        return Path(f"/proc/{self.process.pid}/syscall").read_text(encoding="ascii").split()[1:2] == ["0x0"]

    def press_ctrl_c(self) -> None:
        """As the keyboard does."""
        os.write(self.side, b"\x03")

    def type_line(self, words: str) -> None:
        """As the keyboard does, with Enter."""
        os.write(self.side, words.encode() + b"\n")

    def end(self) -> Ran:
        """Wait for the end."""
        while self.read():
            pass
        code = self.process.wait(self.wait_s)
        os.close(self.side)
        return Ran(self.text, code)

    @property
    def text(self) -> str:
        """What was shown by now."""
        return _ESCAPES.sub("", self.seen.decode(errors="replace").replace("\r\n", "\n"))

    def read(self) -> bool:
        """Read what is shown next; False at the end."""
        ready, _, _ = select.select([self.side], [], [], self.wait_s)
        assert ready, f"nothing more is shown: {self.text}"
        try:
            more = os.read(self.side, 65_536)
        except OSError:  # Linux: the other side is closed
            return False
        self.seen += more
        return bool(more)


def typed(
    program: str,
    *words: str,
    columns: int = 120,
    wait_s: float = WAIT_S,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Terminal:
    """Begin a Python program with these arguments in a terminal that is so many columns wide.

    Args:
        folder: where it works. environment: its variables; None: those of this process.
    """
    side, other = _opened(columns)
    process = subprocess.Popen(
        [sys.executable, "-c", IN_FRONT + program, *words],
        stdin=other,
        stdout=other,
        stderr=other,
        cwd=folder,
        env=None if environment is None else dict(environment),
        start_new_session=True,
    )
    os.close(other)
    return Terminal(process, side, wait_s)


def forked(
    *words: str, columns: int = 120, wait_s: float = WAIT_S, folder: Path, environment: Mapping[str, str]
) -> Terminal:
    """Begin `lockgate` with these arguments, in a process that has its modules already (`gateways/forked.py`)."""
    side, other = _opened(columns)
    here, there = SERVER.Pipe(duplex=False)
    arguments = (os.ttyname(other), list(words), str(folder), dict(environment), there)
    process = SERVER.Process(target=_command, args=arguments, daemon=True)
    process.start()
    assert here.poll(wait_s), "the command does not begin"
    here.recv()
    for end in (here, there):
        end.close()
    os.close(other)
    return Terminal(ForkedCommand(process), side, wait_s)


def _opened(columns: int) -> tuple[int, int]:
    """Both sides of a pseudo-terminal of this width."""
    side, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    return side, other


def _command(terminal: str, words: list[str], folder: str, environment: dict[str, str], begun: Connection) -> None:
    """In the child: the terminal is that of a session of its own, and Ctrl-C means it."""
    os.setsid()
    file = os.open(terminal, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(file, number)
    os.close(file)
    begun.send(True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["lockgate", *words]
    from gateway.cli.main import main

    main()
