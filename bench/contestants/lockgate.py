"""The gateway as its operator sees it: a settings file, `lockgate serve`, the REST API, the metrics."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import yaml

from bench.errors import BenchError
from bench.process import Server
from bench.tls import Certificate
from bench.waiting import wait_until
from gateway.cli.connection import BearerFile
from gateway.devcluster import claim_ports, release_ports

HOST = "127.0.0.1"
_DELETED_S: Final = 120.0
"""For a link to be deleted: what is being made of it comes first, when a load gave up."""


class Lockgate:
    """One gateway process before the target. Its ports stay the same when it is started anew."""

    name = "gateway"

    def __init__(
        self,
        folder: Path,
        target_bootstrap: str,
        certificate: Certificate | None = None,
        *,
        workers: int = 1,
        tls_protocol: str = "SSL",
        sections: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """`certificate`: of a second listener, which speaks TLS: `tls_protocol`. `workers`: its processes. `sections`:
        more of the settings file."""
        self._workers = workers
        self._ports = claim_ports(6, consecutive=True)
        api, bootstrap, base, by_tls, base_by_tls = self._ports[:5]
        self.bootstrap = f"{HOST}:{bootstrap}"
        self.tls_bootstrap = f"{HOST}:{by_tls}"
        self.url = f"http://{HOST}:{api}"
        self._folder = folder
        self._server: Server | None = None
        self.token_file = folder / "api.token"
        self._api = httpx.Client(
            base_url=f"http://{HOST}:{api}", timeout=60.0, trust_env=False, auth=BearerFile(self.token_file)
        )
        settings: dict[str, Any] = {
            "target": {"bootstrap.servers": target_bootstrap},
            "listener": {"bootstrap_port": bootstrap, "base_port": base},
            "api": {"port": api, "token_file": str(self.token_file)},
            "workers": workers,
        }
        if certificate is not None:
            tls = {"certificate": str(certificate.certificate), "key": str(certificate.key)}
            ports = {"bootstrap_port": by_tls, "base_port": base_by_tls}
            settings["listeners"] = {"tls": {**ports, "protocol": tls_protocol, "tls": tls}}
        for name, values in (sections or {}).items():
            settings.setdefault(name, {}).update(values)
        self._settings = folder / "gateway.yaml"
        self._settings.write_text(yaml.safe_dump(settings), encoding="utf-8")

    @property
    def pid(self) -> int | None:
        """See `Contestant`."""
        return None if self._server is None else self._server.pid

    def worker_pids(self) -> list[int]:
        """Its processes that serve, while it runs."""
        if self.pid is None or self._workers == 1:
            return [] if self.pid is None else [self.pid]
        return sorted(child.pid for child in psutil.Process(self.pid).children())

    def start(self) -> None:
        """See `Contestant`."""
        program = str(Path(sys.executable).with_name("lockgate"))
        server = self._server = Server("gateway", [program, "serve", "--config", str(self._settings)], self._folder)

        def healthy() -> bool:
            server.check_alive()
            try:
                if self._workers > 1 and f"lockgate_workers {self._workers}.0" not in self._api.get("/metrics").text:
                    return False
                return self._api.get("/health").is_success
            except httpx.TransportError:
                return False

        wait_until(healthy, 40.0, "the gateway's /health")

    def stop(self) -> None:
        """See `Contestant`."""
        if self._server is not None:
            self._server.end()
            self._server = None

    def close(self) -> None:
        """Stop, and give the ports back."""
        self.stop()
        self._api.close()
        release_ports(self._ports)

    # -- what an operator does -------------------------------------------------------------------------------

    @contextmanager
    def link(self, name: str, source_bootstrap: str, **configs: str) -> Iterator[None]:
        """A link for the time of the block; `configs` are link options. Its mirrors end with it."""
        values = {"bootstrap.servers": source_bootstrap, **configs}
        entries = [{"name": key, "value": value} for key, value in values.items()]
        self._post("/v3/links", {"link_name": name, "configs": entries})
        try:
            yield
        finally:
            wait_until(lambda: self._deleted(name), _DELETED_S, f"link {name} to be deleted", poll_s=0.2)

    def _deleted(self, link: str) -> bool:
        """False while something of it changes, like the configs of topics that have just been promoted."""
        answer = self._api.delete(f"/v3/links/{link}", params={"force": True})
        return answer.status_code != httpx.codes.CONFLICT

    def mirror(self, link: str, topic: str, *, paused: bool = False) -> None:
        """Mirror a topic; `paused` stops the engine for it at once, so that writes are only forwarded.

        A target that is too slow to have its leaders in time leaves a create that goes on by itself (503).
        """
        answer = self._api.post(f"/v3/links/{link}/mirrors", json={"source_topic_name": topic})
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            self._checked(answer)
        if paused:
            self.pause(link, topic)

    def pause(self, link: str, topic: str) -> None:
        """Stop mirroring; writes go on to the source."""
        self._post(f"/v3/links/{link}/mirrors/{topic}:pause")

    def resume(self, link: str, topic: str) -> None:
        """Go on mirroring."""
        self._post(f"/v3/links/{link}/mirrors/{topic}:resume")

    def promote(self, link: str, topic: str) -> None:
        """Begin to promote."""
        self._post(f"/v3/links/{link}/mirrors/{topic}:promote")

    def promote_set(self, link: str, topics: Sequence[str]) -> None:
        """Begin to promote several topics under one pause."""
        self._post(f"/v3/links/{link}/mirrors:promote", {"mirror_topic_names": list(topics)})

    def ready(self, link: str) -> int:
        """How many mirror topics of a link are ACTIVE and readable."""
        return sum(each["mirror_status"] == "ACTIVE" and each["readable"] for each in self._mirrors(link))

    def stopped(self, link: str) -> int:
        """How many mirror topics of a link are promoted."""
        return sum(each["mirror_status"] == "STOPPED" for each in self._mirrors(link))

    def _mirrors(self, link: str) -> Iterator[dict[str, Any]]:
        """All mirror topics of a link, page by page."""
        url: str | None = f"/v3/links/{link}/mirrors"
        while url:
            page = self._get(url)
            yield from page["data"]
            url = page["metadata"]["next"]

    def status(self, link: str, topic: str) -> dict[str, Any]:
        """What `mirror describe` shows."""
        return self._get(f"/v3/links/{link}/mirrors/{topic}")

    def group(self, link: str, group: str) -> dict[str, Any] | None:
        """What `group describe` shows; None while the gateway does not know it."""
        answer = self._api.get(f"/v3/links/{link}/groups/{group}")
        if answer.status_code == 404:
            return None
        value: dict[str, Any] = self._checked(answer).json()
        return value

    def metrics(self) -> str:
        """The page of metrics."""
        return self._checked(self._api.get("/metrics")).text

    def pauses(self, link: str) -> tuple[int, float]:
        """How many promotes of a link ended in STOPPED (a set is one), and how many seconds they held writes in all."""
        text = self.metrics()
        labels = f'{{link="{link}",outcome="stopped"}} '
        found = dict.fromkeys(("count", "sum"), 0.0)
        for line in text.splitlines():
            for part in found:
                name = f"lockgate_write_pause_duration_seconds_{part}{labels}"
                if line.startswith(name):
                    found[part] = float(line.removeprefix(name))
        return int(found["count"]), found["sum"]

    def wait_for(self, link: str, topic: str, state: str, deadline_s: float = 30.0, *, poll_s: float = 0.05) -> float:
        """Wait for a state of a mirror topic; returns the seconds it took. Each look costs the gateway something.

        Raises:
            BenchError: it did not come, or a promote was given up.
        """
        began = time.monotonic()

        def reached() -> bool:
            now = self.status(link, topic)
            if now["promote_error"]:
                raise BenchError(f"the promote of {topic} was given up: {now['promote_error']}")
            return bool(now["mirror_status"] == state)

        wait_until(reached, deadline_s, f"{topic} to be {state}", poll_s=poll_s)
        return time.monotonic() - began

    def _get(self, path: str) -> dict[str, Any]:
        value: dict[str, Any] = self._checked(self._api.get(path)).json()
        return value

    def _post(self, path: str, body: dict[str, Any] | None = None) -> None:
        self._checked(self._api.post(path, json=body or {}))

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if not answer.is_success:
            raise BenchError(f"{answer.request.method} {answer.request.url.path}: {answer.text[:300]}")
        return answer
