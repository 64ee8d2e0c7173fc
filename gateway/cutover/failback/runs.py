"""The failbacks that run in this gateway: at most one per topic."""

from __future__ import annotations

import structlog

from gateway.cutover.failback.run import FailbackRun, FailbackTools
from gateway.state.mirror_states import UNDER_WAY
from gateway.state.records import MirrorRecord, MirrorState
from gateway.transport.background import Background

_log = structlog.get_logger("lockgate.failback")


class FailbackRuns:
    """The failback runs of this gateway, as tasks in `background`."""

    def __init__(self, tools: FailbackTools, background: Background) -> None:
        self._tools = tools
        self._store = tools.records.store
        self._background = background
        self._running: dict[tuple[str, str], FailbackRun] = {}

    def resume(self) -> None:
        """Continue every failback that is under way by its record; returns immediately."""
        for (link, topic), mirror in list(self._store.mirrors.items()):
            if mirror.state in UNDER_WAY:
                self.go_on(link, topic)

    def waiting_for(self, link: str, topic: str) -> str:
        """What the run of the topic waits for; '' when none runs."""
        run = self._running.get((link, topic))
        return run.waiting_for if run is not None else ""

    def trouble(self, link: str, topic: str) -> Exception | None:
        """The error that the topic's run meets again and again; None when it proceeds, or none runs."""
        run = self._running.get((link, topic))
        return run.trouble if run is not None else None

    def go_on(self, link: str, topic: str) -> None:
        """Start a run for the topic, unless it has one."""
        key = (link, topic)
        if key not in self._running:
            self._running[key] = run = FailbackRun(self._tools, link, topic)
            self._background.spawn(self._run(key, run), f"failback {link} {topic}")

    async def _run(self, key: tuple[str, str], run: FailbackRun) -> None:
        try:
            await run.run()
        finally:
            del self._running[key]
        mirror = self._store.mirrors.get(key)
        if mirror is not None:
            log = _log.warning if mirror.state is MirrorState.FAILED else _log.info
            log(told_of(mirror), link=key[0], topic=key[1], state=mirror.state.value, reason=mirror.error_message)


def told_of(mirror: MirrorRecord) -> str:
    """How the beginning of a mirror back ended, for the log."""
    if mirror.state is MirrorState.FAILED:
        return "the mirror back to the source has FAILED"
    if mirror.is_reverse and mirror.state is MirrorState.ACTIVE:
        return "the mirror back to the source is running"
    return "the mirror back to the source has not begun"
