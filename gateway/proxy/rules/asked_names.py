"""How many names of topics, and of groups, a client may have the sources asked about: so many a second.

Each name of a topic that is neither on the target nor mirrored is a question to every link's source, in the link's
name, so any client could have them asked without end. So is each group that is not asked about yet. Who asks for more
waits for its turn, on all its connections together; who would have to wait for too long is closed, or told to come
again. Pure: the time is an argument.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

IN_A_REQUEST: Final = 1_000
A_SECOND: Final = 500
"""Of a principal, or of an address where nobody logs in; as many as of groups."""
LONGEST_WAIT_S: Final = 10.0
_AT_ONCE: Final = 2 * IN_A_REQUEST
_KEPT: Final = 10_000  # clients; those that asked last


class AskedNames:
    """Of all clients of a gateway."""

    def __init__(self) -> None:
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # names in the bucket, and when

    def turn(self, who: str, count: int, now: float) -> float | None:
        """In how many seconds so many may be asked about; None: not within `LONGEST_WAIT_S`, and nothing counts."""
        level, at = self._levels.pop(who, (0.0, now))
        level = max(0.0, level - (now - at) * A_SECOND)
        wait_s = max(0.0, level + count - _AT_ONCE) / A_SECOND
        if wait_s <= LONGEST_WAIT_S:
            level += count
        self._levels[who] = level, now
        if len(self._levels) > _KEPT:
            self._levels.popitem(last=False)
        return wait_s if wait_s <= LONGEST_WAIT_S else None
