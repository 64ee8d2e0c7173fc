"""`python -m bench`: run the loads, print the table and the last line, write the JSON file.

Exit code 0 when every load could be measured, 1 otherwise. There are no thresholds: a figure is not a verdict.
"""

from __future__ import annotations

import argparse
import fcntl
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.catalogue import all_loads
from bench.contestants.haproxy import INSTALL, haproxy_binary
from bench.errors import BenchError
from bench.headline import last_line
from bench.lab import OTHERS, Lab
from bench.loads.load import Load
from bench.micro_report import run_micro
from bench.outcome import Outcome
from bench.process import ROOT
from bench.report import print_report, write_report
from bench.rounds import Runner
from bench.settings import PROFILES
from gateway.devcluster import DevClusterError


def main() -> int:
    """Run, report, clean up."""
    args = _arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    args.folder.mkdir(parents=True, exist_ok=True)
    with (args.folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            console.print(f"another bench is running in {args.folder}")
            return 1
        outcome = _run(args, console)
    write_report(args.report, outcome)
    print_report(console, outcome)
    sys.stdout.write(last_line(outcome.samples) + "\n")
    return 1 if outcome.failures else 0


def _run(args: argparse.Namespace, console: Console) -> Outcome:
    outcome = Outcome(PROFILES[args.profile], partial=bool(args.only))
    if haproxy_binary() is None:
        console.print(INSTALL)
    loads = [load for load in all_loads() if not args.only or load.name in args.only]
    try:
        if loads:
            _measure(args, loads, outcome)
        if not args.only or "micro" in args.only:
            outcome.micro = run_micro(outcome.profile.micro, args.folder)
    except KeyboardInterrupt as interrupt:
        outcome.failures["bench"] = f"interrupted by {str(interrupt) or 'Ctrl-C'}"
    except (BenchError, DevClusterError) as error:
        outcome.failures["bench"] = str(error)
    outcome.finished()
    return outcome


def _measure(args: argparse.Namespace, loads: Sequence[Load], outcome: Outcome) -> None:
    began = time.monotonic()
    lab = Lab(outcome.profile, args.folder, {name: path for name in OTHERS if (path := getattr(args, name))})
    try:
        lab.start()
        Runner(lab, outcome.samples, outcome.failures, _say, began).run(loads)
    finally:
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave brokers behind
        lab.close()
        signal.signal(signal.SIGINT, previous)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _interrupt(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def _arguments() -> argparse.Namespace:
    names = [load.name for load in all_loads()]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="full", help="sizes (default: %(default)s)")
    parser.add_argument(
        "--only", nargs="*", choices=[*names, "micro"], metavar="LOAD", help=", ".join([*names, "micro"])
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench", help="logs and data")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "bench.json")
    for name in OTHERS:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=Path, metavar="PROGRAM", help="have it take part, too")
    args = parser.parse_args()
    args.folder, args.report = args.folder.absolute(), args.report.absolute()
    return args


if __name__ == "__main__":
    sys.exit(main())
