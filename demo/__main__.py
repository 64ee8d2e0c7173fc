"""`python -m demo`: run the whole migration and judge it. Exit code 0 for a PASS, 1 for anything else."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from demo.acts.cut import cut
from demo.acts.judge import judge
from demo.acts.link import link
from demo.acts.move import move
from demo.acts.prepare import prepare
from demo.checker import Limits, Verdict
from demo.performance import open_view, perform
from demo.report import last_line, print_report, write_report
from demo.run import Run
from demo.settings import Settings


def main() -> int:
    """Run, report, clean up."""
    settings = _settings()
    heading = "A migration without a gateway: one cluster" if settings.direct else "A migration between two clusters"
    view = open_view(heading)
    _, verdict, failure = perform(view, lambda: Run(settings, view), _acts)
    write_report(settings.report, settings, view.steps, verdict, failure)
    if verdict is not None:
        print_report(view.console, settings, view.steps, verdict)
    sys.stdout.write(last_line(settings, verdict, failure) + "\n")
    return 1 if failure or verdict is None or verdict.faults(settings.limits) else 0


def _acts(run: Run) -> Verdict:
    prepare(run)
    if not run.settings.direct:
        link(run)
    move(run)
    if not run.settings.direct:
        cut(run)
    with run.view.step(f"{run.settings.traffic_after_kill_s:.0f} s more of traffic"):
        run.pause(run.settings.traffic_after_kill_s)
    return judge(run)


def _settings() -> Settings:
    known = Settings()
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--direct", action="store_true", help="one cluster, no gateway: proves clients and checker")
    parser.add_argument("--backlog", type=int, default=known.backlog, help="records (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=known.rate, help="records per second (default: %(default)s)")
    parser.add_argument("--traffic", type=float, default=known.traffic_after_kill_s, help="seconds after the kill")
    parser.add_argument("--folder", type=Path, default=known.folder, help="logs, configs, data (default: %(default)s)")
    parser.add_argument("--report", type=Path, default=known.report, help="JSON (default: %(default)s)")
    parser.add_argument("--keep-data", action="store_true", help="keep the brokers' data for a look afterwards")
    parser.add_argument("--max-promote-gap-ms", type=int, default=known.limits.promote_gap_ms)
    parser.add_argument("--max-group-switch-ms", type=int, default=known.limits.group_switch_ms)
    args = parser.parse_args()
    return Settings(
        direct=args.direct,
        backlog=args.backlog,
        rate=args.rate,
        traffic_after_kill_s=args.traffic,
        keep_data=args.keep_data,
        folder=args.folder.absolute(),
        report=args.report.absolute(),
        limits=Limits(args.max_promote_gap_ms, args.max_group_switch_ms),
    )


if __name__ == "__main__":
    sys.exit(main())
