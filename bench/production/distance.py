"""Brokers that are far away: toxiproxy holds back what comes from them. (netem needs rights that few machines give.)"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import httpx

from bench.errors import BenchError
from bench.process import ROOT, Server
from bench.waiting import wait_until
from gateway.devcluster import claim_ports, release_ports

_BINARIES: Final = ROOT / "build" / "bin"


class Distance:
    """One toxiproxy server, with a listener before each of some brokers."""

    def __init__(self, folder: Path, listeners: int) -> None:
        """`listeners`: how many ports to claim; `ports` has them."""
        binary = next(iter(sorted(_BINARIES.glob("toxiproxy-server-*"))), None)
        if binary is None:
            raise BenchError("toxiproxy's server is not built: run `make toxiproxy`")
        (api,), self.ports = claim_ports(1), claim_ports(listeners)
        self._claimed = [api, *self.ports]
        self._server = Server("toxiproxy", [str(binary), "-host", "127.0.0.1", "-port", str(api)], folder)
        self._api = httpx.Client(base_url=f"http://127.0.0.1:{api}", timeout=10.0, trust_env=False)
        wait_until(self._answers, 10.0, "toxiproxy's API")

    def stand_before(self, ports: Sequence[int]) -> None:
        """Forward each listener to one of these ports of brokers."""
        for listen, port in zip(self.ports, ports, strict=True):
            body = {"name": str(listen), "listen": f"127.0.0.1:{listen}", "upstream": f"127.0.0.1:{port}"}
            self._api.post("/proxies", json={**body, "enabled": True}).raise_for_status()

    def set(self, round_trip_ms: int) -> None:
        """How long each answer is on its way; connections stay."""
        for listen in self.ports:
            toxics = f"/proxies/{listen}/toxics"
            if any(toxic["name"] == "far" for toxic in self._api.get(toxics).raise_for_status().json()):
                self._api.delete(f"{toxics}/far").raise_for_status()
            if round_trip_ms:
                toxic = {"name": "far", "type": "latency", "stream": "downstream"}
                self._api.post(toxics, json={**toxic, "attributes": {"latency": round_trip_ms}}).raise_for_status()

    def close(self) -> None:
        """End the server."""
        self._api.close()
        self._server.end()
        release_ports(self._claimed)

    def _answers(self) -> bool:
        try:
            return self._api.get("/version").is_success
        except httpx.TransportError:
            return False
