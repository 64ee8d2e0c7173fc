"""One seed, run in whatever process: plain values come back."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final

from tests.simulation.mutations import patched
from tests.simulation.plan import plan
from tests.simulation.world import simulate


def run_seed(seed: int, patch: str = "") -> dict[str, Any]:
    """One seed, as values that go from process to process."""
    began = time.process_time()
    with patched(patch):
        outcome = simulate(plan(seed))
    return {
        "seed": seed,
        "failure": outcome.failure,
        "why": outcome.why,
        "migrations": outcome.migrations,
        "faults": outcome.faults,
        "leaders_lost": outcome.leaders_lost,
        "pairs": [((op.value, step, kind.value), count) for (op, step, kind), count in outcome.pairs.items()],
        "counts": dict(outcome.verdict.counts) if outcome.verdict is not None else {},
        "cpu_s": time.process_time() - began,
        "virtual_s": outcome.virtual_s,
    }


def run_seeds(
    seeds: Iterable[int], until: float | None, patch: str, tell: Callable[[dict[str, Any] | None], None]
) -> None:
    """Several, in one process. `until`: begin none after this time of the monotonic clock; `tell`: None at the end."""
    for seed in seeds:
        if until is not None and time.monotonic() >= until:
            break
        try:
            tell(run_seed(seed, patch))
        except Exception as exc:  # noqa: BLE001 - the harness itself failed; that is a failed run, and the others go on
            where = traceback.format_exc().strip().splitlines()[-3:]
            tell({**NOTHING, "seed": seed, "failure": "broken: harness", "why": f"{exc!r} {' '.join(where)}"})
    tell(None)


NOTHING: Final[dict[str, Any]] = {
    "migrations": 0,
    "faults": 0,
    "leaders_lost": 0,
    "pairs": [],
    "counts": {},
    "cpu_s": 0.0,
    "virtual_s": 0.0,
}
