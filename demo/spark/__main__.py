"""`python -m demo.spark`: a backlog copied by Spark under fire. Exit code 0 for a PASS, 1 for anything else."""

from __future__ import annotations

import argparse
import fcntl
import sys
from pathlib import Path

from demo.performance import open_view, perform
from demo.spark.acts import Judgement, copy, judge, prepare
from demo.spark.report import faults, last_line, write_report
from demo.spark.run import Run
from demo.spark.settings import FAULTS, Settings


def main() -> int:
    """Run, report, clean up."""
    settings = _settings()
    view = open_view("A backlog copied by Spark while producers write on")
    settings.folder.mkdir(parents=True, exist_ok=True)
    with (settings.folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.stdout.write(f"demo-spark: FAIL another one is running in {settings.folder}\n")
            return 1
        run, judgement, failure = perform(view, lambda: Run(settings, view), _acts)
    write_report(settings, view.steps, run, judgement, failure)
    found = faults(run, judgement) if run is not None and judgement is not None else []
    for fault in found[:10]:
        view.console.print(f"[red]{fault}[/red]")
    sys.stdout.write(last_line(run, judgement, failure) + "\n")
    return 1 if failure or judgement is None or found else 0


def _acts(run: Run) -> Judgement:
    prepare(run)
    copy(run)
    return judge(run)


def _settings() -> Settings:
    known = Settings()
    parser = argparse.ArgumentParser(prog="python -m demo.spark", description=__doc__)
    parser.add_argument("--backlog-mb", type=int, default=known.backlog_mb, help="default: %(default)s")
    parser.add_argument("--rate", type=float, default=known.rate, help="records/s of each producer: %(default)s")
    parser.add_argument("--copy-s", type=float, default=known.copy_s, help="seconds that the copy takes: %(default)s")
    parser.add_argument("--fault", choices=FAULTS, default=known.fault, help="spoil something, to see a FAIL")
    parser.add_argument("--folder", type=Path, default=known.folder, help="logs, configs, data: %(default)s")
    parser.add_argument("--report", type=Path, default=known.report, help="JSON: %(default)s")
    args = parser.parse_args()
    return Settings(
        backlog_mb=args.backlog_mb,
        rate=args.rate,
        copy_s=args.copy_s,
        fault=args.fault,
        folder=args.folder.absolute(),
        report=args.report.absolute(),
    )


if __name__ == "__main__":
    sys.exit(main())
