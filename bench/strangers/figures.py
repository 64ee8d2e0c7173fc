"""What an attack cost, and whether that is little enough. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

P99_X: Final = 3.0
"""How many times its own p99 an honest client may see."""
P99_LEAST_MS: Final = 5.0
"""A p99 below it counts as this much: what a machine does by itself is no attack."""
MEMORY_MB: Final = 128.0
LOG_KB_S: Final = 5.0

GATEWAY: Final = "gateway"
"""In `Cost.cores`; all others are brokers."""

_STALLS: Final = re.compile(r'^lockgate_event_loop_stalls_total\{cause="(\w+)"\} (\S+)$', re.MULTILINE)
_P99: Final = ("asked_p99_ms", "written_p99_ms")
_NOT_OURS: Final = "not_scheduled"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one attack. `before`, `beside`: what the honest client felt. `stalls`: turns of the gateway's loop over 50 ms
    in which it had the CPU. `attack_cores`: CPU that the attack's own process had; 0 where it has none. `cores`: by
    process, before and beside. `control`: what the client felt while the CPU of the attacker, and what the brokers had
    more, was burned on the same machine and nobody attacked; empty where it was not asked for."""

    attack: str
    before: Mapping[str, Any]
    beside: Mapping[str, Any]
    memory_mb: float
    log_kb_s: float
    stalls: int
    attack_cores: float = 0.0
    cores: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    control: Mapping[str, Any] = field(default_factory=dict)

    @property
    def p99_x(self) -> float:
        """The worse of small requests and writes, as many times its own."""
        return max(_at_least(self.beside[what]) / _at_least(self.before[what]) for what in _P99)

    @property
    def gateway_x(self) -> float:
        """The same without what the attack takes of the machine: as many times what it is under the same load."""
        return max(
            _at_least(self.beside[what]) / max(_at_least(self.before[what]), _at_least(self.control.get(what, 0.0)))
            for what in _P99
        )

    @property
    def wants_control(self) -> bool:
        """Whether it is to be found out what of the p99 is the machine's."""
        return self.p99_x > P99_X

    @property
    def others_cores(self) -> float:
        """What the brokers used more than without the attack, which is what they would without a gateway, too."""
        return sum(max(0.0, both - alone) for name, (alone, both) in self.cores.items() if name != GATEWAY)

    def troubles(self) -> Iterator[str]:
        """What is not as it should be, one line each."""
        if self.gateway_x > P99_X:
            own = "its own under the same load" if self.control else "its own"
            yield f"{self.attack}: the honest client's p99 is {self.gateway_x:.1f} times {own}, {P99_X:g} at most"
        if self.memory_mb > MEMORY_MB:
            yield f"{self.attack}: {self.memory_mb:.0f} MB of memory are added, {MEMORY_MB:g} at most"
        if self.log_kb_s > LOG_KB_S:
            yield f"{self.attack}: the log grows by {self.log_kb_s:.1f} KB/s, {LOG_KB_S:g} at most"
        if self.stalls:
            yield f"{self.attack}: the event loop stood still {self.stalls} times"
        if self.beside["lost"]:
            yield f"{self.attack}: {self.beside['lost']} assignments lost: heartbeats late"
        for error in self.beside["errors"]:
            yield f"{self.attack}: the honest client was told {error}"


def _at_least(p99_ms: float) -> float:
    return max(p99_ms, P99_LEAST_MS)


def stalls_in(metrics: str) -> int:
    """Turns over 50 ms so far, by a page of metrics, but for those in which the machine had something else to do."""
    return sum(round(float(count)) for cause, count in _STALLS.findall(metrics) if cause != _NOT_OURS)


def last_line(costs: Sequence[Cost], failures: Iterable[str]) -> str:
    """The verdict."""
    good = costs and not [*failures, *(trouble for cost in costs for trouble in cost.troubles())]
    worst = {
        "worst_p99_x": f"{max((cost.gateway_x for cost in costs), default=0):.2f}",
        "with_machine_x": f"{max((cost.p99_x for cost in costs), default=0):.2f}",
        "memory_mb": f"{max((cost.memory_mb for cost in costs), default=0):.0f}",
        "log_kb_s": f"{max((cost.log_kb_s for cost in costs), default=0):.1f}",
        "stalls": sum(cost.stalls for cost in costs),
        "late_heartbeats": sum(cost.beside["lost"] for cost in costs),
    }
    shown = " ".join(f"{name}={value}" for name, value in worst.items())
    return f"strangers: {'PASS' if good else 'FAIL'} attacks={len(costs)} {shown}"
