"""The metrics of several processes as those of one. Pure: texts in, text out.

Counters and histograms are summed, and gauges too, but those that are no amounts (`_RULES`). A family that one process
alone has is taken as it is, without a look at its samples: the leader's have a line for every partition.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

_RULES: Final[dict[str, Callable[[Iterable[float]], float]]] = {
    "lockgate_write_lease_seconds": min,
    "lockgate_fleet_leader": max,
    "lockgate_fleet_agreed": min,
    "lockgate_state_topic_losses_total": max,
    "lockgate_event_loop_longest_stall_seconds": max,
    "lockgate_build": max,
    "lockgate_build_info": max,
    "process_start_time_seconds": min,
    "process_max_fds": max,
}
"""Which number counts where not the sum does."""

_HELP: Final = "# HELP "
_COUNTED: Final = (" counter\n", " histogram\n")


def summed(texts: Sequence[str]) -> str:
    """One text, families and samples in the order in which they are first seen."""
    families: dict[str, list[str]] = {}
    for text in texts:
        for block in _blocks(text):
            families.setdefault(_name(block), []).append(block)
    return "".join(blocks[0] if len(blocks) == 1 else _sum(name, blocks) for name, blocks in families.items())


def counted(text: str) -> str:
    """Those families that only grow, counters and histograms: what counts of a process that is not heard now."""
    return "".join(block for block in _blocks(text) if any(kind in block for kind in _COUNTED))


def of_known(text: str, others: Sequence[str]) -> str:
    """The samples that one of the others has as well, whatever its number."""
    families = {_name(block): block.splitlines() for block in _blocks(text)}
    known: set[str] = set()
    for block in (each for other in others if families for each in _blocks(other)):
        if _name(block) in families:
            known |= {line.rpartition(" ")[0] for line in block.splitlines()}
    kept = ""
    for lines in families.values():
        samples = [one for one in lines if not one.startswith("#") and one.rpartition(" ")[0] in known]
        if samples:
            kept += "".join(f"{one}\n" for one in (*(one for one in lines if one.startswith("#")), *samples))
    return kept


def beyond(text: str, base: str) -> str:
    """With what was counted beyond `base` in place of all; the rest as it is. `base`: see `not_above`."""
    before = {_name(block): _samples(block) for block in _blocks(base)}
    found = ""
    for block in _blocks(text):
        at = before.get(_name(block))
        if not at or _name(block) in _RULES:
            found += block
            continue
        head = (line for line in block.splitlines() if line.startswith("#"))
        grown = (f"{key} {value - at.get(key, 0.0)!r}" for key, value in _samples(block).items())
        found += "".join(f"{line}\n" for line in (*head, *grown))
    return found


def not_above(base: str, text: str) -> str:
    """Of an earlier text of a process the samples that it has still, and not lower: others have begun anew since."""
    blocks = {_name(block): block for block in _blocks(base)}
    now = {_name(block): _samples(block) for block in _blocks(text) if _name(block) in blocks}
    kept = ""
    for name, block in blocks.items():
        at = now.get(name, {})
        head = [line for line in block.splitlines() if line.startswith("#")]
        left = [f"{key} {value!r}" for key, value in _samples(block).items() if value <= at.get(key, -1.0)]
        kept += "".join(f"{line}\n" for line in (*head, *left)) if left else ""
    return kept


def _samples(block: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in block.splitlines() if not line.startswith("#"))
    return {key: float(value) for key, _, value in lines}


def _name(block: str) -> str:
    return block[len(_HELP) : block.index(" ", len(_HELP))]


def _blocks(text: str) -> Iterable[str]:
    """A family each: from its HELP to the next one."""
    found = text.split(f"\n{_HELP}")
    for index, block in enumerate(found):
        if block.strip():
            yield (block if index == 0 else _HELP + block).rstrip("\n") + "\n"


def _sum(name: str, blocks: Sequence[str]) -> str:
    head: list[str] = []
    samples: dict[str, list[float]] = {}
    for block in blocks:
        lines = block.splitlines()
        head = head or [line for line in lines if line.startswith("#")]
        for line in lines:
            if not line.startswith("#"):
                key, _, value = line.rpartition(" ")
                samples.setdefault(key, []).append(float(value))
    rule = _RULES.get(name, sum)
    return "".join(f"{line}\n" for line in (*head, *(f"{key} {rule(values)!r}" for key, values in samples.items())))
