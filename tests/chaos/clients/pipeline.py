"""What a consume-transform-produce pipeline owes: each record that it reads is written once to another topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tests.chaos.plan import PIPELINE
from tests.support.brokers.logs import Log

GROUP, OUTPUT = PIPELINE
OUTPUT_PARTITIONS: Final = 2
_OF: Final = b"|"  # behind the value that was read, before the writer's own name and number


def not_once(inputs: Mapping[str, Sequence[Log]], outputs: Sequence[Log]) -> str:
    """What was not written exactly once of what the group's topics hold, in one line; '' when everything was."""
    read = Counter(record.value or b"" for topic in inputs.values() for log in topic for record in log)
    written = Counter((record.value or b"").rsplit(_OF, 1)[0] for log in outputs for record in log)
    if missing := read - written:
        return f"{sum(missing.values())} record(s) were not processed, such as {next(iter(missing))!r}"
    if more := written - read:
        return f"{sum(more.values())} record(s) were processed again, such as {next(iter(more))!r}"
    return ""
