"""The proxies of a run, by what they connect, and the faults of networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.chaos.clusters import ChaosCluster
from tests.chaos.gateways import GatewayNode
from tests.chaos.plan import Nemesis
from tests.support.brokers.toxiproxy import Proxy, Stream, ToxiproxyServer

CLIENTS, PEERS = "clients", "peers"


class Network:
    """Every proxy: between a gateway and the brokers of a side, or between clients and a gateway."""

    def __init__(self, folder: Path, patch: str = "") -> None:
        self._patch = patch
        self._server = ToxiproxyServer(folder / "toxiproxy.log")
        self._proxies: dict[tuple[int, str], list[Proxy]] = {}

    def join(
        self, gateway: GatewayNode, source: ChaosCluster, target: ChaosCluster, others: Sequence[GatewayNode]
    ) -> None:
        """Put proxies around one gateway, those to its peers included.

        A link has one address of its source for all gateways: each is bent to its own proxies. The target's brokers
        tell each gateway other ports, since librdkafka, which cannot be bent, connects there, too.
        """
        number = gateway.number
        self._proxies[number, "target"] = [
            self._server.proxy(f"gateway-{number}-target-{broker}", f"127.0.0.1:{listen}", told)
            for broker, (listen, told) in target.views[number].items()
        ]
        places: dict[str, int] = {}
        proxies = self._proxies[number, "source"] = []
        for broker, (listen, told) in source.views[0].items():
            own = source.views[number][broker][1]
            proxies.append(self._server.proxy(f"gateway-{number}-source-{broker}", f"127.0.0.1:{listen}", own))
            places |= {f"localhost:{told}": own, f"127.0.0.1:{told}": own}
        peers = self._proxies[number, PEERS] = []
        for other in others:
            peer = f"{other.host}:{other.peer_port}"
            peers.append(self._server.proxy(f"gateway-{number}-peer-{other.number}", peer, host=other.host))
            places[peer] = peers[-1].port
        gateway.bend(places, self._patch)
        self._proxies[number, CLIENTS] = [
            self._server.proxy(f"clients-{number}-{port}", f"{gateway.host}:{port}", port, gateway.told)
            for port in gateway.listener_ports
        ]

    def around(self, gateway: int, *sides: str) -> list[Proxy]:
        """Of one gateway, or of all (-1); `both` stands for source and target."""
        wanted = {one for side in sides for one in (("source", "target") if side == "both" else (side,))}
        found = self._proxies.items()
        return [p for (number, side), ps in found for p in ps if side in wanted and gateway in (-1, number)]

    def mend(self) -> None:
        """Everything works again."""
        for proxy in self.around(-1, "both", CLIENTS, PEERS):
            proxy.mend()

    def close(self) -> None:
        """End the server."""
        self._server.stop()


def _cut(proxy: Proxy, _: Nemesis) -> None:
    proxy.cut()


def _latency(proxy: Proxy, nemesis: Nemesis) -> None:
    proxy.add("latency", stream(nemesis), latency=50, jitter=50)


def _bandwidth(proxy: Proxy, nemesis: Nemesis) -> None:
    proxy.add("bandwidth", stream(nemesis), rate=20)


def _reset(proxy: Proxy, nemesis: Nemesis) -> None:
    proxy.add("limit_data", stream(nemesis), bytes=10_001 + 997 * (nemesis.number % 40))


def _lost_answers(proxy: Proxy, _: Nemesis) -> None:
    proxy.add("timeout", "downstream", timeout=0)


def _slow_close(proxy: Proxy, nemesis: Nemesis) -> None:
    proxy.add("slow_close", stream(nemesis), delay=1500)
    proxy.add("limit_data", "downstream", bytes=200_001)


def stream(nemesis: Nemesis) -> Stream:
    """Which direction is hurt."""
    return "upstream" if nemesis.upstream else "downstream"


_FAULTS: Final[dict[str, tuple[Sequence[str], Callable[[Proxy, Nemesis], None]]]] = {
    "cut-source": (("source",), _cut),
    "cut-target": (("target",), _cut),
    "cut-both": (("both",), _cut),
    "cut-clients": ((CLIENTS,), _cut),
    "cut-peers": ((PEERS,), _cut),
    "latency": (("both", PEERS), _latency),
    "bandwidth": ((), _bandwidth),
    "reset-in-mid-frame": ((), _reset),
    "lost-answers": ((), _lost_answers),
    "slow-close": ((), _slow_close),
}
"""Where (nowhere said: on the side that was drawn), and how."""


def hurt(network: Network, nemesis: Nemesis) -> list[Proxy] | None:
    """Begin a fault; the proxies that it hurts, None when it is none of networks."""
    found = _FAULTS.get(nemesis.kind)
    if found is None:
        return None
    sides, fault = found
    proxies = network.around(nemesis.gateway, *(sides or (nemesis.side,)))
    for proxy in proxies:
        fault(proxy, nemesis)
    return proxies


def heal(nemesis: Nemesis, proxies: list[Proxy]) -> None:
    """End it. Where answers were swallowed, connections break before anything comes through again."""
    if nemesis.kind in ("lost-answers", "reset-in-mid-frame", "slow-close"):
        for proxy in proxies:
            proxy.cut()
    for proxy in proxies:
        proxy.mend()
