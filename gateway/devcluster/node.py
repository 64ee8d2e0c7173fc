"""One broker process: started detached, known by its pid file, stopped by its process id."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from gateway.devcluster.jars import class_path
from gateway.devcluster.java import java_binary, jvm_options
from gateway.devcluster.logconfig import log_options
from gateway.devcluster.probe import answers
from gateway.devcluster.spec import HOST, ClusterSpec, NodeSpec
from gateway.devcluster.status import NodeStatus

_POLL_S: Final = 0.05


class NodeProcess:
    """The process of one node, whoever started it.

    A process id alone may have been given to somebody else meanwhile; it counts only as long as the command line of
    that process names this node's server.properties.
    """

    def __init__(self, spec: ClusterSpec, node: NodeSpec, folder: Path) -> None:
        self.spec = spec
        self.node = node
        self.config = folder / "config" / f"node-{node.node_id}.properties"
        self.data = folder / "data" / f"node-{node.node_id}"
        self.log = folder / "logs" / f"node-{node.node_id}.log"
        self._config_folder = folder / "config"
        self._pid_file = folder / f"node-{node.node_id}.pid"
        self._child: subprocess.Popen[bytes] | None = None

    def command(self, main_class: str, *args: str) -> list[str]:
        """Java command of this node's version, with the broker's log settings."""
        options = [*jvm_options(self.spec.heap_mb), *log_options(self._config_folder)]
        return [java_binary(), *options, "-cp", class_path(self.spec.kafka_version), main_class, *args]

    def start(self) -> None:
        """Start the broker unless it runs. It goes on when this process ends, and its log file is appended to."""
        if self.pid() is not None:
            return
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C at the terminal must not hit the brokers.
            self._child = subprocess.Popen(
                self.command("kafka.Kafka", str(self.config)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._pid_file.write_text(f"{self._child.pid}\n", encoding="ascii")

    def pid(self) -> int | None:
        """Process id of the running broker, or None."""
        if self._child is not None:
            if self._child.poll() is None:
                return self._child.pid
            self._child = None
        try:
            pid = int(self._pid_file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        return pid if str(self.config) in _command_line(pid) else None

    def answers(self) -> bool:
        """Whether the broker answers its clients."""
        return answers(HOST, self.node.client_port)

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to the broker; False when it does not run."""
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

    def status(self) -> NodeStatus:
        """What `status` shows of this node."""
        pid = self.pid()
        return NodeStatus(
            node_id=self.node.node_id,
            pid=pid,
            up=pid is not None and self.answers(),
            client_port=self.node.client_port,
            internal_port=self.node.internal_port,
            controller_port=self.node.controller_port,
            proxied_port=self.node.proxied_port,
            advertised_port=self.node.advertised_port,
            log=str(self.log),
        )


def _command_line(pid: int) -> str:
    """Command line of a process; empty when there is none, or when it has ended and only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return ""
    shown = subprocess.run(["ps", "-p", str(pid), "-o", "args="], capture_output=True, text=True, check=False)
    return shown.stdout
