"""`python -m demo.topologies`: a chain, both ways, two sources. Exit code 0 for a PASS, 1 for anything else."""

from __future__ import annotations

import argparse
import sys

from demo.outcome import add_options, chosen, end
from demo.performance import open_view, perform
from demo.topologies.acts import judge, link, loops, move, prepare, promote
from demo.topologies.run import TopologyRun
from demo.topologies.settings import TopologySettings
from demo.topologies.verdict import TopologyVerdict


def main() -> int:
    """Run, report, clean up."""
    settings = _settings()
    view = open_view("Three clusters: a chain, links both ways, and two sources of one target")
    _, verdict, failure = perform(view, lambda: TopologyRun(settings, view), _acts)
    return end("demo-topologies", settings, view, verdict, failure)


def _acts(run: TopologyRun) -> TopologyVerdict:
    prepare(run)
    link(run)
    move(run)
    loops(run)
    promote(run)
    return judge(run)


def _settings() -> TopologySettings:
    parser = argparse.ArgumentParser(prog="python -m demo.topologies", description=__doc__)
    add_options(parser, TopologySettings())
    return TopologySettings(**chosen(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
