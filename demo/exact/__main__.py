"""`python -m demo.exact`: over and back, exactly. Exit code 0 for a PASS, 1 for anything else."""

from __future__ import annotations

import argparse
import sys

from demo.exact.acts import judge, migrate, prepare, there_and_back
from demo.exact.run import ExactRun
from demo.exact.settings import ExactSettings
from demo.exact.verdict import ExactVerdict
from demo.outcome import add_options, chosen, end
from demo.performance import open_view, perform


def main() -> int:
    """Run, report, clean up."""
    settings = _settings()
    view = open_view("A plain, a transactional and a compacted topic go over and come back")
    _, verdict, failure = perform(view, lambda: ExactRun(settings, view), _acts)
    return end("demo-exact", settings, view, verdict, failure)


def _acts(run: ExactRun) -> ExactVerdict:
    prepare(run)
    migrate(run)
    there_and_back(run)
    return judge(run)


def _settings() -> ExactSettings:
    known = ExactSettings()
    parser = argparse.ArgumentParser(prog="python -m demo.exact", description=__doc__)
    parser.add_argument("--backlog", type=int, default=known.backlog, help="records per topic (default: %(default)s)")
    add_options(parser, known)
    args = parser.parse_args()
    return ExactSettings(backlog=args.backlog, **chosen(args))


if __name__ == "__main__":
    sys.exit(main())
