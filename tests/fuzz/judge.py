"""What must hold after each step, whoever did it.

* `touched_before_login`: nothing was done or remembered for somebody who has not shown who it is
* `slow_frames`: no frame took more than 50 ms of the gateway's CPU, beside what it does at rest
* `stalls`: nothing that the gateway's event loop did took more than 50 ms of CPU in one go
* `unbounded`: what is held, what waits to be read, and memory keep to what settings and docs/operate/listeners.md say
* `crashes`: no exception but those that end a connection in order: nothing in the log from `error` on, nothing that
  asyncio was told, and the gateway lives

At the end all connections are closed, and nothing may be left of them.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.proxy.session.from_client import BACKLOG_BYTES
from gateway.proxy.session.proxy_session import ProxySession
from tests.fuzz.callers import Caller
from tests.fuzz.spies import remembered
from tests.fuzz.stage import Stage
from tests.fuzz.steps import Do, Step
from tests.simulation.kernel.transport import READ_BYTES

SLOW_NS: Final = 50_000_000
_REST_NS: Final = 100_000_000
"""In a second of the conversation's own time: heartbeats, metadata and the like, on a machine with other work."""
KINDS: Final = ("touched_before_login", "slow_frames", "stalls", "unbounded", "crashes")
TIMED: Final = frozenset({"slow_frames", "stalls"})
"""Found for certain only when the gateway alone is timed."""
_AS_LISTENING: Final = 64 * 1024  # of a transport, before its protocol is told
_ANSWERS_TO_STRANGERS: Final = 64  # times what they have sent: ApiVersions of 14 bytes has an answer of 500
_GROWTH: Final = 64 << 20
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_SEVERE: Final = frozenset({"error", "critical", "exception"})


@dataclass
class Finding:
    """`kind`: one of KINDS. `step`: after which it was seen; as many as there are steps: at the end."""

    kind: str
    step: int
    what: str


@dataclass
class Judge:
    """See the module. `findings`: the first of each kind at each step."""

    stage: Stage
    findings: list[Finding] = field(default_factory=list)
    sent: int = 0
    _before: Mapping[str, Any] = field(default_factory=dict)
    _spent_ns: int = 0
    _began: float = 0.0
    _seen_lines: int = 0
    _seen_errors: int = 0
    _resident: int = 0

    def begin(self) -> None:
        """All that is there now was there before."""
        self._before = remembered(self.stage)
        self._seen_lines, self._seen_errors = len(self.stage.entries), len(self.stage.loop.unhandled)
        self._resident = _resident_bytes()

    def before(self, step: Step) -> None:
        """A step begins."""
        loop = self.stage.loop
        self._spent_ns, self._began, loop.longest_ns = self._spent(), loop.time(), 0
        if step.do is Do.TROUBLE:  # a mirror whose source is lost says so
            self._before = {name: value for name, value in self._before.items() if name not in ("mirrors", "groups")}
        self.sent += len(step.data)

    def after(self, at: int, step: Step, callers: list[Caller]) -> None:
        """It was carried out, and what it caused has had a moment."""
        self._look_at_time(at, step)
        self._look_for_stalls(at)
        self._look_for_touched(at, callers)
        self._look_for_crashes(at)
        self._look_at_bounds(at, callers)

    def is_over(self) -> bool:
        """Nothing is left of anybody."""
        return not any(self._left().values())

    def end(self, at: int, callers: list[Caller]) -> None:
        """Every connection is closed, and their time is over."""
        self._look_for_stalls(at)
        self._look_for_touched(at, callers)
        self._look_for_crashes(at)
        for what, left in self._left().items():
            if left:
                self._found("unbounded", at, f"left behind by closed connections: {what}: {left}")

    def _found(self, kind: str, at: int, what: str) -> None:
        if not any(finding.kind == kind and finding.step == at for finding in self.findings):
            self.findings.append(Finding(kind, at, what))

    def _look_at_time(self, at: int, step: Step) -> None:
        if step.do is not Do.SEND:
            return
        loop = self.stage.loop
        at_rest = int((loop.time() - self._began) * _REST_NS)
        spent = (self._spent() - self._spent_ns - at_rest) // max(step.frames, 1)
        if spent > SLOW_NS:
            longest = f"longest: {loop.longest_ns / 1e6:.0f} ms, {loop.longest}" if loop.timing else "brokers included"
            self._found("slow_frames", at, f"{spent / 1e6:.0f} ms a frame; {longest}")

    def _look_for_stalls(self, at: int) -> None:
        loop = self.stage.loop
        if loop.longest_ns > SLOW_NS:
            self._found("stalls", at, f"{loop.longest_ns / 1e6:.0f} ms of {loop.longest}")

    def _spent(self) -> int:
        """CPU of the gateway; of all in this process unless it is timed by itself."""
        loop = self.stage.loop
        return loop.spent_ns if loop.timing else time.thread_time_ns()

    def _look_for_touched(self, at: int, callers: list[Caller]) -> None:
        for caller in callers:
            if caller.touched:
                self._found("touched_before_login", at, f"{caller}: {', '.join(dict.fromkeys(caller.touched))}")
                caller.touched.clear()
        if not any(caller.accepted for caller in callers):
            now = remembered(self.stage)
            changed = [name for name, value in self._before.items() if now[name] != value]
            if changed:
                self._found("touched_before_login", at, f"by strangers: {', '.join(changed)}")

    def _look_for_crashes(self, at: int) -> None:
        stage = self.stage
        for entry in stage.entries[self._seen_lines :]:
            if entry.level in _SEVERE and entry.node == stage.node.name:
                self._found("crashes", at, f"logged: {entry.event} {entry.fields}")
        self._seen_lines = len(stage.entries)
        for context in stage.loop.unhandled[self._seen_errors :]:
            self._found("crashes", at, f"asyncio: {context.get('message')}: {context.get('exception')!r}")
        self._seen_errors = len(stage.loop.unhandled)
        if stage.node.ended or not stage.node.serves:
            self._found("crashes", at, f"the gateway has ended: {stage.node.ended}")

    def _look_at_bounds(self, at: int, callers: list[Caller]) -> None:
        limits, sessions = self.stage.sessions.limits, self.stage.sessions
        for session in sessions.open:
            self._at_most(
                at, "answers that wait", session._sequencer.waiting_bytes, limits.unread_output_bytes + _ANSWER
            )
            assert isinstance(session, ProxySession)
            self._at_most(at, "read ahead", session._backlog_bytes, BACKLOG_BYTES + 2 * READ_BYTES)
            if not session.login.accepted:
                self._at_most(at, "of a login", session._requests.held, limits.login_request_bytes)
        for endpoint in self.stage.node.node.endpoints:
            most = limits.unread_output_bytes + _AS_LISTENING + _ANSWER
            self._at_most(at, f"not taken by {endpoint.peer.node.name}", endpoint.get_write_buffer_size(), most)
        held = limits.held_request_bytes + len(sessions.open) * (BACKLOG_BYTES + 2 * READ_BYTES)
        self._at_most(at, "requests held", sessions.held.bytes, held)
        unproven = limits.held_request_bytes // 16 + BACKLOG_BYTES + READ_BYTES
        self._at_most(at, "held before logins", sessions.unproven.bytes, unproven)
        answers = limits.held_answer_bytes + len(sessions.open) * (limits.unread_output_bytes + _ANSWER)
        self._at_most(at, "answers held", sessions.answers.bytes, answers)
        self._at_most(at, "sessions", len(sessions.open), len(callers))
        self._at_most(at, "tasks for sessions", len(sessions.tasks), 8 * len(callers) + 8)
        for caller in callers:
            self._at_most(at, f"a request of {caller}'s login", caller.login_bytes, limits.login_request_bytes)
            if not caller.accepted:
                most = caller.sent * _ANSWERS_TO_STRANGERS + 4_096
                self._at_most(at, f"answers to {caller}", caller.received, most)
        most = self._resident + _GROWTH + 8 * self.sent
        if _resident_bytes() > most:
            gc.collect()  # nobody else does, in here
            self._at_most(at, "memory", _resident_bytes(), most)

    def _at_most(self, at: int, what: str, value: int, most: int) -> None:
        if value > most:
            self._found("unbounded", at, f"{what}: {value}, at most {most}")

    def _left(self) -> dict[str, Any]:
        sessions, gates = self.stage.sessions, self.stage.node.gateway._gates
        return {
            "sessions": [session.id for session in sessions.open],
            "work": sorted(task.get_name() for task in sessions.tasks),
            "held bytes": sessions.held.bytes,
            "held before logins": sessions.unproven.bytes,
            "answers held": sessions.answers.bytes,
            "answers that wait for room": sessions.answers.waiting,
            "held by": len(sessions.held._of),
            "waiting for memory": sessions.held.waiting,
            "waiters": dict(sessions.waiters._of),
            "at gates": list(gates._waiters),
            "commits": dict(gates._commits),
            "writes in flight": dict(self.stage.node.gateway._data.forwarder._in_flight),
            "timers": self.stage.loop.caused_timers(),
            "locks": [name for name, lock in self._locks().items() if lock.locked()],
        }

    def _locks(self) -> dict[str, Any]:
        pauses: Any = self.stage.node.gateway._data.forwarder.transactions
        return dict(pauses._transactions._locks)


_ANSWER: Final = 1 << 20  # one answer of a broker may be larger than what may wait


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
