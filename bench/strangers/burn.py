"""CPU that is burned and does nothing to anybody: what an attack takes of the machine, without the attack.

    python -m bench.strangers.burn 0.31 0.17

Burns that many cores until its stdin ends: the first as the attacker does, giving way to everybody else, the second as
a broker does, to which the gateway passes on what it was asked. Prints `burning` when it is under way.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from typing import Final

from bench.strangers.strangers import NICE

_STEP_S: Final = 0.002
_OWED_S: Final = 0.05  # at most: what a busy machine did not give is not made up for in one go


def owed_s(cores: float, elapsed_s: float, used_s: float) -> float:
    """Seconds of CPU that are to be burned now."""
    return min(cores * elapsed_s - used_s, _OWED_S)


def _burn(cores: float, nice: int, over: threading.Event) -> None:
    """In a process of its own: threads of one would share a core."""
    os.nice(nice)
    began = time.monotonic()
    while not over.wait(_STEP_S):
        until = time.thread_time() + owed_s(cores, time.monotonic() - began, time.thread_time())
        while time.thread_time() < until:
            pass


def _listen(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def main() -> None:
    """Burn until the end of stdin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("giving_way", type=float)
    parser.add_argument("beside", type=float)
    args = parser.parse_args()
    over = threading.Event()
    child = os.fork()
    cores, nice = (args.beside, 0) if child else (args.giving_way, NICE)
    if child:
        sys.stdout.write("burning\n")
        sys.stdout.flush()
    threading.Thread(target=_listen, args=(over,), daemon=True).start()
    _burn(cores, nice, over)
    if child:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
