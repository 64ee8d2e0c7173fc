"""Run and print."""

from __future__ import annotations

import argparse
import cProfile
import sys
from contextlib import ExitStack
from unittest.mock import patch

from gateway.runtime import peering
from tests.simulation import scale
from tests.simulation.fleet import logs
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.scale.rounds import Rounds
from tests.simulation.scale.run import Scale, Size
from tests.simulation.scale.table_engine import TableEngine


def main() -> None:
    """See the package."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.scale", description=scale.__doc__)
    parser.add_argument("--partitions", type=int, default=4_000)
    parser.add_argument("--per-topic", type=int, default=20, help="partitions of a topic")
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--set", type=int, default=50, help="topics that are promoted as one set")
    parser.add_argument("--tables", action="store_true", help="copy nothing: what is left is the fleet's own work")
    parser.add_argument("--rounds", action="store_true", help="see rounds.py")
    parser.add_argument("--profile", help="write a profile of each step to files that begin so")
    args = parser.parse_args()
    if args.rounds:
        rounds = Rounds(args.partitions, args.per_topic, args.gateways)
        with logs.told_to(None):
            rounds.run()
        sys.stdout.writelines(f"{cost}\n" for cost in rounds.costs)
        return
    size = Size(args.partitions, args.per_topic, args.gateways, args.set)
    with ExitStack() as stack:
        stack.enter_context(logs.told_to(None))
        if args.tables:
            stack.enter_context(patch.object(peering, "Engine", TableEngine))
        loop = stack.enter_context(SimLoop(seed=1))
        profile = cProfile.Profile() if args.profile else None
        run = Scale(loop, size, profile=profile, profiles=args.profile or "")
        loop.run_until_complete(run.run())


if __name__ == "__main__":
    main()
