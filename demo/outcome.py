"""What demos with a verdict of their own have in common: their options, and how they end for people and programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import Field, asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol

from demo.json_report import write_json
from demo.view import View


class Judged(Protocol):
    """A verdict, a dataclass. `counts`: what was found, for the last line. `examples`, `errors`: a line each."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def passed(self) -> bool: ...  # noqa: D102
    @property
    def counts(self) -> str: ...  # noqa: D102
    @property
    def examples(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def errors(self) -> tuple[str, ...]: ...  # noqa: D102


class Sized(Protocol):
    """Settings of a demo with clients, a dataclass: what its options may change."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def rate(self) -> float: ...  # noqa: D102
    @property
    def traffic_s(self) -> float: ...  # noqa: D102
    @property
    def folder(self) -> Path: ...  # noqa: D102
    @property
    def report(self) -> Path: ...  # noqa: D102


def add_options(parser: argparse.ArgumentParser, known: Sized) -> None:
    """The options of every such demo; `known` has their defaults."""
    parser.add_argument("--rate", type=float, default=known.rate, help="records/s of each (default: %(default)s)")
    parser.add_argument("--traffic", type=float, default=known.traffic_s, help="seconds per act (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=known.folder, help="logs, configs, data (default: %(default)s)")
    parser.add_argument("--report", type=Path, default=known.report, help="JSON (default: %(default)s)")
    parser.add_argument("--keep-data", action="store_true", help="keep the brokers' data for a look afterwards")


def chosen(args: argparse.Namespace) -> Mapping[str, Any]:
    """What `add_options` has read, by the settings' names."""
    return {
        "rate": args.rate,
        "traffic_s": args.traffic,
        "folder": args.folder.absolute(),
        "report": args.report.absolute(),
        "keep_data": args.keep_data,
    }


def end(name: str, settings: Sized, view: View, verdict: Judged | None, failure: str) -> int:
    """Write the report, print what was found and the last line.

    Args:
        name: what the last line begins with.
        verdict: None when the run did not come to its end; `failure` says why.

    Returns:
        The exit code: 0 for a PASS, 1 for anything else.
    """
    passed = verdict is not None and verdict.passed and not failure
    write_json(
        settings.report,
        view.steps,
        failure,
        passed=verdict is not None and verdict.passed,
        faults=(*verdict.examples, *verdict.errors) if verdict is not None else (),
        settings=settings,
        verdict=asdict(verdict) if verdict is not None else None,
    )
    for line in (*verdict.examples, *verdict.errors[:10]) if verdict is not None else ():
        view.console.print(f"   {line}", style="red", markup=False)
    sys.stdout.write(last_line(name, verdict, failure) + "\n")
    return 0 if passed else 1


def last_line(name: str, verdict: Judged | None, failure: str) -> str:
    """The last line on stdout."""
    if verdict is None:
        return f"{name}: FAIL {failure}"
    return f"{name}: {'PASS' if verdict.passed and not failure else 'FAIL'} {verdict.counts}"
