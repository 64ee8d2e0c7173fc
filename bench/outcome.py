"""Everything a run has found out, before it is written or shown."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.settings import Profile
from bench.stats import Samples


@dataclass(slots=True)
class Outcome:
    """One run. `failures`: load (or `bench`) -> why it has no figures. `load_averages`: at the beginning and the end.

    `partial`: only some loads were asked for. `micro`: benchmark -> {times the work: median nanoseconds}.
    """

    profile: Profile
    partial: bool = False
    samples: Samples = field(default_factory=Samples)
    failures: dict[str, str] = field(default_factory=dict)
    micro: dict[str, dict[int, float]] = field(default_factory=dict)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    seconds: float = 0.0
    load_averages: list[tuple[float, float, float]] = field(default_factory=lambda: [os.getloadavg()])
    _clock: float = field(default_factory=time.monotonic)

    def finished(self) -> None:
        """Take the time."""
        self.seconds = time.monotonic() - self._clock
        self.load_averages.append(os.getloadavg())

    def settings(self) -> dict[str, Any]:
        """The profile as plain values."""
        return {name: getattr(self.profile, name) for name in self.profile.__dataclass_fields__}
