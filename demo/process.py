"""One child process: started with its output in files, read as it writes, stopped by its process id."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from demo.errors import DemoError
from demo.settings import ROOT

TAIL_LINES = 25


class Child:
    """A process whose stdout and stderr go to `folder`/`name`.out and .err."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, env: dict[str, str] | None = None) -> None:
        self.name = name
        self.out = folder / f"{name}.out"
        self.err = folder / f"{name}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            # A session of its own: Ctrl-C at the terminal reaches only the demo, which stops its children in order.
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "", **(env or {})},
                start_new_session=True,
            )
        self._reader = self.out.open("r", encoding="utf-8")
        self._partial = ""

    @property
    def pid(self) -> int:
        """Its process id, which is that of its process group too."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def new_lines(self) -> list[str]:
        """The whole lines that were written to stdout since the last call."""
        text = self._partial + self._reader.read()
        lines = text.split("\n")
        self._partial = lines.pop()
        return lines

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def end(self, timeout_s: float) -> bool:
        """SIGTERM, then SIGKILL after `timeout_s` seconds; False when it had to be killed."""
        self.ask_to_stop()
        try:
            self._process.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        finally:
            self._reader.close()

    def tail(self) -> str:
        """The last lines of stderr, or of stdout when there are none."""
        return tail(self.err) or tail(self.out)

    def check_alive(self) -> None:
        """Raise DemoError when the process has ended."""
        if self.exit_code is not None:
            raise DemoError(f"{self.name} ended by itself with exit code {self.exit_code}", self.tail())


def tail(path: Path) -> str:
    """The last lines of a log file; empty when there is none."""
    if not path.exists():
        return ""
    return last_lines(path.read_text(encoding="utf-8", errors="replace"))


def last_lines(text: str) -> str:
    """The last lines of a text, each cut at a bearable length."""
    return "\n".join(line[:500] for line in text.strip().splitlines()[-TAIL_LINES:])
