"""Looks at this process: its limit of open files, what the kernel says of the clock, and which ports are free."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
from typing import Final

from gateway.doctor.rules.facts import MachineFacts, PortFacts

_TIMEX_BYTES: Final = 512  # struct timex has 208; `modes` = 0, its first field, changes nothing
_TIME_ERROR: Final = 5  # adjtimex(2): the clock is not synchronised


def look_at_machine() -> MachineFacts:
    """As it is now."""
    return MachineFacts(files=resource.getrlimit(resource.RLIMIT_NOFILE), synchronised=_synchronised())


def _synchronised() -> bool | None:
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)  # Linux only
    if adjtimex is None:
        return None
    state = int(adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    return None if state < 0 else state != _TIME_ERROR


def look_at_port(option: str, host: str, port: int) -> PortFacts:
    """Whether somebody could listen there: it is tried, and given back at once."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as exc:
        return PortFacts(option=option, host=host, port=port, error=os.strerror(exc.errno) if exc.errno else str(exc))
    return PortFacts(option=option, host=host, port=port)
