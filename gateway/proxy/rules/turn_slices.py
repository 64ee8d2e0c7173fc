"""A slice of each turn of the event loop for work that no client can be charged for: of those who have not said yet who
they are.

A thousand connections that come, send half a login, and go cost a millisecond each ten or so, and a turn of the loop
serves all that is there: it would be a turn of a hundred milliseconds, in which nobody else is served. So what is done
for strangers of one kind (their connections accepted; what they send read, and they closed) has one slice of a turn for
all of them, whatever number of addresses they come from, and the rest waits for the next turn. Addresses take turns, so
a client that logs in does not stand behind all that one stranger sends. A slice is smaller than a client's
(`loop_shares.py`), and beside them: strangers take no client's time.

Nothing is lost by it: where nobody else wants the loop, the next turn comes at once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from gateway.proxy.rules.admission import address_of

STRANGERS_S: Final = 0.001

Work = Callable[[], None]


class TurnSlices:
    """Of one event loop and one kind of work. Who asks for more waits, as long as there may be connections.

    Args:
        clock: monotonic seconds.
        soon: has a function called in the loop's next turn.
    """

    def __init__(self, clock: Callable[[], float], soon: Callable[[Work], object]) -> None:
        self._clock = clock
        self._soon = soon
        self._spent = 0.0
        self._asked = False  # for the next turn
        self._waiting: OrderedDict[str, deque[Work]] = OrderedDict()  # by address, in the order of their turns

    @property
    def is_over(self) -> bool:
        """Whether nothing more is begun in this turn."""
        return self._spent >= STRANGERS_S

    def do(self, work: Work) -> None:
        """Do it now, also when the slice is over."""
        began = self._clock()
        try:
            work()
        finally:
            self._spent += self._clock() - began
            self._ask()

    def when_due(self, host: str, work: Work) -> None:
        """Do it for a client there, now or in a later turn."""
        if not self._waiting and not self.is_over:
            self.do(work)
        else:
            self._waiting.setdefault(address_of(host), deque()).append(work)
            self._ask()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._soon(self._turn)

    def _turn(self) -> None:
        self._asked, self._spent = False, 0.0
        while self._waiting and not self.is_over:
            address, waits = self._waiting.popitem(last=False)
            work = waits.popleft()
            if waits:
                self._waiting[address] = waits
            self.do(work)
