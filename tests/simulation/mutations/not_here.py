"""What cannot be found by the simulation, and why. Each is proved elsewhere, as its reason says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_HERE: Final[Mapping[str, str]] = {
    "slow source": "no fault: it gives what forgets writes under a fence something to forget",
    "past: a broken rule of a way back ends it silently": "what `describe` says is not judged",
    "past: 30 s of writes to a leader that is dead": "how long clients wait is not judged",
    "past: clients drop the coordinators they know": "likewise: they find them again",
    "past: memory that malloc holds free": "memory is not simulated; `make soak` measures it",
    "past: time stamps of a clock an hour ahead are refused": "the broker model takes any time stamp",
}

OPEN: Final[Mapping[str, str]] = {
    "hole 12: a topic that a broker does not know is no map": "no broker of the model lags with its metadata for long",
    "hole 14: positions outlive the target's log": "no fault loses what the target acknowledged; see `faults.py`",
    "hole 15b: a failover's end by positions": "no failover of a translated topic with appends under way",
    "hole 15c: a reverse compares ends only": "no fault writes another history to the source",
    "past: an abort of a transaction that never began": "producers that end by an error are not judged yet",
    "past: offsets of a transaction refused for good": "no pipeline takes part in short lives",
    "past: writes to the target by old routes, without a lease": "no follower is stopped over a way home yet",
    "past: offsets of a translated topic after a failover of its way back": "no such failover takes part yet",
}
"""What could be found here, and no run does yet, with what the runs lack. They count as seeded."""
