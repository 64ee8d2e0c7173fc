"""`python -m tests.simulation.mutations`: puts every fault into the code, and runs the simulation until it is found.

python -m tests.simulation.mutations                  all of them
python -m tests.simulation.mutations --only "hole 9"  those whose names begin so
python -m tests.simulation.mutations --clean          their runs without the faults: all must pass

A line for each: the number of runs until it was found, and what the judges said. Then what cannot be found here, and
why, and what no run finds yet. The last line is `simulate-mutations: PASS seeded=N caught=N`, with exit code 0, or FAIL
with 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tests.simulation.mutations import mutations, patched
from tests.simulation.mutations.not_here import NOT_HERE, OPEN
from tests.simulation.mutations.patching import Mutation
from tests.simulation.world import simulate

_LIMIT_S: Final = 120.0
"""Of CPU or waiting, for all runs of one mutation."""


class Found(NamedTuple):
    """`runs`: how many it took; `why`: what the judges said, '' when nothing was found."""

    runs: int
    why: str


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
        verdict = f"found in run {found.runs}: {found.why}" if found.why else f"NOT FOUND in {found.runs} runs"
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
    try:
        if here.poll(_LIMIT_S):
            return Found(*here.recv())
        return Found(0, f"not over after {_LIMIT_S:g} s: it runs in circles")
    except EOFError:
        return Found(0, "")
    finally:
        if worker.is_alive():
            worker.join(1.0)
            worker.kill()
        worker.join()


def _look(mutation: Mutation, clean: bool, told: Any) -> None:
    for number, run in enumerate(mutation.plans, 1):
        try:
            with patched("" if clean else mutation.name):
                why = simulate(run).why
        except Exception:  # noqa: BLE001 - the harness failed, which counts as nothing found
            why = "" if not clean else traceback.format_exc()
            sys.stderr.write(traceback.format_exc())
        if why:
            told.send((number, why))
            return
    told.send((len(mutation.plans), ""))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation.mutations", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
