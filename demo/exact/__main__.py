"""`python -m demo.exact`: over and back, exactly. Exit code 0 for a PASS, 1 for anything else."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from demo.exact.acts import judge, migrate, prepare, there_and_back
from demo.exact.report import last_line, print_examples, result, write_report
from demo.exact.run import ExactRun
from demo.exact.settings import ExactSettings
from demo.exact.verdict import ExactVerdict
from demo.performance import open_view, perform


def main() -> int:
    """Run, report, clean up."""
    settings = _settings()
    view = open_view("A plain, a transactional and a compacted topic go over and come back")
    _, verdict, failure = perform(view, lambda: ExactRun(settings, view), _acts)
    write_report(settings, view.steps, verdict, failure)
    if verdict is not None:
        print_examples(view.console, verdict)
    sys.stdout.write(last_line(verdict, failure) + "\n")
    return 0 if result(verdict, failure) == "PASS" else 1


def _acts(run: ExactRun) -> ExactVerdict:
    prepare(run)
    migrate(run)
    there_and_back(run)
    return judge(run)


def _settings() -> ExactSettings:
    known = ExactSettings()
    parser = argparse.ArgumentParser(prog="python -m demo.exact", description=__doc__)
    parser.add_argument("--backlog", type=int, default=known.backlog, help="records per topic (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=known.rate, help="records/s of each (default: %(default)s)")
    parser.add_argument("--traffic", type=float, default=known.traffic_s, help="seconds per act (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=known.folder, help="logs, configs, data (default: %(default)s)")
    parser.add_argument("--report", type=Path, default=known.report, help="JSON (default: %(default)s)")
    parser.add_argument("--keep-data", action="store_true", help="keep the brokers' data for a look afterwards")
    args = parser.parse_args()
    return ExactSettings(
        backlog=args.backlog,
        rate=args.rate,
        traffic_s=args.traffic,
        folder=args.folder.absolute(),
        report=args.report.absolute(),
        keep_data=args.keep_data,
    )


if __name__ == "__main__":
    sys.exit(main())
