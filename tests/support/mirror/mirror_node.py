"""A process that mirrors its part of some topics as a node of a fleet does, without clients, group or state topic.

It is told assignments by JSON lines on stdin, `{"leader", "peers", "owners"}`, and `"leave"`; it says `{"port"}` first
and then what it mirrors, whenever that changes: `{"here": [[link, topic, partition]…]}`.

python -m tests.support.mirror.mirror_node NAME SOURCE TARGET TOPIC=PARTITIONS…
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

import structlog
import uvloop

from gateway.fleet.mirrors import FleetMirrors
from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.heartbeats import decode_partitions, encode_partitions
from gateway.mirror.rules.period import MirrorPartition
from gateway.state.codec import key_of
from gateway.state.records import MirrorRecord, PartitionStart
from gateway.state.views import StateViews
from tests.support.mirror.mirror_lab import LINK, Lab, mirror_lab
from tests.support.waiting import wait_until, wait_until_async

_SECRET = "of the tests"


class MirrorNode:
    """One such process. `here`: what it says that it mirrors."""

    def __init__(self, name: str, source: str, target: str, topics: Mapping[str, int]) -> None:
        self.name = name
        self.port = 0
        self.here: frozenset[MirrorPartition] = frozenset()
        module = "tests.support.mirror.mirror_node"
        named = [f"{topic}={partitions}" for topic, partitions in topics.items()]
        self._arguments = [sys.executable, "-m", module, name, source, target, *named]
        self._process: subprocess.Popen[str]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._arguments, stdin=pipe, stdout=pipe, text=True)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        wait_until(lambda: self.port, what=f"the port of {self.name}")
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._reading.join()

    def stop(self) -> None:
        """SIGSTOP; `go_on` ends it."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """Have it hand over and end, and wait for that."""
        self.say("leave")
        assert self._process.wait(30) == 0

    def say(self, what: object) -> None:
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            self.port = said.get("port", self.port)
            if "here" in said:
                self.here = decode_partitions(said["here"])


def assign(nodes: Mapping[str, MirrorNode], owners: Mapping[str, frozenset[MirrorPartition]], leader: str) -> None:
    """Tell every node."""
    said = {
        "leader": leader,
        "peers": {name: nodes[name].address for name in owners},
        "owners": {name: encode_partitions(held) for name, held in owners.items()},
    }
    for name in owners:
        nodes[name].say(said)


# -- the process itself ------------------------------------------------------------------------------------


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201


def _records(topics: Mapping[str, int]) -> list[MirrorRecord]:
    return [
        MirrorRecord(
            link=LINK,
            source_topic=topic,
            mirror_topic=topic,
            mirror_id=random.Random(topic).randrange(2**31),
            starts=(PartitionStart(0, 0),) * partitions,
            readable=True,
        )
        for topic, partitions in topics.items()
    ]


async def _obey(mirrors: FleetMirrors, peers: Peers) -> None:
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        said = json.loads(line)
        if said == "leave":
            await mirrors.leave()
            return
        owners = {name: decode_partitions(held) for name, held in said["owners"].items()}
        peers.expect(said["peers"])
        mirrors.assigned(FleetAssignment(leader=said["leader"], peers=said["peers"], owners=owners))


async def _tell(mirrors: FleetMirrors, lab: Lab) -> None:
    here: frozenset[MirrorPartition] | None = None

    def report() -> bool:
        nonlocal here
        if mirrors.here() != here:
            here = mirrors.here()
            _say(here=encode_partitions(here))
        return bool(lab.events.failures)

    await wait_until_async(report, deadline=600.0)
    sys.exit(f"failed: {lab.events.failures}")


async def _run(name: str, source: str, target: str, topics: Mapping[str, int]) -> None:
    async with mirror_lab(source, target) as lab:
        records = _records(topics)

        def heard(gateway: str, said: Mapping[str, Any]) -> None:
            mirrors.heard(gateway, said)

        peers = Peers(name, "1", lambda: _SECRET, heard)
        views = StateViews()
        views.apply([(key_of(record), record) for record in records], 0)
        mirrors = FleetMirrors(name=name, peers=peers, engine=lab.engine, progress=lab.progress, records=views)
        _say(port=await peers.listen("127.0.0.1", 0))
        for record in records:
            lab.engine.start_mirror(record)
        mirrors.start()
        telling = asyncio.create_task(_tell(mirrors, lab))
        try:
            await _obey(mirrors, peers)
        finally:
            telling.cancel()
            await mirrors.close()
            await peers.close()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    _topics = {topic: int(count) for topic, _, count in (each.rpartition("=") for each in sys.argv[4:])}
    uvloop.run(_run(sys.argv[1], sys.argv[2], sys.argv[3], _topics))
