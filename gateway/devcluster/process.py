"""One server process: started detached, known by its pid file, stopped by its process id."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.05


class ServerProcess:
    """A server, whoever started it.

    A process id alone may have been given to somebody else meanwhile; it counts only as long as the command line of
    that process names this server's configuration file.

    Args:
        folder: of its cluster. name: of the process, such as `node-1`.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.config = folder / "config" / f"{name}.properties"
        self.data = folder / "data" / name
        self.log = folder / "logs" / f"{name}.log"
        self._pid_file = folder / f"{name}.pid"
        self._child: subprocess.Popen[bytes] | None = None

    def start_command(self, command: Sequence[str]) -> None:
        """Start it unless it runs. It goes on when this process ends, and its log file is appended to."""
        if self.pid() is not None:
            return
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C at the terminal must not hit the servers.
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._pid_file.write_text(f"{self._child.pid}\n", encoding="ascii")

    def pid(self) -> int | None:
        """Process id of the running server, or None."""
        if self._child is not None:
            if self._child.poll() is None:
                return self._child.pid
            self._child = None
        try:
            pid = int(self._pid_file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        return pid if str(self.config) in _command_line(pid) else None

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to the server; False when it does not run."""
        pid = self.pid()
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait_stopped(self, timeout_s: float) -> bool:
        """Wait until the process is gone; False when it still runs after `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        while self.pid() is not None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        self._pid_file.unlink(missing_ok=True)
        return True

    def last_error(self) -> str:
        """The last line of the log that tells of an error, or the last line."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-400:]
        except FileNotFoundError:
            return "no log"
        errors = [line for line in lines if "ERROR" in line or "Exception" in line]
        return (errors or lines or ["empty log"])[-1].strip()


def _command_line(pid: int) -> str:
    """Command line of a process; empty when there is none, or when it has ended and only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return ""
    shown = subprocess.run(["ps", "-p", str(pid), "-o", "args="], capture_output=True, text=True, check=False)
    return shown.stdout
