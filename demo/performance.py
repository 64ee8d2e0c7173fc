"""How a demo is performed: its acts in a view, its failure in one line, its processes gone at the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

from rich.console import Console

from demo.errors import DemoError
from demo.lockgate import Lockgate
from demo.view import View
from gateway.devcluster import DevClusterError


class Performed(Protocol):
    """A run, as far as its performance goes."""

    @property
    def gateway(self) -> Lockgate | None:
        """None before it runs."""

    def clean_up(self) -> None:
        """End every process."""


R = TypeVar("R", bound=Performed)
T = TypeVar("T")


def open_view(heading: str) -> View:
    """An empty view. From now on SIGTERM and SIGHUP end the process as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    return View(Console(highlight=False, width=None if sys.stdout.isatty() else 120), heading)


def perform(view: View, make: Callable[[], R], acts: Callable[[R], T]) -> tuple[R | None, T | None, str]:
    """The run, what its acts came to (None: they did not end), and why not ('' when they did)."""
    run: R | None = None
    try:
        with view.shown():
            run = make()
            return run, acts(run), ""
    except (DemoError, DevClusterError) as error:
        return run, None, _explain(run, view, error)
    except KeyboardInterrupt:
        return run, None, "interrupted"
    except Exception as error:  # noqa: BLE001 - a fault of the demo itself: shown whole, and still one last line
        view.console.print_exception()
        return run, None, f"{type(error).__name__}: {error}"
    finally:
        if run is not None:
            previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave brokers behind
            run.clean_up()
            signal.signal(signal.SIGINT, previous)


def _explain(run: Performed | None, view: View, error: DemoError | DevClusterError) -> str:
    """Print what may tell why; returns the failure in one line."""
    shown = error.log_tail if isinstance(error, DemoError) else ""
    if shown:
        view.console.rule("what it said")
        view.console.print(shown, markup=False)
    gateway_tail = run.gateway.tail() if run is not None and run.gateway is not None else ""
    if gateway_tail and gateway_tail != shown:
        view.console.rule("the gateway's last lines")
        view.console.print(gateway_tail, markup=False)
    return f"{view.steps[-1].title}: {error}" if view.steps else str(error)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
