"""Gateways as processes of their own, each behind proxies of its own, and their REST API asked as an operator would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from signal import SIGKILL, SIGTERM, SIGUSR1, Signals
from typing import Any, Final

import httpx
import yaml

from gateway.cli.connection import BearerFile
from tests.chaos.seeds import Seeds
from tests.support.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
UP_S: Final = 120.0
LEASE_S: Final = 8.0
"""Of a gateway of several: shorter than some pauses, so that leases do end."""


class GatewayNode:
    """One gateway. It listens on `host`, and tells clients `told`, where a toxiproxy listens on the same ports.

    `straight`: it tells them where it listens itself.
    """

    def __init__(
        self,
        number: int,
        folder: Path,
        ports: list[int],
        target: str,
        seeds: Seeds,
        *,
        alone: bool,
        straight: bool = False,
    ) -> None:
        self.number = number
        self.host = f"127.0.0.{number + 1}"
        self.told = self.host if straight else f"127.0.1.{number + 1}"
        api, self.peer_port, self.bootstrap_port, base = ports[:4]
        self.listener_ports = ports[2:]
        self.bootstrap = f"{self.told}:{self.bootstrap_port}"
        self.log = folder / f"gateway-{number}.log"
        self.names = folder / f"names-{number}.lost"
        self._clock = folder / f"clock-{number}"
        self.started = 0
        self._environment = {**os.environ, **seeds.environment}
        self._config = folder / f"gateway-{number}.yaml"
        self._process: subprocess.Popen[bytes] | None = None
        self._served = False
        self._lock = threading.Lock()
        self.url = f"http://{self.host}:{api}"
        token_file = folder / f"gateway-{number}.token"
        self.auth = BearerFile(token_file)
        listener = {"host": self.host, "advertised_host": self.told, "bootstrap_port": self.bootstrap_port}
        settings = {
            "target": {"bootstrap.servers": target},
            "listener": {**listener, "base_port": base},
            "links": {"key_file": str(seeds.key_file)},
            "api": {"host": self.host, "port": api, "token_file": str(token_file)},
            **({} if alone else {"fleet": {"lease_s": LEASE_S, "peer_port": self.peer_port}}),
        }
        self._config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        self._shim = folder / f"shim-{number}.json"

    def bend(self, places: dict[str, int], patch: str) -> None:
        """What is different in its process; see `serve.py`."""
        shim = {"places": places, "lost": str(self.names), "clock": str(self._clock), "patch": patch}
        self._shim.write_text(json.dumps(shim), encoding="utf-8")

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start the process unless it runs."""
        with self._lock:
            if self.pid is not None:
                return
            self.names.unlink(missing_ok=True)
            command = [sys.executable, "-m", "tests.chaos.serve", str(self._shim), "--config", str(self._config)]
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=ROOT,
                    env=self._environment,
                )
            self.started += 1
            self._served = False

    def wait_up(self) -> None:
        """Until it serves; a process that could not start is started again."""
        wait_until(self._serves, UP_S, what=f"gateway {self.number} to serve")

    def _serves(self) -> bool:
        self.start()
        self._served = self.healthy()
        return self._served

    def healthy(self) -> bool:
        """Whether it answers."""
        try:
            return httpx.get(f"{self.url}/health", timeout=1.0, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """SIGKILL."""
        self._end(SIGKILL, 10.0)

    def stop(self) -> int | None:
        """SIGTERM, and wait for the end; the exit code, None if it had to be killed.

        Another lane of faults may have ended it a moment ago: 0. Or it has begun a process that does not serve yet,
        and to which Python's start has given no handler of signals: 0, too.
        """
        return self._end(SIGTERM, 30.0)

    def signal(self, number: Signals) -> None:
        """Send a signal, if it runs."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, number)

    def set_clock(self, wrong_by_s: float) -> None:
        """Make its time of day wrong by so much, 0: right again. A process that starts has the right one."""
        self._clock.write_text(str(wrong_by_s), encoding="utf-8")
        self.signal(SIGUSR1)

    def _end(self, number: Signals, timeout_s: float) -> int | None:
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return 0
            process.send_signal(number)
            try:
                code = process.wait(timeout_s)
                return 0 if code == -SIGTERM and number == SIGTERM and not self._served else code
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
                return None


class Operator:
    """Asks whichever gateway answers. Everything has a deadline; refusals are told, not raised."""

    def __init__(self, gateways: list[GatewayNode]) -> None:
        self._gateways = gateways
        self._api = httpx.Client(timeout=45.0, trust_env=False)
        self._next = 0

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """HTTP status and answer of the next gateway; 0 and the reason when it did not answer."""
        gateway = self._gateways[self._next % len(self._gateways)]
        try:
            answer = self._api.request(method, gateway.url + path, json=body, auth=gateway.auth)
        except httpx.HTTPError as error:
            self._next += 1
            return 0, f"gateway {gateway.number}: {error!r}"
        try:
            return answer.status_code, answer.json()
        except ValueError:
            return answer.status_code, answer.text

    def insist(self, method: str, path: str, body: Any = None, *, deadline_s: float = 60.0) -> Any:
        """Ask until it is granted, or found done already (409 of a create).

        Raises:
            AssertionError: refused or not answered until the deadline.
        """
        end, said = time.monotonic() + deadline_s, (0, "")
        while time.monotonic() < end:
            said = self.ask(method, path, body)
            if 200 <= said[0] < 300:
                return said[1]
            threading.Event().wait(0.25)
        raise AssertionError(f"{method} {path} was not granted within {deadline_s:g} s: {said}")

    def close(self) -> None:
        """No more questions."""
        self._api.close()
