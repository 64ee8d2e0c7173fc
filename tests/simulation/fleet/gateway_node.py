"""A gateway as a simulated process: `lockgate serve` from `Gateway` down, on a node of its own.

What is not simulated as it is, and what stands there instead:

* the process around it (`runtime/process.py`: signals, memory): `GatewayNode`;
* plain sockets and splicing (`transport/wire.py`): the loop's transports, the way that TLS connections go;
* uvicorn: requests go to the ASGI application directly (`rest.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from gateway.config.settings import Settings
from gateway.runtime.gateway import Gateway
from gateway.runtime.process import CLOSE_S
from gateway.transport.host import Host
from gateway.transport.name_lock import NameLock
from tests.simulation.fleet.rest import Answer, Asgi, ask
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.node import Node, State
from tests.support.control.shared_app import shared_app, shared_own_app

BOOTSTRAP_PORT: Final = 9292
_TERMINATE_S: Final = 30.0  # after which whoever has sent SIGTERM sends SIGKILL
_ASK_S: Final = 150.0


class _Ticking:
    """A machine's wall clock. Work takes no time here; so that two looks at it need not show the same, as nowhere, each
    second one of an instant shows a millisecond more."""

    def __init__(self, loop: SimLoop, node: Node) -> None:
        self._loop, self._node = loop, node
        self._at, self._looks = -1, 0

    def __call__(self) -> int:
        now = self._loop.wall_ms(self._node)
        self._looks = self._looks + 1 if now == self._at else 0
        self._at = now
        return now + min(self._looks, 1)


class NotServing(Exception):
    """The gateway could not start, does not run, or ended while it was asked."""


class Killed(NotServing):
    """Somebody killed it while it started."""


class GatewayNode:
    """One gateway's name and machine, over all its lives.

    Args:
        settings: sections of `Settings` to be merged over the defaults, as in the YAML file.

    Attributes:
        gateway: of the present life, or the last one; for judges.
        lives: how often it was started.
        ended: why it ended by itself; '' when it did not.
    """

    def __init__(
        self, loop: SimLoop, name: str, target: str, settings: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self.loop = loop
        self.name = name
        self.node = loop.node(name)
        self.settings = _settings(name, target, settings or {})
        self.gateway: Gateway
        self.api = Api(self)
        self.lives = 0
        self.ended = ""
        self.forwarding: Asgi | None = None
        self._task: asyncio.Task[None] | None = None
        self.asking: dict[asyncio.Future[Any], None] = {}

    def __repr__(self) -> str:
        return f"<GatewayNode {self.name} {self.node.state.value}{'' if self.serves else ', not serving'}>"

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"{self.name}:{self.settings.listener.bootstrap_port}"

    @property
    def runs(self) -> bool:
        """A process is there, stopped or not."""
        return self._task is not None and self.node.state is not State.DEAD

    @property
    def serves(self) -> bool:
        """It runs, and has come up."""
        return self.runs and self.forwarding is not None

    async def start(self) -> None:
        """Start the process, and wait until it serves. Raises NotServing with the reason."""
        if self.runs:
            raise NotServing(f"{self.name} runs already")
        if self.node.state is State.DEAD:
            self.node = self.loop.restart(self.node)
        self.node.takes_time = True
        self.lives += 1
        self.ended = ""
        up: asyncio.Future[None] = self.loop.create_future()
        self._task = self.loop.spawn(self.node, self._serve(self.node, up), f"serve {self.name}")
        self.asking[up] = None
        try:
            await up
        finally:
            self.asking.pop(up, None)

    async def stop(self) -> None:
        """SIGTERM, and wait for the end of the process; SIGKILL when it has not ended in 30 s."""
        task = self._task
        if task is None or not self.runs:
            return
        self.loop.call_soon(self._terminated, context=self.node.context)
        await asyncio.wait((task,), timeout=_TERMINATE_S)
        self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        self.forwarding = None
        self._task = None
        self.loop.kill(self.node)
        for asked in tuple(self.asking):
            if not asked.done():
                asked.set_exception(Killed(f"{self.name} was killed"))

    def pause(self) -> None:
        """SIGSTOP."""
        self.loop.pause(self.node)

    def wake(self) -> None:
        """SIGCONT."""
        self.loop.wake(self.node)

    def jump_clock(self, ms: int) -> None:
        """Its wall clock jumps; the other clocks go on."""
        self.node.wall_offset_ms += ms

    # -- the process ---------------------------------------------------------------------------------------------

    async def _serve(self, node: Node, up: asyncio.Future[None]) -> None:
        try:
            self.gateway = gateway = Gateway(self.settings, self._host(node))
            try:
                await gateway.start()
                if not up.done():
                    up.set_result(None)
                await gateway.stopped.wait()
            finally:
                self.forwarding = None
                async with asyncio.timeout(CLOSE_S):
                    await gateway.close()
            self.ended = gateway.failed
        except Exception as exc:  # noqa: BLE001 - whatever it was, it is why this process has ended
            self.ended = f"{type(exc).__name__}: {exc}"
            if not up.done():
                up.set_exception(NotServing(f"{self.name}: {exc}"))
        # The process is over: what it has left open is closed by its kernel. Later, since this task is not done yet.
        self.loop.call_soon(self._exited, node, context=self.loop.lab.context)

    def _terminated(self) -> None:
        self.gateway.stop()

    def _exited(self, node: Node) -> None:
        if node is self.node and node.state is not State.DEAD:
            self.kill()

    def _host(self, node: Node) -> Host:
        loop = self.loop
        rng = loop.random(f"{self.name} {self.lives}")
        return Host(
            monotonic=loop.time,
            boot=loop.time,
            wall_ms=_Ticking(loop, node),
            rng=rng,
            token_hex=lambda count: rng.randbytes(count).hex(),
            new_id=lambda: rng.randbytes(16).hex(),
            name_lock=lambda name: _Lock(self.name, name),
            plain_sockets=False,
            encrypts_peers=False,
            serve_api=lambda forwarding, _settings: _Served(self, forwarding),
            create_app=shared_app,
            create_own_app=shared_own_app,
        )


class _Lock(NameLock):
    """The kernel's of the node's machine: there is one process of a node at a time, so it always has it."""

    def __init__(self, machine: str, name: str) -> None:
        super().__init__(name)
        self._machine = machine

    def take(self) -> str:
        return f"boot of {self._machine}"

    def release(self) -> None:
        """Freed with the process."""


class _Served:
    """In place of `ApiServer`."""

    def __init__(self, owner: GatewayNode, forwarding: Asgi) -> None:
        self._owner = owner
        self._forwarding = forwarding

    def start(self) -> None:
        self._owner.forwarding = self._forwarding

    async def close(self) -> None:
        self._owner.forwarding = None


class Api:
    """REST of one gateway: `await api.post("/v3/links", {...})` -> (status, body). From any node."""

    def __init__(self, owner: GatewayNode) -> None:
        self._owner = owner

    async def get(self, path: str) -> Answer:
        """Raises NotServing, as the others."""
        return await self.request("GET", path)

    async def post(self, path: str, body: Any = None) -> Answer:
        """POST."""
        return await self.request("POST", path, body)

    async def put(self, path: str, body: Any = None) -> Answer:
        """PUT."""
        return await self.request("PUT", path, body)

    async def delete(self, path: str) -> Answer:
        """DELETE."""
        return await self.request("DELETE", path)

    async def request(self, method: str, path: str, body: Any = None, timeout_s: float = _ASK_S) -> Answer:
        """Raises NotServing when it does not serve, ends before the answer, or does not answer in time."""
        owner = self._owner
        forwarding, node, loop = owner.forwarding, owner.node, owner.loop
        if forwarding is None or not owner.runs:
            raise NotServing(f"{owner.name} does not serve")
        answer: asyncio.Future[Answer] = loop.create_future()
        owner.asking[answer] = None

        async def work() -> None:
            try:
                found = await ask(forwarding, method, path, body)
            except Exception as exc:  # noqa: BLE001 - told to whoever asked
                if not answer.done():
                    answer.set_exception(exc)
            else:
                if not answer.done():
                    answer.set_result(found)

        task = loop.spawn(node, work(), f"api {method} {path}")
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise NotServing(f"{owner.name} has not answered {method} {path} in {timeout_s:g} s") from None
        finally:
            owner.asking.pop(answer, None)
            del task


def _settings(name: str, target: str, changes: Mapping[str, Mapping[str, Any]]) -> Settings:
    sections: dict[str, dict[str, Any]] = {
        "target": {"bootstrap.servers": target},
        "listener": {"host": name, "bootstrap_port": BOOTSTRAP_PORT},
        "fleet": {"name": name, "peer_host": name},
    }
    for section, values in changes.items():
        sections[section] = {**sections.get(section, {}), **values}
    return Settings(**sections)  # type: ignore[arg-type]
