"""`python -m demo.topologies`: a chain, both ways, two sources. Exit code 0 for a PASS, 1 for anything else."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from demo.performance import open_view, perform
from demo.topologies.acts import judge, link, loops, move, prepare, promote
from demo.topologies.report import last_line, result, write_report
from demo.topologies.run import TopologyRun
from demo.topologies.settings import TopologySettings
from demo.topologies.verdict import TopologyVerdict


def main() -> int:
    """Run, report, clean up."""
    settings = _settings()
    view = open_view("Three clusters: a chain, links both ways, and two sources of one target")
    _, verdict, failure = perform(view, lambda: TopologyRun(settings, view), _acts)
    write_report(settings, view.steps, verdict, failure)
    for line in (*verdict.examples, *verdict.errors[:10]) if verdict is not None else ():
        view.console.print(f"   {line}", style="red", markup=False)
    sys.stdout.write(last_line(verdict, failure) + "\n")
    return 0 if result(verdict, failure) == "PASS" else 1


def _acts(run: TopologyRun) -> TopologyVerdict:
    prepare(run)
    link(run)
    move(run)
    loops(run)
    promote(run)
    return judge(run)


def _settings() -> TopologySettings:
    known = TopologySettings()
    parser = argparse.ArgumentParser(prog="python -m demo.topologies", description=__doc__)
    parser.add_argument("--rate", type=float, default=known.rate, help="records/s of each (default: %(default)s)")
    parser.add_argument("--traffic", type=float, default=known.traffic_s, help="seconds per act (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=known.folder, help="logs, configs, data (default: %(default)s)")
    parser.add_argument("--report", type=Path, default=known.report, help="JSON (default: %(default)s)")
    parser.add_argument("--keep-data", action="store_true", help="keep the brokers' data for a look afterwards")
    args = parser.parse_args()
    return TopologySettings(
        rate=args.rate,
        traffic_s=args.traffic,
        folder=args.folder.absolute(),
        report=args.report.absolute(),
        keep_data=args.keep_data,
    )


if __name__ == "__main__":
    sys.exit(main())
