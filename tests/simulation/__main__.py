"""`python -m tests.simulation`: one seed told as a story, or many seeds counted. Exit code 0: passed, 1: not.

python -m tests.simulation --seed 7            the story of one seed, run twice, and whether both were the same
python -m tests.simulation --seeds 2000        so many (systematic pairs first), a line for each that fails
python -m tests.simulation --seconds 60        as many as that takes, on all cores
python -m tests.simulation --shrink --seed 7   the smallest plan that still fails, as JSON
python -m tests.simulation --plan FILE         such a plan again
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUILD = Path(__file__).parents[2] / "build"


@dataclass
class Totals:
    """Of many runs."""

    seeds: int = 0
    migrations: int = 0
    faults: int = 0
    leaders_lost: int = 0
    pairs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    cpu_s: float = 0.0
    virtual_s: float = 0.0

    def add(self, result: dict[str, Any]) -> None:
        """One run more."""
        self.seeds += 1
        self.migrations += result["migrations"]
        self.faults += result["faults"]
        self.leaders_lost += result["leaders_lost"]
        self.pairs.update({tuple(key): count for key, count in result["pairs"]})
        self.counts.update(result["counts"])
        self.cpu_s += result["cpu_s"]
        self.virtual_s += result["virtual_s"]
        if result["failure"]:
            self.failures.append(result)


def main(argv: list[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description="The fleet in virtual time, judged."
    )
    parser.add_argument("--seed", type=int, help="tell one seed as a story")
    parser.add_argument("--seeds", type=int, help="run so many seeds")
    parser.add_argument("--first", type=int, help="--seeds from this one on (100000 and on: random faults)")
    parser.add_argument("--seconds", type=float, help="begin no more seeds after so long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", action="store_true", help="make the failing --seed small")
    parser.add_argument("--plan", type=Path, help="run a plan of a file")
    parser.add_argument("--patch", default="", help="a seeded fault of tests.simulation.mutations: must be found")
    parser.add_argument("--report", type=Path, default=BUILD / "simulate.json")
    args = parser.parse_args(argv)
    if args.seed is not None or args.plan is not None:
        return _one(args)
    return _many(args)


def _one(args: argparse.Namespace) -> int:
    from tests.simulation.mutations import patched
    from tests.simulation.plan import RunPlan, plan
    from tests.simulation.shrink import shrink
    from tests.simulation.story import first_difference
    from tests.simulation.world import simulate

    chosen = RunPlan.from_json(json.loads(args.plan.read_text(encoding="utf-8"))) if args.plan else plan(args.seed)
    with patched(args.patch):
        if args.shrink:
            chosen = shrink(chosen, lambda candidate: simulate(candidate).failure)
            sys.stdout.write(json.dumps(chosen.as_json(), indent=1) + "\n")
        outcome = simulate(chosen)
        for line in outcome.story:
            sys.stdout.write(f"{line}\n")
        again = simulate(chosen)
    same = first_difference(outcome.story, again.story)
    if same:
        sys.stdout.write(f"NOT THE SAME TWICE: {same}\n")
    word = "FAIL" if outcome.failure or same else "PASS"
    sys.stdout.write(
        f"simulate: {word} seed={chosen.seed} migrations={outcome.migrations} faults={outcome.faults} "
        f"leaders_lost={outcome.leaders_lost} virtual_s={outcome.virtual_s:.1f} story={outcome.digest} "
        f"{outcome.failure}{': ' if outcome.failure else ''}{outcome.why}\n"
    )
    return 1 if outcome.failure or same else 0


def _many(args: argparse.Namespace) -> int:
    from tests.simulation.judge import CLASSES
    from tests.simulation.plan import PAIRS

    began = time.monotonic()
    totals = Totals()
    for result in _results(args, began):
        totals.add(result)
        if result["failure"]:
            sys.stdout.write(f"seed {result['seed']}: {result['failure']}: {result['why'][:600]}\n")
            sys.stdout.flush()
    took_s = time.monotonic() - began
    hit = sum((op.value, step, kind.value) in totals.pairs for op, step, kind in PAIRS)
    _report(args.report, totals)
    names = CLASSES[: CLASSES.index("failed_topics")]
    numbers = " ".join(f"{name}={totals.counts[name]}" for name in names)
    failed = sum(one["failure"] == "failed_topics" for one in totals.failures)
    stuck = sum(one["failure"] == "stuck" for one in totals.failures)
    other = len(totals.failures) - failed - stuck
    word = "FAIL" if totals.failures or not totals.seeds else "PASS"
    sys.stdout.write(
        f"{totals.migrations / max(took_s, 0.001) * 60:.0f} migrations a minute on {args.jobs} process(es), "
        f"{totals.migrations / max(totals.cpu_s, 0.001) * 60:.0f} a CPU minute; "
        f"{totals.virtual_s / 3600:.1f} h of virtual time; leaders lost between an append and its replication: "
        f"{totals.leaders_lost}; {other} run(s) that failed otherwise\n"
    )
    sys.stdout.write(
        f"simulate: {word} seeds={totals.seeds} migrations={totals.migrations} faults={totals.faults} "
        f"pairs={hit} of {len(PAIRS)} {numbers} failed_topics={failed} stuck={stuck}\n"
    )
    return 1 if word == "FAIL" else 0


def _results(args: argparse.Namespace, began: float) -> Iterator[dict[str, Any]]:
    """Of every seed, in the order in which they end. A process that dies is a result, too."""
    from tests.simulation.plan.chosen import chosen
    from tests.simulation.runs import run_seeds

    count = args.seeds if args.seeds is not None else 1_000_000
    until = None if args.seconds is None else began + args.seconds
    seeds = chosen(count) if args.first is None else range(args.first, args.first + count)
    fork = multiprocessing.get_context("fork")
    told: multiprocessing.Queue[dict[str, Any] | None] = fork.Queue()
    workers = [
        fork.Process(target=run_seeds, args=(seeds[n :: args.jobs], until, args.patch, told.put))
        for n in range(args.jobs)
    ]
    for worker in workers:
        worker.start()
    left = len(workers)
    while left:
        try:
            result = told.get(timeout=1.0)
        except queue.Empty:
            if not any(worker.is_alive() for worker in workers):
                raise RuntimeError(f"a worker died: exit codes {[w.exitcode for w in workers]}") from None
            continue
        if result is None:
            left -= 1
        else:
            yield result
    for worker in workers:
        worker.join()


def _report(path: Path, totals: Totals) -> None:
    """What was hit how often, and what was never."""
    from tests.simulation.plan import AS_ONE_STEPS, MORE_PAIRS, PAIRS, FaultKind

    as_one = [(op, step, kind) for op, steps in AS_ONE_STEPS.items() for step in steps for kind in FaultKind]

    pairs, more, one = (
        {f"{op.value} / {step} / {kind.value}": totals.pairs[op.value, step, kind.value] for op, step, kind in each}
        for each in (PAIRS, MORE_PAIRS, as_one)
    )
    path.parent.mkdir(exist_ok=True)
    never = [name for name, count in pairs.items() if not count]
    value = {"pairs": pairs, "more_pairs": more, "as_one_pairs": one, "never": never, "failures": totals.failures}
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings must have the same order in every run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
