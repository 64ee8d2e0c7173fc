"""Log set-up: structlog for our own events, the same renderer for what libraries log."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

import structlog

from gateway.telemetry.log_rates import RatedLines, RepeatedLines
from gateway.telemetry.printable import printable


def configure(level: str = "info", fmt: str = "console") -> None:
    """Log to stderr: one line an event.

    Args:
        level: debug, info, warning or error.
        fmt: `console` for people, `json` for machines.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if fmt == "json"
        # plain: the rich one would print local variables, which may hold records and passwords
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # a log line is rare; a cached logger would outlive a later set-up
    )
    before = [structlog.processors.format_exc_info] if fmt == "json" else [_as_printable]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *before, renderer],
        )
    )
    handler.addFilter(RatedLines())
    handler.addFilter(RepeatedLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("uvicorn.access", "uvicorn.error", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _as_printable(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What a line says, in one line; JSON has escapes of its own. Tracebacks have lines."""
    for key, value in event.items():
        if isinstance(value, str) and key not in ("stack", "exception"):
            event[key] = printable(value)
    return event


AUDIT = "lockgate.audit"


def configure_audit(path: str = "") -> None:
    """Where the audit trail goes: to a file of its own, or to stdout; it is never mixed with the log, on stderr.

    Nor does it go to a terminal, where somebody types: its lines are for machines, and long.

    Args:
        path: of the file, which is made readable by its owner alone, added to, and opened anew when it was moved away.

    Raises:
        OSError: the file cannot be written.
    """
    handler: logging.Handler
    if path:
        handler = _AuditFile(Path(path))
    elif sys.stdout.isatty():
        handler = logging.NullHandler()
        structlog.get_logger("lockgate").info("the audit trail is not written to a terminal", option="api.audit_file")
    else:
        handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger(AUDIT)
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)


class _AuditFile(WatchedFileHandler):
    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")

    def _open(self) -> Any:
        return os.fdopen(
            os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8"
        )
