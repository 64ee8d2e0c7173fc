"""A gateway that sees the network as a plan wants it: `python -m tests.chaos.serve SHIM.json --config …`.

The shim has `places`, "host:port" -> another port of the same host, so that each gateway has proxies of its own
although all are told the same addresses of a source; `lost`, a file: while it is there, no name resolves; and `patch`,
a fault of `tests.mutations`, to see that a run finds it.
"""

from __future__ import annotations

import json
import socket
import sys
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


if __name__ == "__main__":
    shim = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    bend(shim["places"], Path(shim["lost"]))
    if shim["patch"]:
        from tests.mutations.gateway.patches import PATCHES

        PATCHES[shim["patch"]]()
    from gateway.cli.main import main

    sys.argv[1:] = ["serve", *sys.argv[2:]]
    main()
