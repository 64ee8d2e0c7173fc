"""Whether what was said when somebody asked was true then: what a failover would leave behind, before one is asked for,
and what a scrape counts behind a cutover. Pure.

Clients write while an answer is made. So a number is held against the fewest and the most that it may have been between
question and answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_AFTER_CUTOVER: Final = re.compile(r"^lockgate_mirror_records_after_cutover\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE)


class Ends(NamedTuple):
    """Of one partition, at one time, in equal offsets: where the source's log ends for a reader and for its leader, and
    the same of the copy's."""

    readable: int
    source: int
    copied: int
    copy: int


def wrong_failover(shown: Mapping[str, Any], before: Mapping[int, Ends], after: Mapping[int, Ends]) -> Iterator[str]:
    """A line for each partition of which a dry run of a failover tells a number that it cannot have been.

    Args:
        shown: its answer.
        before: when it was asked for; `after`: when it was answered.
    """
    told = {int(index): count for index, count in shown["records_not_mirrored"].items()}
    is_exact = shown["records_not_mirrored_exact"]
    for index in sorted(before.keys() & after.keys()):
        fewest = max(0, before[index].readable - after[index].copy)
        most = max(0, after[index].source - before[index].copied)
        count = told.get(index, 0)
        if count < 0:  # nobody knows, it says
            continue
        if count > most or (is_exact and count < fewest):
            yield f"a failover is said to leave {count} records of partition {index}, and it is {fewest} to {most}"


def wrong_scrape(text: str, topic: str, told: int) -> Iterator[str]:
    """A line if the leader's metrics count something else behind a topic's cutover than `describe` tells at rest."""
    for labels, value in _AFTER_CUTOVER.findall(text):
        if f'topic="{topic}"' in labels and int(float(value)) != told:
            yield f"metrics tell of {value} records behind its cutover, and describe of {told}"
