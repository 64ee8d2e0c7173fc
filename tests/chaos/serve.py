"""A gateway that sees the network as a plan wants it: `python -m tests.chaos.serve SHIM.json --config …`.

The shim has `places`, "host:port" -> another port of the same host, so that each gateway has proxies of its own
although all are told the same addresses of a source; `lost`, a file: while it is there, no name resolves; `clock`, a
file: by so many seconds the time of day is wrong from the next SIGUSR1 on; and `patch`, a fault of
`tests.mutations`, to see that a run finds it.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop


def bend(places: Mapping[str, int], lost: Path) -> None:
    """Patch the event loop of this process. Addresses that are numbers need no resolver, and are never lost."""
    loop: Any = uvloop.Loop
    connect = loop.create_connection

    def create_connection(self: Any, protocol: Any, host: Any = None, port: Any = None, **named: Any) -> Any:
        if host is not None and lost.exists() and not host.replace(".", "").isdigit():
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return connect(self, protocol, host, places.get(f"{host}:{port}", port), **named)

    loop.create_connection = create_connection


def jump(clock: Path) -> None:
    """Let the time of day be set from outside, as an operator or NTP may do at any moment."""
    real, wrong_by = time.time, 0.0

    def set_clock(*_: object) -> None:
        nonlocal wrong_by
        wrong_by = float(clock.read_text(encoding="utf-8"))

    signal.signal(signal.SIGUSR1, set_clock)
    time.time = lambda: real() + wrong_by
    time.time_ns = lambda: int(time.time() * 1e9)


if __name__ == "__main__":
    shim = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    bend(shim["places"], Path(shim["lost"]))
    jump(Path(shim["clock"]))
    if shim["patch"]:
        from tests.mutations.gateway.patches import PATCHES

        PATCHES[shim["patch"]]()
    from gateway.cli.main import main

    sys.argv[1:] = ["serve", *sys.argv[2:]]
    main()
