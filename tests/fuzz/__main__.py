"""`python -m tests.fuzz`: conversations with a gateway, random by seed and judged. Exit code 0: passed, 1: not.

python -m tests.fuzz --seconds 600      begin no more after so long; on all cores
python -m tests.fuzz --seed 7           one, as a story
python -m tests.fuzz --file FILE        one that was written down
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
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.fuzz.generate import conversation
from tests.fuzz.judge import KINDS
from tests.fuzz.run import Result, Theatre
from tests.fuzz.shrink import shrink
from tests.fuzz.stage import STAGES
from tests.fuzz.steps import Conversation

BUILD: Final = Path(__file__).parents[2] / "build" / "fuzz"
_SHRUNKEN: Final = 3
"""Failing conversations that are made small in one run."""


def main(argv: list[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Conversations with a gateway, judged.")
    parser.add_argument("--seconds", type=float, default=60.0, help="begin no more conversations after so long")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="tell one as a story")
    parser.add_argument("--file", type=Path, help="tell one of a file as a story")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--to", type=Path, default=BUILD, help="where failing ones are written")
    args = parser.parse_args(argv)
    with Theatre().opened() as theatre:
        if args.file is not None:
            values = json.loads(args.file.read_text(encoding="utf-8"))
            return _told(theatre, Conversation.from_json(values))
        if args.seed is not None:
            return _told(theatre, _of_seed(theatre, args.seed))
        return _many(theatre, args)


def _of_seed(theatre: Theatre, seed: int) -> Conversation:
    return conversation(seed, theatre.stage(next(iter(STAGES))).topic_ids)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _told(theatre: Theatre, one: Conversation) -> int:
    _say(f"seed {one.seed}, stage: {one.stage}, {len(one.steps)} steps")
    result = theatre.had(one, _say)
    for finding in result.findings:
        _say(f"{finding.kind} at step {finding.step}: {finding.what}")
    return _verdict(1, result.frames, Counter(finding.kind for finding in result.findings))


def _many(theatre: Theatre, args: argparse.Namespace) -> int:
    for name in STAGES:
        theatre.stage(name)
    counts: Counter[str] = Counter()
    conversations = frames = 0
    failed: list[Result] = []
    for result in _results(theatre, args):
        conversations += 1
        frames += result.frames
        counts.update(finding.kind for finding in result.findings)
        for finding in result.findings:
            _say(f"seed {result.seed}, step {finding.step}: {finding.kind}: {finding.what[:400]}")
        if result.findings:
            failed.append(result)
    for result in failed[:_SHRUNKEN]:
        _shrunken(theatre, result, args.to)
    return _verdict(conversations, frames, counts)


def _shrunken(theatre: Theatre, result: Result, folder: Path) -> None:
    """The small one as a story, and in a file."""
    wanted = result.findings[0].kind
    small = shrink(_of_seed(theatre, result.seed), lambda each: wanted in theatre.had(each).kinds)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{result.seed}.json"
    path.write_text(json.dumps(small.as_json(), indent=1) + "\n", encoding="utf-8")
    _say(f"-- seed {result.seed} in {len(small.steps)} steps: python -m tests.fuzz --file {path}")
    theatre.had(small, _say)


def _verdict(conversations: int, frames: int, counts: Counter[str]) -> int:
    word = "FAIL" if counts or not conversations else "PASS"
    numbers = " ".join(f"{kind}={counts[kind]}" for kind in KINDS)
    _say(f"fuzz: {word} conversations={conversations} frames={frames} {numbers}")
    return int(word == "FAIL")


def _results(theatre: Theatre, args: argparse.Namespace) -> Iterator[Result]:
    """Of one conversation after the other, until the time is over. A worker that dies is an error."""
    until = time.monotonic() + args.seconds
    fork = multiprocessing.get_context("fork")
    told: multiprocessing.Queue[Result | None] = fork.Queue()
    workers = [
        fork.Process(target=_work, args=(theatre, args.first + number, args.jobs, until, told))
        for number in range(args.jobs)
    ]
    for worker in workers:
        worker.start()
    left = len(workers)
    while left:
        result: Any = _Nothing
        with suppress(queue.Empty):
            result = told.get(timeout=1.0)
        if result is None:
            left -= 1
        elif result is not _Nothing:
            yield result
        elif not any(worker.is_alive() for worker in workers):
            raise RuntimeError(f"a worker died: exit codes {[worker.exitcode for worker in workers]}")
    for worker in workers:
        worker.join()


class _Nothing:
    pass


def _work(theatre: Theatre, first: int, step: int, until: float, told: Any) -> None:
    seed = first
    while time.monotonic() < until:
        told.put(theatre.had(_of_seed(theatre, seed)))
        seed += step
    told.put(None)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings must have the same order in every run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.fuzz", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
