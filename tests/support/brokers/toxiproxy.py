"""A real toxiproxy server and a small client of its HTTP API.

`toxiproxy-python` lacks three things that are needed here: a timeout on each call (toxiproxy may take for ever to
remove a toxic from a connection that it has cut), a server of one's own per object (its address is the class's), and an
error when the server answers 500.
"""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

import httpx

from gateway.devcluster import claim_ports
from tests.support.waiting import wait_until

Stream = Literal["upstream", "downstream"]
"""`upstream`: from the client to the server. `downstream`: from the server to the client."""

_BINARIES: Final = Path(__file__).parents[3] / "build" / "bin"


class Proxy:
    """One proxied TCP port.

    Faults may overlap, from several threads: each toxic has a name of its own, and `mend` is one step to the others.
    """

    def __init__(self, api: httpx.Client, name: str, host: str, port: int) -> None:
        self._api = api
        self.name = name
        self.host = host
        self.port = port
        self._numbers = count()
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """`host:port` where clients connect."""
        return f"{self.host}:{self.port}"

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        with self._lock:
            self._api.post(f"/proxies/{self.name}", json={"enabled": False}).raise_for_status()

    def mend(self) -> None:
        """Accept connections again and remove every toxic."""
        with self._lock:
            self._mend()

    def _mend(self) -> None:
        found = self._api.get(f"/proxies/{self.name}").raise_for_status().json()
        if not found["enabled"]:  # toxiproxy may wait for ever to take a toxic from a connection that it has cut
            self._api.delete(f"/proxies/{self.name}").raise_for_status()
            anew = {key: found[key] for key in ("name", "listen", "upstream")}
            self._api.post("/proxies", json={**anew, "enabled": True}).raise_for_status()
            return
        for toxic in self._api.get(f"/proxies/{self.name}/toxics").raise_for_status().json():
            self._api.delete(f"/proxies/{self.name}/toxics/{toxic['name']}").raise_for_status()

    def remove(self) -> None:
        """Close all connections and listen no more; nothing else can be done with it."""
        self._api.delete(f"/proxies/{self.name}").raise_for_status()

    def add(self, toxic: str, stream: Stream = "downstream", **attributes: int) -> None:
        """Add a toxic, such as `latency` (latency=ms, jitter=ms), `bandwidth` (rate=KB/s), `timeout` (timeout=ms; 0:
        swallow everything), `reset_peer` (timeout=ms), `slicer`, `limit_data` (bytes=n)."""
        name = f"{toxic}_{stream}_{next(self._numbers)}"
        body: dict[str, Any] = {"name": name, "type": toxic, "stream": stream, "attributes": attributes}
        with self._lock:
            self._api.post(f"/proxies/{self.name}/toxics", json=body).raise_for_status()

    @contextmanager
    def being_cut(self) -> Iterator[None]:
        """`cut` for the time of the block."""
        self.cut()
        try:
            yield
        finally:
            self.mend()


class ToxiproxyServer:
    """The server process."""

    def __init__(self, log: Path) -> None:
        binary = next(iter(sorted(_BINARIES.glob("toxiproxy-server-*"))), None)
        assert binary is not None, "toxiproxy's server is not built: run `make toxiproxy`"
        (port,) = claim_ports(1)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(binary), "-host", "127.0.0.1", "-port", str(port)], stdout=output, stderr=subprocess.STDOUT
            )
        self._api = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=5.0, trust_env=False)
        wait_until(self._answers, 10.0, what="toxiproxy's API")

    def proxy(self, name: str, upstream: str, port: int | None = None, host: str = "127.0.0.1") -> Proxy:
        """Listen on a port of `host` (a free one by default) and forward to `upstream` (host:port)."""
        listen = port if port is not None else claim_ports(1)[0]
        body = {"name": name, "upstream": upstream, "listen": f"{host}:{listen}", "enabled": True}
        self._api.post("/proxies", json=body).raise_for_status()
        return Proxy(self._api, name, host, listen)

    def stop(self) -> None:
        """End the process."""
        self._api.close()
        self._process.terminate()
        self._process.wait(10)

    def _answers(self) -> bool:
        assert self._process.poll() is None, "toxiproxy's server ended"
        try:
            return self._api.get("/version").is_success
        except httpx.TransportError:
            return False
