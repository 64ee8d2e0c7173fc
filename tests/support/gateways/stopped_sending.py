"""A gateway that is stopped in the worst moment: a write was taken under a valid lease, and its bytes have not left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from gateway.transport.event_loop_io import EventLoopIO


def program(once: Path) -> str:
    """What such a gateway runs; it stops itself (SIGSTOP) as soon as the file `once` is there, and deletes it."""
    return f"from {__name__} import main; main({str(once)!r})"


def main(once: str) -> None:
    """Patch, then run the command line."""
    from gateway.cli.main import main as run

    flush = EventLoopIO.flush

    def stopped_before(self: EventLoopIO) -> None:
        if self.dirty and self.under_lease and os.path.exists(once):  # noqa: PTH110 - for each burst of the gateway
            os.unlink(once)  # noqa: PTH108
            os.kill(os.getpid(), signal.SIGSTOP)
        flush(self)

    EventLoopIO.flush = stopped_before  # type: ignore[method-assign]
    run()
