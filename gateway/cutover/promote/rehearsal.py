"""The result of a promote's rehearsal: how long writes were paused, and which clients waited for how long.

A rehearsal is a promote that goes back where it would cut over (`rules/promote.py`). Its write pause has a bound of
its own, and so has the wait for it. Of a promote it lacks only the commit that makes STOPPED durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.cutover.write_pause.interface import PausesWrites, Stall
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.kafka.connection.errors import NetError

BEFORE_PAUSE_S: Final = 30.0
"""A rehearsal is given up after this time, before its write pause or afterwards."""
STALLS: Final = 100
"""How many clients are reported: those that waited longest."""
_ANSWER_S: Final = 3.0


class PauseRehearsed(NamedTuple):
    """`paused_s`: seconds. `stalls`: the longest first, `STALLS` at most. `clients`: how many waited in total.
    `untold`: gateways that did not report which requests waited there."""

    paused_s: float
    stalls: Sequence[Stall]
    clients: int
    untold: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """`given_up`: why it did not reach the point of the cutover; '' when it did. `pause`: None when writes were not
    paused. `bound_s`: the bound of their pause."""

    topics: Sequence[str]
    given_up: str
    bound_s: float
    pause: PauseRehearsed | None


async def stalls_under(
    gateways: Mapping[str, PausesWrites], pauses: Iterable[Pause]
) -> tuple[Sequence[Stall], int, Sequence[str]]:
    """(longest stalls, number of clients, gateways without an answer) for pauses that have just ended. Never raises.

    A client that still waits at a gateway counts with its time so far.
    """
    named, names = tuple(pauses), tuple(gateways)
    answers = await asyncio.gather(*(_asked(gateways.get(name), named) for name in names))
    found: dict[tuple[str, str], float] = {}
    for stall in (stall for answer in answers if answer is not None for stall in answer):
        key = stall.client_id, stall.address
        found[key] = max(stall.seconds, found.get(key, 0.0))
    longest = sorted((Stall(*key, seconds) for key, seconds in found.items()), key=lambda each: -each.seconds)
    return longest[:STALLS], len(found), [name for name, told in zip(names, answers, strict=True) if told is None]


async def _asked(gateway: PausesWrites | None, pauses: Sequence[Pause]) -> Sequence[Stall] | None:
    if gateway is None:
        return None
    try:
        async with asyncio.timeout(_ANSWER_S):
            return [stall for pause in pauses for stall in await gateway.stalls(pause)]
    except (TimeoutError, NetError, OSError, KeyError, ValueError, TypeError):
        return None
