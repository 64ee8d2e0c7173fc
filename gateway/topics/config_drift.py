"""What somebody changed by hand on a mirror topic's configs, and config sync has set back: for `mirror describe`.

A config that differs from what it must be was changed by hand when what it must be is the same as at the sync before;
else the origin's has changed. Kept in memory by whoever leads, the last few of each mirror.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.state.records import MirrorRecord

KEPT: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBack:
    """One config: what was found, and what it is again. `time_ms`: the wall clock."""

    name: str
    found: str
    value: str
    time_ms: int


class ConfigDrift:
    """Written by config sync. `now_ms`: the wall clock."""

    def __init__(self, now_ms: Callable[[], int], deleted: DeletedMirrors) -> None:
        self._now_ms = now_ms
        self._applied: dict[tuple[str, str], Mapping[str, str]] = {}
        self._set_back: dict[tuple[str, str], deque[SetBack]] = {}
        deleted.subscribe(self._forget)

    def synced(
        self, mirror: MirrorRecord, wanted: Mapping[str, str], changes: Mapping[str, str], found: Mapping[str, str]
    ) -> None:
        """A mirror's copy has the configs that it must have.

        Args:
            wanted: what it must have. changes: what had to be set for that. found: what it had before.
        """
        key = mirror.link, mirror.mirror_topic
        before, self._applied[key] = self._applied.get(key, {}), dict(wanted)
        for name, value in changes.items():
            if before.get(name) == value:
                kept = self._set_back.setdefault(key, deque(maxlen=KEPT))
                kept.append(SetBack(name=name, found=found.get(name, ""), value=value, time_ms=self._now_ms()))

    def of(self, mirror: MirrorRecord) -> Sequence[SetBack]:
        """What was set back, oldest first."""
        return tuple(self._set_back.get((mirror.link, mirror.mirror_topic), ()))

    def _forget(self, mirror: MirrorRecord) -> None:
        self._applied.pop((mirror.link, mirror.mirror_topic), None)
        self._set_back.pop((mirror.link, mirror.mirror_topic), None)
