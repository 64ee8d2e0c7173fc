"""The gateway as its operator sees it: a config file, `lockgate serve`, and the `lockgate` command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from demo.errors import DemoError
from demo.process import Child, last_lines, tail
from demo.settings import COMMAND_S, ROOT
from gateway.cli.connection import BearerFile
from gateway.devcluster import claim_ports

HOST = "127.0.0.1"


class Lockgate:
    """One gateway process in front of the target."""

    def __init__(
        self,
        target_bootstrap: str,
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        **sections: Mapping[str, Any],
    ) -> None:
        """`sections` of the configuration are merged over what is said here. `env`: variables of its process."""
        self._env = dict(env or {})
        api, bootstrap, *_brokers = claim_ports(6, consecutive=True)
        self.bootstrap = f"{HOST}:{bootstrap}"
        self.url = f"http://{HOST}:{api}"
        self.token_file = folder / "api.token"
        self.auth = BearerFile(self.token_file)
        self._folder = folder
        self._child: Child | None = None
        self._config = folder / "gateway.yaml"
        config: dict[str, dict[str, Any]] = {
            "target": {"bootstrap.servers": target_bootstrap},
            "listener": {
                "host": HOST,
                "advertised_host": HOST,
                "bootstrap_port": bootstrap,
                "base_port": bootstrap + 1,
            },
            "api": {"host": HOST, "port": api, "token_file": str(self.token_file)},
            "log": {"level": "info", "format": "console"},
        }
        for name, values in sections.items():
            config.setdefault(name, {}).update(values)
        self._config.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    def start(self) -> None:
        """Start the process; `healthy` tells when it serves."""
        self._child = Child("gateway", [_command(), "serve", "--config", str(self._config)], self._folder, self._env)

    def healthy(self) -> bool:
        """True once it answers on /health."""
        try:
            return httpx.get(f"{self.url}/health", timeout=1.0).status_code == 200
        except httpx.HTTPError:
            return False

    def check(self) -> None:
        """Raise DemoError when it has ended by itself."""
        if self._child is not None:
            self._child.check_alive()

    def run(self, *arguments: str, timeout_s: float = COMMAND_S) -> str:
        """Run one `lockgate` command against it and return its output.

        Raises:
            DemoError: It failed or took longer than `timeout_s` seconds.
        """
        line = "lockgate " + " ".join(arguments)
        found = {"LOCKGATE_URL": self.url, "LOCKGATE_TOKEN_FILE": str(self.token_file)}
        env = {**os.environ, **found, "NO_COLOR": "1", "COLUMNS": "200"}
        try:
            done = subprocess.run(
                [_command(), *arguments],
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
                cwd=ROOT,
                env=env,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"waited {timeout_s:.0f} s for `{line}`") from error
        if done.returncode != 0:
            raise DemoError(f"`{line}` failed with exit code {done.returncode}", last_lines(done.stdout + done.stderr))
        return done.stdout

    def stop(self, timeout_s: float = 20.0) -> None:
        """SIGTERM and wait.

        Raises:
            DemoError: It had to be killed, or ended with an error.
        """
        child, self._child = self._child, None
        if child is None:
            return
        if not child.end(timeout_s):
            raise DemoError(f"the gateway did not stop within {timeout_s:.0f} s and was killed", child.tail())
        if child.exit_code != 0:
            raise DemoError(f"the gateway ended with exit code {child.exit_code}", child.tail())

    def tail(self) -> str:
        """The last lines of its log."""
        logs = [tail(self._folder / f"gateway.{stream}") for stream in ("out", "err")]
        return "\n".join(log for log in logs if log)


def _command() -> str:
    return str(Path(sys.executable).with_name("lockgate"))
