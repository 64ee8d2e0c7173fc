"""Runs one partition's mirror: feeds `PartitionMirror` and carries out what it asks for.

Every input goes through `_do`: an exception fails this partition and no other. Nothing here awaits: what takes time is
asked of the partition's topic and link (`carry_out`), and comes back as an input (`answers`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gateway.domain.append_window import Append
from gateway.domain.partition import PartitionMirror
from gateway.domain.partition_commands import Commands
from gateway.domain.partition_state import Phase
from gateway.domain.ports import PartitionStatus
from gateway.domain.records import MirrorError
from gateway.replication.answers import CommandAnswers
from gateway.replication.appender import Appender
from gateway.replication.carry_out import carry_out
from gateway.replication.report import PartitionReport
from gateway.replication.shells import OffsetShell, Shell

_log = logging.getLogger(__name__)


class PartitionRunner(CommandAnswers):
    """One partition of a mirror topic.

    Attributes:
        key: (mirror topic, partition).
        source_topic_id: 16 bytes, or None when the source has no topic ids.
        appender: of the broker that leads the target partition; None while there is none.
        report: what is measured and shown of it.
    """

    __slots__ = (
        "_clock",
        "_offsets",
        "_on_quiet",
        "_sampled_at",
        "_shell",
        "_told",
        "_window",
        "appender",
        "cursor",
        "key",
        "mirror",
        "partition",
        "report",
        "source_topic",
        "source_topic_id",
    )

    def __init__(
        self,
        key: tuple[str, int],
        source_topic: str,
        source_topic_id: bytes | None,
        mirror: PartitionMirror,
        shell: Shell,
        *,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        offsets: OffsetShell | None = None,
    ) -> None:
        self.key = key
        self.partition = key[1]
        self.source_topic = source_topic
        self.source_topic_id = source_topic_id
        self.mirror = mirror
        self.cursor = mirror.source.cursor
        self.appender: Appender | None = None
        self._window = mirror.window
        self._shell = shell
        self._offsets = offsets
        self._clock = clock
        self._told = -1
        self._sampled_at = -1
        self.report = PartitionReport(mirror, clock, wall_ms)
        self._on_quiet: Callable[[], None] | None = None

    def begin(self) -> None:
        """Start mirroring."""
        self._do(self.mirror.begin)

    # for the fetcher

    def fetched(
        self,
        records: memoryview,
        high_watermark: int,
        now: float,
        asked: int = -1,
        stable: int = -1,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> None:
        """A fetch answer, see `PartitionMirror`. The caller pumps the appenders when all partitions have theirs."""
        self._do(self.mirror.fetched, records, high_watermark, now, asked, stable, aborted)

    def fetch_failed(self, code: int, now: float) -> None:
        """A fetch answer with an error."""
        self._do(self.mirror.fetch_failed, code, now)

    def fetch_diverged(self, epoch: int, end_offset: int) -> None:
        """A fetch answer with a diverging epoch."""
        self._do(self.mirror.fetch_diverged, epoch, end_offset)

    # for the appender

    @property
    def has_more(self) -> bool:
        """There may be another batch to take at once."""
        return self._window.unsent > 0 and not self._window.in_doubt

    def take(self) -> Append | None:
        """The next batch for the target, if it is the time."""
        try:
            return self._window.take()
        except Exception as exc:  # noqa: BLE001 - this partition's fault stays this partition's
            self._broken(exc)
            return None

    def append_answered(self, base: int, code: int, landed_at: int, message: str, repeated: bool = False) -> None:
        """The target answered. The caller pumps."""
        self._do(self.mirror.append_answered, base, code, landed_at, message, repeated)

    def append_unknown(self, message: str) -> None:
        """Nobody knows what became of an append."""
        self._do(self.mirror.append_unknown, message)

    def target_unreachable(self, message: str) -> None:
        """There is no connection to append on; what is queued waits."""
        self.mirror.target.last_error = message

    # from above

    def fail(self, error: MirrorError, message: str) -> None:
        """Stop for good, for a reason of the whole topic."""
        self._do(self.mirror.fail, error, message)

    def stop(self, on_quiet: Callable[[], None]) -> None:
        """Hand out nothing more; `on_quiet` is called once no append is in flight."""
        self.mirror.stop()
        self._on_quiet = on_quiet
        self._check_quiet()

    def pump(self) -> None:
        """Send what this partition has."""
        if self.appender is not None:
            self.appender.pump()

    def assign(self, appender: Appender | None) -> None:
        """Another broker leads the target partition."""
        if self.appender is not appender:
            if self.appender is not None:
                self.appender.discard(self)
            self.appender = appender
            self._offer()

    def sample(self, now: float) -> None:
        """Once a second: measure, and keep as little as can be of what a target that stalls does not take."""
        self.report.sample(now)
        if len(self._window) and self._window.position == self._sampled_at:
            self._window.compact()
        self._sampled_at = self._window.position

    def status(self) -> PartitionStatus:
        """As it stands now."""
        return self.report.status(self.partition, self._told)

    # inside

    def _do(self, step: Callable[..., Commands], *args: object) -> None:
        try:
            for command in step(*args):
                carry_out(command, self, self._shell, self._offsets)
            if self.mirror.phase is Phase.COPYING and self._window.source_position != self._told:
                if self._told < 0:
                    self.sample(self._clock())  # what the source grows by is counted from here
                self._told = self._window.source_position
                if self.mirror.translator is not None:
                    self.mirror.translator.ledger.map.advance(self._window.position, self._told)
                self._shell.advanced(self, self._told)
        except Exception as exc:  # noqa: BLE001 - this partition's fault stays this partition's
            self._broken(exc)
        self._offer()
        if self._on_quiet is not None:
            self._check_quiet()

    def _offer(self) -> None:
        if self.appender is not None and self._window.unsent and not self._window.in_doubt:
            self.appender.ready(self)

    def _broken(self, exc: Exception) -> None:
        _log.exception("the mirror of %s-%d stopped", *self.key, exc_info=exc)
        for command in self.mirror.fail(MirrorError.INTERNAL_ERROR, f"{type(exc).__name__}: {exc}"):
            carry_out(command, self, self._shell, self._offsets)

    def _check_quiet(self) -> None:
        if self._window.outstanding == 0 and self._on_quiet is not None:
            on_quiet, self._on_quiet = self._on_quiet, None
            on_quiet()
