"""`python -m tests.simulation.mutations`: puts every fault into the code, and runs the simulation until it is found.

python -m tests.simulation.mutations                  all of them
python -m tests.simulation.mutations --only "hole 9"  those whose names begin so
python -m tests.simulation.mutations --clean          their runs without the faults: all must pass

A line for each: the number of runs until it was found, and what the judges said. A run counts that reached all that
the fault has changed, and passes without the fault. Then what cannot be found here, and why, and what no run finds yet.
The last line is `simulate-mutations: PASS seeded=N caught=N`, with exit code 0, or FAIL with 1.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tests.simulation.mutations import mutations, patched
from tests.simulation.mutations.not_here import NOT_HERE, OPEN
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.operations import operator
from tests.simulation.plan import RunPlan
from tests.simulation.world import simulate

_CPU_S: Final = 60
"""Of CPU for one run; without a fault none takes a quarter of it."""
_WAIT_S: Final = 1200.0
"""For all runs of a mutation, on a busy machine; what takes longer is not found."""
_PATIENCE_S: Final = 120.0
"""Of the operator: short lives know no longer wait."""


class Found(NamedTuple):
    """`runs`: how many it took; `why`: what the judges said, '' when nothing was found.

    `trouble`: why something that was found, or the mutation itself, does not count.
    """

    runs: int
    why: str
    trouble: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations", description=__doc__)
    parser.add_argument("--only", default="", help="those whose names begin so")
    parser.add_argument("--clean", action="store_true", help="without the faults: every run must pass")
    args = parser.parse_args(argv)
    chosen = [mutation for mutation in mutations().values() if mutation.name.startswith(args.only)]
    good = sum(_is_good(mutation, clean=args.clean) for mutation in chosen)
    if args.clean:
        word = "PASS" if good == len(chosen) else "FAIL"
        sys.stdout.write(f"simulate-mutations: {word} unpatched={len(chosen)} passed={good}\n")
        return int(word == "FAIL")
    for name, reason in NOT_HERE.items():
        sys.stdout.write(f"not here: {name}: {reason}\n")
    missing = {name: lacks for name, lacks in OPEN.items() if name.startswith(args.only)}
    for name, lacks in missing.items():
        sys.stdout.write(f"not found yet: {name}: {lacks}\n")
    seeded = len(chosen) + len(missing)
    word = "PASS" if chosen and good == seeded else "FAIL"
    sys.stdout.write(f"simulate-mutations: {word} seeded={seeded} caught={good}\n")
    return int(word == "FAIL")


def _is_good(mutation: Mutation, *, clean: bool) -> bool:
    found = _limited(mutation, clean)
    if clean:
        verdict = f"FAILS WITHOUT IT in run {found.runs}: {found.why}" if found.why else "passes without it"
    else:
        not_found = f"NOT FOUND in {found.runs} runs{': ' if found.trouble else ''}{found.trouble}"
        verdict = f"found in run {found.runs}: {found.why}" if found.why else not_found
    sys.stdout.write(f"{mutation.name}: {' '.join(verdict.split())[:320]}\n")
    sys.stdout.flush()
    return bool(found.why) != clean


def _limited(mutation: Mutation, clean: bool) -> Found:
    """In a process of its own: a fault may have the fleet run in circles, which is a way to be found, too."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    worker = fork.Process(target=_look, args=(mutation, clean, there))
    worker.start()
    there.close()
    number = 0
    try:
        while here.poll(_WAIT_S):
            told = here.recv()
            if isinstance(told, Found):
                return told
            number = told
        return Found(number, "")
    except EOFError:
        worker.join()
        circles = worker.exitcode == -signal.SIGXCPU
        return Found(number, f"it runs in circles: more than {_CPU_S} s of CPU" if circles else "")
    finally:
        if worker.is_alive():
            worker.join(1.0)
            worker.kill()
        worker.join()


def _look(mutation: Mutation, clean: bool, told: Any) -> None:
    """Tells the number of each run as it begins, and at the end what was found."""
    setattr(operator, "PATIENCE_S", _PATIENCE_S)  # noqa: B010 - a constant elsewhere; this process has its own
    trouble = ""
    for number, run in enumerate(mutation.plans, 1):
        told.send(number)
        try:
            why, doubt = (_run(run)[0], "") if clean else _sought(mutation, run)
        except Exception:  # noqa: BLE001 - the harness failed, which counts as nothing found
            why, doubt = (traceback.format_exc(), "") if clean else ("", traceback.format_exc())
        if why and not doubt:
            told.send(Found(number, why))
            return
        trouble = trouble or (doubt and f"run {number}: {doubt}")
    told.send(Found(len(mutation.plans), "", trouble))


def _sought(mutation: Mutation, run: RunPlan) -> tuple[str, str]:
    """What a run with the fault comes to, and why that does not count."""
    why, patching = _run(run, mutation.name)
    if patching.broken:
        return why, f"the mutation is not kept as the code is: {patching.broken}"
    if why and patching.unreached:
        return why, f"found without calling {', '.join(patching.unreached)}: {why}"
    if why and (without := _run(run)[0]):
        return why, f"fails without it, too: {without}"
    return why, ""


def _run(run: RunPlan, fault: str = "") -> tuple[str, Patching]:
    """One run, with a fault of that name."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + _CPU_S, most))
    with patched(fault) as patching:
        return simulate(run).why, patching


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation.mutations", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
