"""A gateway whose names resolve to nothing while a file is there: `python -m tests.chaos.serve FILE --config …`."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import uvloop


def lose_names(lost: Path) -> None:
    """Patch the event loop of this process. Addresses that are numbers need no resolver, and are not affected."""
    loop: Any = uvloop.Loop
    connect = loop.create_connection

    def create_connection(self: Any, protocol: Any, host: Any = None, port: Any = None, **named: Any) -> Any:
        if host is not None and lost.exists() and not host.replace(".", "").isdigit():
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return connect(self, protocol, host, port, **named)

    loop.create_connection = create_connection


if __name__ == "__main__":
    lose_names(Path(sys.argv[1]))
    from gateway.cli.main import main

    sys.argv[1:] = ["serve", *sys.argv[2:]]
    main()
