"""`python -m tests.checker.merge FILE... > HISTORY.jsonl`: the files of several clients as one history, by `time`.

Each file is in order already. A line without its end (its client was killed) at the end of a file is dropped.
"""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def merge(paths: Iterable[Path]) -> Iterator[str]:
    """All lines of all files, in the order of their times."""
    for _, _, line in heapq.merge(*(_timed(number, path) for number, path in enumerate(paths))):
        yield line


def _timed(number: int, path: Path) -> Iterator[tuple[int, int, str]]:
    at = 0
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                at = max(at, json.loads(line).get("time", at))
                yield at, number, line


if __name__ == "__main__":
    sys.stdout.writelines(merge(map(Path, sys.argv[1:])))
