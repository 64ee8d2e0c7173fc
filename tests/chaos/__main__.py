"""`python -m tests.chaos --duration S --seed N`. Exit code 0: passed, 1: not."""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.chaos.burners import burning
from tests.chaos.cast import SETS, groups_of
from tests.chaos.daily import with_daily
from tests.chaos.disks import unmount_all
from tests.chaos.joined import with_joined
from tests.chaos.losses import LOSSES, with_losses
from tests.chaos.plan import NETWORK, PROCESSES, plan, source_kafka
from tests.chaos.run import Run
from tests.mutations.gateway.patches import PATCHES

BUILD = Path(__file__).parents[2] / "build"


def main(argv: list[str] | None = None) -> int:
    """Plan, perform, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Random faults, judged.")
    parser.add_argument("--duration", type=float, default=120.0, help="seconds in which faults begin")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="repeats a plan")
    parser.add_argument("--gateways", type=int, default=2, choices=(1, 2, 3))
    kinds = sorted({*NETWORK, *PROCESSES, *LOSSES})
    parser.add_argument("--without", nargs="+", default=[], choices=kinds, metavar="KIND", help="leave faults out")
    parser.add_argument("--plan", action="store_true", help="only show what would be done")
    parser.add_argument("--folder", type=Path, default=BUILD / "chaos", help="logs and history of this run")
    parser.add_argument("--report", type=Path, default=BUILD / "chaos.json")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="so many processes burn CPU beside it")
    parser.add_argument("--patch", default="", choices=sorted(PATCHES), help="a fault in the gateways: must be found")
    args = parser.parse_args(argv)
    groups = groups_of(source_kafka(args.seed))
    drawn = plan(args.seed, args.duration, args.gateways, tuple(SETS), groups, frozenset(args.without))
    chosen = with_losses(with_joined(with_daily(drawn)), frozenset(args.without))
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:7.1f} s  {text}\n")
        sys.stdout.flush()

    say(f"seed {args.seed}, duration {args.duration:g} s, {args.gateways} gateway(s)")
    sys.stdout.write("\n".join(chosen.lines()) + "\n")
    if args.plan:
        return 0
    unmount_all(args.folder)
    _clear(args.folder, args.report)
    args.folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # its brokers must not outlive it
    with burning(args.busy):
        report = Run(chosen, args.folder, say, args.patch).perform()
    args.report.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    if report.verdict is not None:
        sys.stdout.write(report.verdict.as_text() + "\n")
    sys.stdout.write(report.last_line() + "\n")
    return 0 if report.passed else 1


def _clear(folder: Path, report: Path) -> None:
    """What the last run left goes, unless it failed: its logs and history are all there is to find out why."""
    try:
        failed = not json.loads(report.read_text(encoding="utf-8"))["passed"]
    except (OSError, ValueError, KeyError):
        failed = False
    if failed and folder.is_dir():
        kept = folder.with_name(f"{folder.name}-failed")
        shutil.rmtree(kept, ignore_errors=True)
        folder.rename(kept)
        report.rename(kept / report.name)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
