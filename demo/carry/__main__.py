"""`python -m demo.carry`: an application moves with all that it depends on. Exit code 0 for a PASS, 1 otherwise."""

from __future__ import annotations

import argparse
import sys

from demo.carry.acts import link, move, prepare, promote
from demo.carry.judge import judge
from demo.carry.run import CarryRun
from demo.carry.settings import CarrySettings
from demo.carry.verdict import CarryVerdict
from demo.outcome import add_options, chosen, end
from demo.performance import open_view, perform


def main() -> int:
    """Run, report, clean up."""
    settings = _settings()
    view = open_view("An application moves with its rights, users, quotas, schemas and a share group")
    _, verdict, failure = perform(view, lambda: CarryRun(settings, view), _acts)
    return end("demo-carry", settings, view, verdict, failure)


def _acts(run: CarryRun) -> CarryVerdict:
    prepare(run)
    link(run)
    move(run)
    promote(run)
    return judge(run)


def _settings() -> CarrySettings:
    parser = argparse.ArgumentParser(prog="python -m demo.carry", description=__doc__)
    add_options(parser, CarrySettings())
    return CarrySettings(**chosen(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
