"""`python -m tests.checker HISTORY.jsonl [--json FILE] [--allow CLASS ...]`.

Exit code 0: valid, 1: faults, 2: the history cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.checker.check import check
from tests.checker.model import HistoryError
from tests.checker.verdict import CLASSES


def main(argv: list[str] | None = None) -> int:
    """Judge the history that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m tests.checker", description="Judge a recorded history.")
    parser.add_argument("history", help="a file of JSON lines (tests/checker/FORMAT.md), or - for standard input")
    parser.add_argument("--json", type=Path, help="write the verdict there as JSON, too")
    parser.add_argument("--allow", action="append", default=[], choices=CLASSES, help="no fault in this run")
    args = parser.parse_args(argv)
    try:
        if args.history == "-":
            verdict = check(sys.stdin)
        else:
            with Path(args.history).open(encoding="utf-8") as lines:
                verdict = check(lines)
    except (HistoryError, OSError, UnicodeDecodeError) as exc:
        sys.stderr.write(f"checker: {exc}\n")
        return 2
    if args.json is not None:
        args.json.write_text(json.dumps(verdict.as_json(args.allow), indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(verdict.as_text(args.allow) + "\n")
    return 1 if verdict.faults(args.allow) else 0


if __name__ == "__main__":
    sys.exit(main())
