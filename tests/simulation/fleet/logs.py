"""What the gateways log, with the virtual time and the node that said it; or nowhere, which is the fastest.

with logs.told_to(lambda entry: print(entry)): ...
logs.silent()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import structlog

from tests.simulation.kernel.node import CURRENT


class Entry(NamedTuple):
    """One line of one node's log."""

    at: float
    node: str
    level: str
    event: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        fields = " ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{self.at:12.6f} {self.node:<12} {self.level:<7} {self.event} {fields}".rstrip()


Sink = Callable[[Entry], None]


def silent() -> None:
    """Log nothing."""
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@contextmanager
def told_to(sink: Sink | None, level: int = logging.INFO) -> Iterator[None]:
    """What is logged in the block goes to the sink; None: nowhere."""
    root, handler = logging.getLogger(), _Handler(sink) if sink is not None else None
    before, disabled, processors = root.level, root.manager.disable, structlog.get_config()
    if handler is None or sink is None:
        silent()
    else:
        root.addHandler(handler)
        root.setLevel(level)
        logging.disable(logging.NOTSET)
        structlog.configure(
            processors=[structlog.processors.add_log_level, _to(sink)],
            wrapper_class=structlog.make_filtering_bound_logger(level),
        )
    try:
        yield
    finally:
        if handler is not None:
            root.removeHandler(handler)
        root.setLevel(before)
        logging.disable(disabled)
        structlog.configure(**processors)


def _entry(level: str, event: str, fields: dict[str, Any]) -> Entry:
    try:
        now = asyncio.get_running_loop().time()
    except RuntimeError:
        now = 0.0
    node = CURRENT.get(None)
    return Entry(now, node.name if node is not None else "-", level, event, fields)


def _to(sink: Sink) -> Callable[[Any, str, MutableMapping[str, Any]], str]:
    def tell(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> str:
        entry = dict(fields)
        sink(_entry(str(entry.pop("level", "")), str(entry.pop("event", "")), entry))
        raise structlog.DropEvent

    return tell


class _Handler(logging.Handler):
    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        fields = {"exception": repr(record.exc_info[1])} if record.exc_info else {}
        self._sink(_entry(record.levelname.lower(), record.getMessage(), fields))
