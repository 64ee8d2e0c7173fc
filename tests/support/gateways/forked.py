"""Gateways of tests as children of one process that has the gateway's modules already.

To import them takes more than a second of CPU, three quarters of what a start costs, and tests start more than a
hundred gateways. So they are forked off a server of `multiprocessing` that has imported them, and go on as the command
does: `main()` with the arguments of `lockgate serve`. A gateway forks its own workers in the same way. Where a test
looks at how the process came about (its command line), or changes the gateway's code before it is imported, it starts
one from nothing: `started_gateway`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

SERVER: Final = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["gateway.cli.main", "gateway.config.file", "gateway.runtime", __name__])


class ForkedGateway:
    """`lockgate serve --config settings`, with what `subprocess.Popen` has of it that tests use. `log`: appended to."""

    def __init__(self, settings: Path, log: Path) -> None:
        # A daemon: a test session that ends without closing it takes it down.
        started = (str(settings), str(log), dict(os.environ), str(Path.cwd()))
        self._process = SERVER.Process(target=_serve, args=started, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, the negative number of the signal that ended it, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """For its end, at most `timeout` seconds: the exit code. Raises `subprocess.TimeoutExpired`."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("lockgate serve", timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def started_gateway(program: str, settings: Path, log: Path) -> subprocess.Popen[bytes]:
    """A gateway from nothing: the interpreter with `program` in place of the command."""
    command = [sys.executable, "-c", program, "serve", "--config", str(settings)]
    with log.open("ab") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)


def _serve(settings: str, log: str, environ: dict[str, str], folder: str) -> None:
    """In the child, which ends with the command's exit code."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["lockgate", "serve", "--config", settings]
    from gateway.cli.main import main

    main()
