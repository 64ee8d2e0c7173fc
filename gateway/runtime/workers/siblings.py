"""What the first worker answers for all of its gateway: metrics and checks, with those of the others in them.

They are asked over the channel of the fleet, in which they are members. One that does not answer in time is left out:
it is busy, or being started again, and connections go to the others meanwhile. `lockgate_workers` says how many have
answered. What it had counted when it was last heard counts on, also behind its end; and what the others have counted is
not new when the first one is started again: see `telemetry/counted_before.py`.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.membership import worker_name
from gateway.kafka.connection.errors import NetError
from gateway.runtime.workers.share import Worker
from gateway.telemetry.counted_before import CountedBefore, CountedSince, Told
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.sum_of_processes import summed

ASK: Final = "worker"
_ANSWER_S: Final = 1.0
_METRICS: Final = "metrics"
_CHECKS: Final = "checks"


class Siblings:
    """Args.

    gateway: its name, which is the first worker's, too.
    checks: of this process.
    process: names this process; one that is started again has another name.
    """

    def __init__(
        self,
        gateway: str,
        worker: Worker,
        peers: Peers,
        metrics: Metrics,
        checks: Callable[[], Mapping[str, str]],
        *,
        process: str,
    ) -> None:
        self._others = [worker_name(gateway, index) for index in range(worker.count) if index != worker.index]
        self._worker = worker
        self._peers = peers
        self._metrics = metrics
        self._checks = checks
        self._process = process
        self._before = CountedBefore()
        self._since = CountedSince()
        self._scrape = asyncio.Lock()  # two at a time could hear a process and its successor in the wrong order
        self._telling = asyncio.Lock()  # nor may an earlier text be told after a later one
        if self._others:
            peers.handlers[ASK] = self._answer

    async def text(self) -> tuple[bytes, str]:
        """The metrics of the gateway, and their content type."""
        own, content_type = await self._metrics.text()
        if not self._others:
            return own, content_type
        async with self._scrape:
            said = await self._ask(_METRICS)
            told = {name: Told(one["process"], await _inflated(one["text"])) for name, one in said.items()}
            before = await asyncio.to_thread(self._before.beside, own.decode(), told)
        up = "# HELP lockgate_workers Processes of this gateway that answer.\n# TYPE lockgate_workers gauge\n"
        texts = [
            own.decode(),
            *(one.text for one in told.values()),
            *before,
            f"{up}lockgate_workers {1.0 + len(told)}\n",
        ]
        return (await asyncio.to_thread(summed, texts)).encode(), content_type

    async def checks(self) -> Mapping[str, str]:
        """The checks of the gateway: one fails when it does at any of its processes."""
        found = dict(self._checks())
        for name, said in (await self._ask(_CHECKS)).items() if self._others else ():
            for check, why in said.items():
                if why and not found.get(str(check)):
                    found[str(check)] = f"{name}: {why}"
        return found

    async def _answer(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if body["what"] == _CHECKS:
            return {_CHECKS: dict(self._checks())}
        asker = str(body.get("process", ""))  # a first worker of an older version does not say it
        async with self._telling:
            text = (await self._metrics.text())[0].decode()
            said = await _deflated(await asyncio.to_thread(self._since.told, asker, text))
        return {_METRICS: {"process": self._process, "text": said}}

    async def _ask(self, what: str) -> dict[str, Any]:
        """What the others answer, by name."""
        body = {"what": what, "process": self._process}

        async def ask(name: str) -> Any:
            try:
                return (await self._peers.ask(name, ASK, body, _ANSWER_S))[what]
            except NetError:
                return None

        answers: Sequence[Any] = await asyncio.gather(*(ask(name) for name in self._others))
        return {name: said for name, said in zip(self._others, answers, strict=True) if said is not None}


def _deflated(text: str) -> Awaitable[str]:
    """Of thousands of partitions it has megabytes, mostly names; zlib works without the interpreter's lock."""
    return asyncio.to_thread(lambda: base64.b64encode(zlib.compress(text.encode(), 1)).decode())


def _inflated(said: str) -> Awaitable[str]:
    return asyncio.to_thread(lambda: zlib.decompress(base64.b64decode(said)).decode())
