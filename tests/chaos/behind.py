"""The lines of a history behind a finding, for whoever has no more of a run than what it printed."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.checker.verdict import Verdict

LINES = 24
WIDTH = 240
_PLACE = re.compile(r"(?:group (?P<group>\S+) \(\S+\)|(?P<process>\S+)) in (?P<key>\S+/\d+), line (?P<line>\d+)")


def behind(verdict: Verdict, history: Sequence[str]) -> Iterator[str]:
    """Of the first finding of each class that names a reader, a key and a line: what its readers did up to there.

    Args:
        history: the lines that the verdict was about.
    """
    for name in (name for name, count in verdict.counts.items() if count):
        found = _PLACE.search(verdict.examples[name][0])
        if found is None:
            continue
        yield f"behind {name}, the last lines of its readers up to line {found['line']}:"
        yield from _lines(history[: int(found["line"])], found["key"], found["group"] or found["process"])


def _lines(history: Iterable[str], key: str, reader: str) -> Iterator[str]:
    """What the reader's processes did with the key, and where the reader was moved to."""
    last: deque[str] = deque(maxlen=LINES)
    for number, line in enumerate(history, start=1):
        if reader not in line:
            continue
        op = json.loads(line)
        value = op.get("value")
        if op["f"] == "poll":
            told = _span(value, key)
        elif op["f"] in ("open", "move"):
            told = json.dumps(value)
        else:
            told = key + (f" {value[key]}" if isinstance(value, Mapping) else "") if value and key in value else ""
        if told:
            last.append(f"  {number} {op.get('time', '')} {op['process']} {op['type']} {op['f']} {told}"[:WIDTH])
    yield from last


def _span(value: object, key: str) -> str:
    """First and last record of the key that a poll brought; '' if it brought none."""
    parts = value if isinstance(value, list) else []
    for part in parts:
        records = part[1].get(key) if len(part) > 1 else None
        if records:
            return f"{key} {records[0]} to {records[-1]}"
    return ""
