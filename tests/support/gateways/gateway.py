"""A real gateway process, and the few REST calls that tests make again and again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from gateway.api.access.token_file import default_path
from gateway.cli.connection import BearerFile
from gateway.devcluster import claim_ports, release_ports
from tests.support.gateways.asking import answered, carried_out, is_unserved, was_overtaken
from tests.support.gateways.forked import ForkedGateway, started_gateway
from tests.support.waiting import wait_until

# Where gateways of tests make their token, and where commands look for it: not where those of this user are.
os.environ["XDG_STATE_HOME"] = str(Path(__file__).parents[3] / "build" / "state")


_PROGRAM = "from gateway.cli.main import main; main()"


class GatewayProcess:
    """`lockgate serve` in a process of its own, in front of one target. Its ports stay the same over restarts."""

    def __init__(
        self,
        folder: Path,
        target_bootstrap: str,
        *,
        host: str = "127.0.0.1",
        beside: GatewayProcess | None = None,
        role: str = "node",
        workers: int = 1,
        **sections: dict[str, Any],
    ) -> None:
        """`sections` are merged over the settings, such as `listener={"idle_timeout_s": 1}`.

        `beside`: another gateway of the same fleet, which has the same ports at another `host`.
        """
        self._claimed = claim_ports(8, consecutive=True) if beside is None else []
        self._ports: list[int] = self._claimed if beside is None else beside._ports
        api, bootstrap, base = self._ports[:3]
        self.bootstrap = f"{host}:{bootstrap}"
        self.program = _PROGRAM  # a test may patch the gateway first
        self.from_nothing = False  # start an interpreter, for a test that looks at its command line
        self.log = folder / f"gateway-{host}.log"
        self._settings = folder / f"gateway-{host}.yaml"
        self._process: subprocess.Popen[bytes] | ForkedGateway | None = None
        token = BearerFile(default_path(os.environ))
        self.api = httpx.Client(base_url=f"http://{host}:{api}", timeout=60.0, trust_env=False, auth=token)
        settings: dict[str, dict[str, Any]] = {
            "target": {"bootstrap.servers": target_bootstrap},
            "listener": {"host": host, "bootstrap_port": bootstrap, "base_port": base},
            "api": {"host": host, "port": api},
        }
        for name, values in sections.items():
            settings.setdefault(name, {}).update(values)
        self._settings.write_text(yaml.safe_dump({**settings, "role": role, "workers": workers}), encoding="utf-8")

    def start(self) -> None:
        """Start it and wait until it serves."""
        if self.from_nothing or self.program != _PROGRAM:
            self._process = started_gateway(self.program, self._settings, self.log)
        else:
            self._process = ForkedGateway(self._settings, self.log)
        wait_until(self._healthy, 120.0, what="the gateway's /health")

    def run_again(self) -> subprocess.CompletedProcess[str]:
        """Start a second process with the same settings, which cannot live long."""
        command = [sys.executable, "-c", self.program, "serve", "--config", str(self._settings)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def stop(self) -> int:
        """SIGTERM, and wait for the clean end; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(30)
        finally:
            self.kill()
            self._process = None

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def close(self) -> None:
        """Take down what is left of it, in order: no other test is to wait for the lease of one that was killed."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            with suppress(subprocess.TimeoutExpired):
                self.stop()
        self.kill()
        self.api.close()
        release_ports(set(self._claimed) - self._given_out())

    def _given_out(self) -> set[int]:
        """Ports that stand for a broker of the target from now on, also at the gateways that come after this one."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return {int(port) for port in re.findall(r"listening .*broker=\d+ .*port=(\d+)", text)}

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return None if self._process is None else self._process.pid

    def create_link(self, name: str, source_bootstrap: str, **configs: str) -> None:
        """Name a source. `configs` take `_` for `.`."""
        values = {"bootstrap.servers": source_bootstrap, **{key.replace("_", "."): v for key, v in configs.items()}}
        entries = [{"name": key, "value": value} for key, value in values.items()]
        self._post("/v3/links", {"link_name": name, "configs": entries}, lambda: self._is_there(f"/v3/links/{name}"))

    def create_mirror(self, link: str, topic: str) -> None:
        """Begin to mirror a topic."""
        path = f"/v3/links/{link}/mirrors"

        def is_created() -> bool:
            listed, _ = answered(lambda: self.api.get(path))
            return listed.is_success and topic in [one["source_topic_name"] for one in listed.json()["data"]]

        self._post(path, {"source_topic_name": topic}, is_created)

    def mirror(self, link: str, topic: str) -> dict[str, Any]:
        """What `mirror describe` shows."""
        answer = carried_out(lambda: self.api.get(f"/v3/links/{link}/mirrors/{topic}"))
        value: dict[str, Any] = answer.json()
        return value

    def promote(self, link: str, topic: str) -> None:
        """Begin to promote a topic."""

        def has_begun() -> bool:
            return str(self.mirror(link, topic)["mirror_status"]) != "ACTIVE"

        self._post(f"/v3/links/{link}/mirrors/{topic}:promote", {}, has_begun)

    def held(self, topic: str) -> int:
        """How many Produce requests write pauses of the topic have held since the process started."""
        line = f'lockgate_produce_held_total{{topic="{topic}"}} '
        found = [text for text in self.api.get("/metrics").text.splitlines() if text.startswith(line)]
        return int(float(found[0].removeprefix(line))) if found else 0

    def delete_link(self, name: str) -> None:
        """Forget a link and its mirrors, so that no later gateway on the same target takes them up.

        What one holds up whose source is gone, every later test would wait for: so a leader is waited for, and what
        changed while it was asked is asked again. A refusal is told, and no failure: the test may be about a gateway
        that refuses all.
        """
        answer, _ = answered(
            lambda: self.api.delete(f"/v3/links/{name}", params={"force": True}),
            again=lambda told: is_unserved(told) or was_overtaken(told),
        )
        if answer.is_error:
            print(f"link {name} was not deleted: {answer.status_code} {answer.text}")  # noqa: T201 - told with a failure

    def _post(self, path: str, body: dict[str, Any], is_done: Callable[[], bool]) -> None:
        carried_out(lambda: self.api.post(path, json=body), is_done)

    def _is_there(self, path: str) -> bool:
        answer, _ = answered(lambda: self.api.get(path))
        return answer.is_success

    def assert_runs(self) -> None:
        """It has not ended by itself; its exit code and its last words when it has."""
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"the gateway ended with {code}:\n{self.log.read_text(errors='replace')[-2000:]}"

    def _healthy(self) -> bool:
        self.assert_runs()
        try:
            return self.api.get("/health").is_success
        except httpx.TransportError:
            return False


@contextmanager
def running_gateway(folder: Path, target_bootstrap: str, link: str, **sections: Any) -> Iterator[GatewayProcess]:
    """A gateway that serves, and must end in order. The end of its log is printed, for a test that failed.

    `link`: the one that the test makes. It is deleted, so that no later gateway on the same target takes it up.
    """
    gateway = GatewayProcess(folder, target_bootstrap, **sections)
    try:
        gateway.start()
        yield gateway
        gateway.assert_runs()
        gateway.delete_link(link)
        assert gateway.stop() == 0
    finally:
        gateway.close()
        print(gateway.log.read_text(errors="replace")[-8000:])  # noqa: T201 - pytest shows it when the test failed
