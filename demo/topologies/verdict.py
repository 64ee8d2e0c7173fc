"""What the demo of topologies must show, judged from the clusters' logs and what the clients logged.

Each topic is judged where it ends up: what was acknowledged is there, once, at the offset that the client was told, in
its producer's order. And each log on the way there is the beginning of the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from demo.checker import TopicLog
from demo.checker.logs import Finding, find_lost, find_reordered, find_unequal, locate
from demo.history import History
from demo.topologies.cast import WRITERS, name_of
from demo.topologies.settings import BACK, EAST, FIRST, LOOPS, SECOND, WAYS, WEST, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyVerdict:
    """Counts of each fault; `examples` name the first few cases in words. `unequal`: logs that are not the beginning
    of the next one."""

    acknowledged: int
    lost: int
    duplicated: int
    reordered: int
    unequal: int
    loops_refused: int
    errors: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True when nothing is wrong, and something was done."""
        faults = self.lost + self.duplicated + self.reordered + self.unequal + len(self.errors)
        return not faults and self.loops_refused == len(LOOPS) and self.acknowledged > 0

    @property
    def counts(self) -> str:
        """For the last line."""
        return (
            f"lost={self.lost} duplicated={self.duplicated} reordered={self.reordered}"
            f" loops_refused={self.loops_refused} client_errors={len(self.errors)}"
        )


def judge_logs(history: History, logs: Mapping[tuple[str, str], TopicLog], *, loops_refused: int) -> TopologyVerdict:
    """Judge a run. `logs`: by cluster and topic, as they are at the end."""
    acknowledged, found = 0, {name: Finding() for name in ("lost", "duplicated", "reordered", "unequal")}
    for last in (SECOND, BACK, WEST, EAST):
        there = logs[last.target, last.mirror]
        places, again = locate(there)
        count, lost, misplaced = find_lost({name: history.acks[name] for name in _producers_of(last)}, places)
        acknowledged += count
        _merge(found["lost"], lost, misplaced)
        _merge(found["duplicated"], again)
        if written := sorted(set(places) - set(_producers_of(last))):
            found["unequal"].add(f"unequal: records of {written[0]} in {last.mirror} on {last.target}")
    for way in WAYS:
        source, target = logs[way.source, way.topic], logs[way.target, way.mirror]
        _merge(found["reordered"], find_reordered(source, target))
        _merge(found["unequal"], find_unequal(source, target))
    return TopologyVerdict(
        acknowledged=acknowledged,
        **{name: finding.count for name, finding in found.items()},
        loops_refused=loops_refused,
        errors=tuple(f"{error.client}: {error.message}" for error in history.errors),
        examples=tuple(example for finding in found.values() for example in finding.examples),
    )


def _producers_of(last: Way) -> list[str]:
    """Whose records are in a topic at the end of its way."""
    ways = (FIRST, SECOND) if last is SECOND else (last,)
    return [name_of(writer, moved=moved) for writer in WRITERS if writer.way in ways for moved in (False, True)]


def _merge(into: Finding, *others: Finding) -> None:
    for other in others:
        into.count += other.count
        into.examples += other.examples
