"""Child processes: servers that stay for a while, and tools that run to their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.errors import BenchError

ROOT: Final = Path(__file__).resolve().parents[1]
_TAIL_LINES: Final = 15


class Server:
    """A process whose output goes to `folder`/`name`.log. It is ended by its process id, and only by that."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C reaches only the bench, which ends its children in order.
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def check_alive(self) -> None:
        """Raise BenchError when it has ended."""
        if self._process.poll() is not None:
            raise BenchError(f"{self.name} ended with exit code {self._process.returncode}:\n{self.tail()}")

    def pause(self) -> None:
        """SIGSTOP: it stays as it is and uses no CPU."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self, timeout_s: float = 15.0) -> None:
        """SIGTERM, and SIGKILL when that does not help within `timeout_s` seconds."""
        if self._process.poll() is None:
            self.resume()
            self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        """The last lines of its log."""
        return last_lines(self.log.read_text(encoding="utf-8", errors="replace"))


class Conversation:
    """A helper process that is told what to do on stdin, and answers line by line on stdout."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self._name = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def say(self, line: str) -> None:
        """Send one line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def hear(self) -> str:
        """Wait for the next line. Raises BenchError when the process ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failure()
        return line.rstrip("\n")

    def ask(self, line: str) -> str:
        """`say`, then `hear`."""
        self.say(line)
        return self.hear()

    def end(self, timeout_s: float = 20.0) -> None:
        """Close its stdin, which ends it; SIGKILL after `timeout_s` seconds."""
        try:
            self._process.communicate(timeout=timeout_s)
        except (subprocess.TimeoutExpired, ValueError):
            self._process.kill()
            self._process.wait()

    def _failure(self) -> BenchError:
        _, errors = self._process.communicate()
        return BenchError(f"{self._name} ended with exit code {self._process.returncode}:\n{last_lines(errors)}")


def run_tool(command: Sequence[str], timeout_s: float = 300.0) -> str:
    """Run a command to its end and return what it wrote to stdout.

    Raises:
        BenchError: it failed, or took longer than `timeout_s` seconds; its last lines are in the message.
    """
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=ROOT,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"waited {timeout_s:.0f} s for {command[0]}") from error
    if done.returncode != 0:
        shown = last_lines(done.stdout + done.stderr)
        raise BenchError(f"{Path(command[0]).name} failed with exit code {done.returncode}:\n{shown}")
    return done.stdout


def last_lines(text: str) -> str:
    """The last lines of a text, each cut at a bearable length."""
    return "\n".join(line[:300] for line in text.strip().splitlines()[-_TAIL_LINES:])
