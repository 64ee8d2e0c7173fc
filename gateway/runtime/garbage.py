"""Python's collector of garbage, set for a process that serves.

Objects go when nobody refers to them any more; the collector is only there for those that refer to one another in a
ring. By default it looks when there are 700 more objects than at its last look. Of a pipelined connection a hundred
requests are under way at any time, each with some objects of its own: so it looked at each burst, and found nothing,
for a third of the CPU of forwarded requests. Every now and then it looks at all objects, most of which are Python's
modules and the gateway's own parts: 40 ms in which nobody is served.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = 10_000
"""So many more objects than at the last look, of some 100 bytes each: the most that rings hold in vain."""


def spare_what_stays() -> None:
    """To be called once a process serves: what is there by then stays to its end, and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
