"""What a gateway uses of its machine: clocks, random numbers, sockets, services below its own code.

Everything that `lockgate serve` runs uses only this and its event loop: with another `Host` a gateway runs in another
world (`tests/simulation/` runs whole fleets in one process, in virtual time). Below this seam are plain sockets
(`transport/wire.py`) and uvicorn.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from gateway.transport.name_lock import NameLock


def boot_clock() -> float:
    """Seconds that also count while the machine sleeps, and never jump."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """By default the machine itself.

    Attributes:
        monotonic: seconds; for durations.
        boot: seconds that also count while the machine sleeps; for leases.
        wall_ms: milliseconds since the epoch; for records, never for a decision.
        rng: for jitter and choices without security.
        token_hex: the given number of unpredictable random bytes, in hexadecimal.
        new_id: an identity, as hexadecimal digits.
        name_lock: a gateway's name -> the lock that proves when its process is gone (`transport/name_lock.py`).
        plain_sockets: connections without TLS are our own sockets (`transport/wire.py`); else the event loop's
            transports.
        encrypts_peers: gateways talk over TLS; else in the clear, on a simulated network.
        serve_api: (ASGI application, API settings) -> an object with `start` and `close`; None: `runtime/api.py`.
        create_app, create_own_app: make the REST applications; None: those of `api/`.
    """

    monotonic: Callable[[], float] = time.monotonic
    boot: Callable[[], float] = boot_clock
    wall_ms: Callable[[], int] = wall_clock_ms
    rng: random.Random = field(default_factory=random.Random)
    token_hex: Callable[[int], str] = secrets.token_hex
    new_id: Callable[[], str] = _new_id
    name_lock: Callable[[str], NameLock] = NameLock
    plain_sockets: bool = True
    encrypts_peers: bool = True
    serve_api: Callable[[Any, Any], Any] | None = None
    create_app: Callable[..., Any] | None = None
    create_own_app: Callable[..., Any] | None = None


MACHINE: Final = Host()
