"""Every segment of a run as one number: the same seed must give the same one, in any process.

`python -m tests.simulation.trace SEED [FILE]` runs a short scene and prints the number; with a file, it also writes
each segment as a line, so that the first difference of two runs can be found with `cmp`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from tests.simulation.clients.producer import Producer
from tests.simulation.fleet import logs
from tests.simulation.fleet.gateway_node import GatewayNode
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.network import Segment
from tests.simulation.recorder import Recorder


class Trace:
    """A hook of `Network.on_segment`. `told`: gets each segment as a line."""

    def __init__(self, loop: SimLoop, told: Callable[[str], object] | None = None) -> None:
        self._loop = loop
        self._told = told
        self._hash = blake2b(digest_size=8)
        self.segments = 0

    def __call__(self, segment: Segment) -> None:
        """Take it in."""
        self.segments += 1
        data = blake2b(segment.data, digest_size=8).hexdigest()
        line = f"{self._loop.now!r} {segment.src}>{segment.dst}:{segment.dst_port} {len(segment.data)} {data}"
        self._hash.update(line.encode())
        if self._told is not None:
            self._told(line)

    @property
    def number(self) -> str:
        """Of all so far."""
        return f"{self.segments}:{self._hash.hexdigest()}"


def trace(seed: int, told: Callable[[str], object] | None = None) -> str:
    """The number of a short scene: three gateways, a mirror with a writer, the leader killed, a promote."""
    with logs.told_to(None), SimLoop(seed) as loop:
        taken = Trace(loop, told)
        loop.network.on_segment.append(taken)
        loop.run_until_complete(_scene(loop))
        return taken.number


async def _scene(loop: SimLoop) -> None:
    source = ClusterModel(loop, name="source", rng=loop.random("source"))
    target = ClusterModel(loop, name="target", rng=loop.random("target"))
    await source.start()
    await target.start()
    source.create_topic("orders", 3, 3)
    fleet = [GatewayNode(loop, f"gw-{index}", target.bootstrap) for index in range(3)]
    await asyncio.gather(*(each.start() for each in fleet))
    api = fleet[2].api
    link = {"link_name": "l", "configs": [{"name": "bootstrap.servers", "value": source.bootstrap}]}
    assert (await api.post("/v3/links", link)).status == 201
    assert (await api.post("/v3/links/l/mirrors", {"source_topic_name": "orders"})).status == 201
    writer = Producer(loop, "client-1", fleet[1].bootstrap, {"orders": 3}, Recorder(loop.time), rate_per_s=50.0)
    writer.start()
    await asyncio.sleep(3)
    leader = (await api.get("/v3/status")).body["leader"]
    killed = next(each for each in fleet if each.name == leader)
    killed.kill()
    await asyncio.sleep(8)
    await killed.start()
    assert (await killed.api.post("/v3/links/l/mirrors/orders:promote")).status == 202
    await asyncio.sleep(5)
    assert (await killed.api.get("/v3/links/l/mirrors/orders")).body["mirror_status"] == "STOPPED"
    await writer.stop()
    assert writer.progress > 100, "the scene is about a writer that gets on"
    for each in fleet:
        await each.stop()


def main() -> None:
    """See the module."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", "tests.simulation.trace", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    lines: list[str] = []
    number = trace(int(sys.argv[1]), lines.append if len(sys.argv) > 2 else None)
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(number)  # noqa: T201


if __name__ == "__main__":
    main()
