"""The runs of failbacks that go on in this gateway: one per topic at most, whoever asks for it."""

from __future__ import annotations

import structlog

from gateway.cutover.failback.run import FailbackRun, FailbackTools
from gateway.state.mirror_states import UNDER_WAY
from gateway.state.records import MirrorRecord, MirrorState
from gateway.transport.background import Background

_log = structlog.get_logger("lockgate.failback")


class FailbackRuns:
    """They run in `background`."""

    def __init__(self, tools: FailbackTools, background: Background) -> None:
        self._tools = tools
        self._store = tools.records.store
        self._background = background
        self._running: dict[tuple[str, str], FailbackRun] = {}

    def resume(self) -> None:
        """Go on with every failback that the records say is under way; returns at once."""
        for (link, topic), mirror in list(self._store.mirrors.items()):
            if mirror.state in UNDER_WAY:
                self.go_on(link, topic)

    def waiting_for(self, link: str, topic: str) -> str:
        """What the run of the topic waits for; '' when none runs."""
        run = self._running.get((link, topic))
        return run.waiting_for if run is not None else ""

    def trouble(self, link: str, topic: str) -> Exception | None:
        """What the run of the topic meets again and again; None when it goes on, or none runs."""
        run = self._running.get((link, topic))
        return run.trouble if run is not None else None

    def go_on(self, link: str, topic: str) -> None:
        """Start a run for the topic, unless one goes on with it already."""
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
    """What has become of a mirror back's beginning."""
    if mirror.state is MirrorState.FAILED:
        return "the mirror back to the source has FAILED"
    if mirror.is_reverse and mirror.state is MirrorState.ACTIVE:
        return "the mirror back to the source is running"
    return "the mirror back to the source has not begun"
