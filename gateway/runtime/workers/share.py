"""What of a gateway's settings each of its processes has."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from gateway.config.settings import Settings
from gateway.fleet.rules.membership import worker_name
from gateway.runtime.naming import name_of

_OF_ALL: Final = (
    "connections",
    "connections_per_address",
    "connections_per_second",
    "handshakes_per_second",
    "waiters_per_principal",
    "held_request_bytes",
    "held_answer_bytes",
    "forwarded_bytes_per_second",
)
"""Limits that bound a sum: each process has its part, so that all of them together keep within what was set."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One of a gateway's processes: which of how many, counted from 0."""

    index: int = 0
    count: int = 1

    @property
    def serves_api(self) -> bool:
        """It answers the API."""
        return self.index == 0


ALONE: Final = Worker()
"""The only process of its gateway."""


def workers_of(settings: Settings) -> int:
    """How many processes the gateway is to have."""
    return len(os.sched_getaffinity(0)) if settings.workers == "auto" else settings.workers


def settings_of(settings: Settings, worker: Worker) -> Settings:
    """Those of one process."""
    fleet, limits = settings.fleet, settings.limits
    changed: dict[str, Any] = {"name": worker_name(name_of(settings), worker.index)}
    if fleet.peer_port:
        changed["peer_port"] = fleet.peer_port + worker.index
    parts = {name: _part(getattr(limits, name), worker.count) for name in _OF_ALL}
    return settings.model_copy(
        update={"fleet": fleet.model_copy(update=changed), "limits": limits.model_copy(update=parts)}
    )


def _part(limit: int, count: int) -> int:
    """Rounded up; 0 is no limit, and stays so."""
    return -(-limit // count)
