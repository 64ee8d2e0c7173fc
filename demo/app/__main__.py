"""`python -m demo.app`: applications go over as sets, come home, go over again. Exit code 0 for a PASS, 1 otherwise."""

from __future__ import annotations

import argparse
import sys

from demo.app.acts import discover, move, prepare, promote, rehearse
from demo.app.home import promote_again, undo
from demo.app.judge import judge
from demo.app.run import AppRun
from demo.app.settings import AppSettings
from demo.app.verdict import AppVerdict
from demo.outcome import add_options, chosen, end
from demo.performance import open_view, perform


def main() -> int:
    """Run, report, clean up."""
    settings = _settings()
    view = open_view("Four applications go over as sets from one file, come home, and go over again")
    _, verdict, failure = perform(view, lambda: AppRun(settings, view), _acts)
    return end("demo-app", settings, view, verdict, failure)


def _acts(run: AppRun) -> AppVerdict:
    prepare(run)
    discover(run)
    move(run)
    rehearse(run)
    promote(run)
    undo(run)
    promote_again(run)
    return judge(run)


def _settings() -> AppSettings:
    parser = argparse.ArgumentParser(prog="python -m demo.app", description=__doc__)
    add_options(parser, AppSettings())
    return AppSettings(**chosen(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
