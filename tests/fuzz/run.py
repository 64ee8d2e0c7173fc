"""One conversation on a copy of the stage: the process forks, and the child has it and tells what was found.

A fork begins at the very instant to which the stage was set up, with its memory as it was then. So conversations do not
know of one another, and each is the same again. What runs in circles is ended by its CPU time, which is a crash, too.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.fuzz.callers import Caller, Connection, asked, connected, greeting
from tests.fuzz.generate import GREETS
from tests.fuzz.judge import TIMED, Finding, Judge
from tests.fuzz.spies import spying
from tests.fuzz.stage import STAGES, Stage
from tests.fuzz.steps import Conversation, Do, Step
from tests.simulation.fleet import logs

_CPU_S: Final = 60
_LOOKS: Final = 3
_MOMENT_S: Final = 0.02
_SOON_S: Final = 1.0
_END_S: Final = 70.0
"""Longer than anything that is done for a client goes on without it."""
Tell = Callable[[str], None]


@dataclass
class Result:
    """Of a conversation."""

    seed: int
    frames: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def kinds(self) -> frozenset[str]:
        """What was found."""
        return frozenset(finding.kind for finding in self.findings)


class Theatre:
    """The stages, each set up when it is first asked for."""

    def __init__(self) -> None:
        self._stages: dict[str, Stage] = {}
        self._exits = ExitStack()

    @contextmanager
    def opened(self) -> Iterator[Theatre]:
        """For the time of the block; a process has one of them at a time."""
        with self._exits:
            self._exits.enter_context(spying())
            yield self

    def stage(self, name: str) -> Stage:
        """Set up."""
        if name not in self._stages:
            stage = Stage(STAGES[name])
            with logs.told_to(stage.logged, logging.WARNING):
                stage.loop.run_until_complete(stage.set_up())
            self._stages[name] = stage
            self._exits.callback(stage.loop.close)
            gc.collect()
            gc.freeze()
        return self._stages[name]

    def had(self, conversation: Conversation, tell: Tell | None = None) -> Result:
        """Have a conversation.

        Where something seems to be slow it is had again, and the gateway alone is timed: that is slow which is so each
        time. Else the brokers were it, or the machine.
        """
        result = self._once(conversation, tell)
        slow = [each for each in result.findings if each.kind in TIMED]
        result.findings = [each for each in result.findings if each not in slow]
        for _ in range(_LOOKS):
            if not slow:
                break
            again = {(each.kind, each.step): each for each in self._once(conversation, timing=True).findings}
            slow = [again[each.kind, each.step] for each in slow if (each.kind, each.step) in again]
        result.findings += slow
        return result

    def _once(self, conversation: Conversation, tell: Tell | None = None, *, timing: bool = False) -> Result:
        stage = self.stage(conversation.stage)
        sys.stdout.flush()
        here, there = os.pipe()
        child = os.fork()
        if not child:
            os.close(here)
            stage.loop.timing = timing
            _have(stage, conversation, there, tell)
        os.close(there)
        with os.fdopen(here, encoding="utf-8") as told:
            text = told.read()
        _, status = os.waitpid(child, 0)
        if text:
            found = json.loads(text)
            return Result(conversation.seed, found["frames"], [Finding(**each) for each in found["findings"]])
        why = "it runs in circles" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else "it died"
        return Result(conversation.seed, 0, [Finding("crashes", len(conversation.steps), f"{why}: status {status}")])


def _have(stage: Stage, conversation: Conversation, told: int, tell: Tell | None) -> None:
    """In the child; does not return."""
    code = 1
    try:
        gc.disable()  # so that no frame pays for it
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + _CPU_S, most))
        having = _Having(stage, conversation, tell)
        with logs.told_to(stage.logged, logging.WARNING):
            stage.loop.run_until_complete(having.all())
        answer = {"frames": having.frames, "findings": [asdict(each) for each in having.judge.findings]}
        with os.fdopen(told, "w", encoding="utf-8") as out:
            json.dump(answer, out)
        code = 0
    except BaseException:  # noqa: BLE001 - told by the exit code; nothing of the parent may run on in here
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


class _Having:
    def __init__(self, stage: Stage, conversation: Conversation, tell: Tell | None) -> None:
        self._stage = stage
        self._steps = conversation.steps
        self._tell = tell or (lambda _line: None)
        self.judge = Judge(stage)
        self.frames = 0
        self._callers: list[Caller] = []
        self._connections: dict[int, Connection] = {}
        self._did: Mapping[Do, Callable[[Step], Any]] = {
            Do.OPEN: self._open,
            Do.SEND: self._send,
            Do.WAIT: self._wait,
            Do.MUTE: self._with_transport("pause_reading"),
            Do.UNMUTE: self._with_transport("resume_reading"),
            Do.EOF: self._with_transport("write_eof"),
            Do.CLOSE: self._with_transport("close"),
            Do.RESET: self._with_transport("abort"),
            Do.REST: self._rest,
            Do.TROUBLE: self._trouble,
        }

    async def all(self) -> None:
        """Step by step, then the end."""
        judge, began = self.judge, self._stage.loop.time()
        judge.begin()
        for at, step in enumerate(self._steps):
            received = {caller: caller.received for caller in self._callers}
            self._line(f"{self._stage.loop.time() - began:9.3f} {at:3d} {_shown(step)}")
            judge.before(step)
            await self._did[step.do](step)
            await asyncio.sleep(_MOMENT_S)
            self.frames += step.frames
            judge.after(at, step, self._callers)
            for caller in self._callers:
                if came := caller.received - received.get(caller, 0):
                    self._line(f"{'':13} {caller} gets {came} bytes")
            self._line_of_findings(at)
        for connection in self._connections.values():
            connection.transport.abort()
        self._stage.loop.network.heal()
        self._stage.loop.network.fast()
        until = self._stage.loop.time() + _END_S
        await asyncio.sleep(_SOON_S)
        while not judge.is_over() and self._stage.loop.time() < until:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(_SOON_S)
        judge.end(len(self._steps), self._callers)
        self._line_of_findings(len(self._steps))

    def _line(self, text: str) -> None:
        self._tell(text)

    def _line_of_findings(self, at: int) -> None:
        for finding in self.judge.findings:
            if finding.step == at:
                self._line(f"{'':13} FOUND {finding.kind}: {finding.what}")

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _open(self, step: Step) -> None:
        caller = Caller(f"client-{step.conn}")
        self._callers.append(caller)
        connection = await connected(self._stage, caller, step.place)
        if connection is not None:
            self._connections[step.conn] = connection

    async def _send(self, step: Step) -> None:
        connection = self._connections.get(step.conn)
        if connection is None:
            return
        if step.note == GREETS:
            if connection.first:
                connection.send(greeting(self._stage, connection, step.data))
            return
        for piece in step.pieces():
            connection.send(piece)
            if step.cuts:
                await asyncio.sleep(step.seconds)

    async def _wait(self, step: Step) -> None:
        await asyncio.sleep(step.seconds)

    def _with_transport(self, name: str) -> Callable[[Step], Any]:
        async def call(step: Step) -> None:
            connection = self._connections.get(step.conn)
            if connection is not None:
                getattr(connection.transport, name)()

        return call

    async def _rest(self, step: Step) -> None:
        caller = Caller(f"rest-{len(self._callers)}")
        self._callers.append(caller)
        try:
            status = await asked(self._stage, caller, step.place, step.headers, step.data, 3)
        except Exception as exc:  # noqa: BLE001 - uvicorn would log it, and answer 500
            self.judge.findings.append(Finding("crashes", self._steps.index(step), f"REST: {exc!r}"))
            return
        if not caller.accepted and 200 <= status < 300 and not step.place.endswith(("/health", "/ready")):
            caller.touched.append(f"{step.place}: {status}")
        self._line(f"{'':13} {caller} gets {status}")

    async def _trouble(self, step: Step) -> None:
        network, gateway = self._stage.loop.network, self._stage.node.name
        if step.place.endswith("resets"):
            network.reset(gateway, f"{step.place.split()[0]}-*")
        elif step.place == "source is cut off":
            network.cut(gateway, "source-*")
        elif step.place == "source is back":
            network.heal(gateway, "source-*")
        elif step.place == "target is slow":
            network.slow("target-*", gateway, 0.3, 100_000.0)
        else:
            network.fast("target-*", gateway)


def _shown(step: Step) -> str:
    size = f" {len(step.data)} bytes" if step.data else ""
    pieces = f" in {len(step.cuts) + 1} pieces, {step.seconds:g} s apart" if step.cuts else ""
    passes = f" {step.seconds:g} s" if step.do is Do.WAIT else ""
    return f"client-{step.conn} {step.do} {step.place}{passes}{size}{pieces} {step.note[:200]}".rstrip()
