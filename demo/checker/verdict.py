"""The judge's findings as values, and what makes them a pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The longest waits that still pass, milliseconds.

    They are deadlines: they find a pause or a switch that does not end, and not one that is slow because the machine
    does other work. How long each took stands in the last line.
    """

    promote_gap_ms: int = 30_000
    group_switch_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """One group: distinct records read, missed and read again; `strange` were read where the target has no such
    record; `switch_ms` is None when the group never switched."""

    read: int
    missed: int
    reread: int
    strange: int
    switch_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Everything counted. `unacknowledged` records are on the target though no producer was told (not a fault);
    `silent` producers acknowledged nothing after the source was gone; `errors` are what client applications were
    shown; `examples` name the first few cases of each fault."""

    acknowledged: int
    found: int
    unacknowledged: int
    lost: int
    duplicated: int
    reordered: int
    offsets_equal: bool
    promote_gaps_ms: Mapping[str, int]
    groups: Mapping[str, GroupVerdict]
    silent: tuple[str, ...]
    errors: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def missed(self) -> int:
        """Over all groups."""
        return sum(group.missed for group in self.groups.values())

    @property
    def reread(self) -> int:
        """Over all groups."""
        return sum(group.reread for group in self.groups.values())

    @property
    def promote_gap_ms(self) -> int:
        """The longest of any producer; 0 when nothing was promoted."""
        return max(self.promote_gaps_ms.values(), default=0)

    @property
    def group_switch_ms(self) -> int:
        """The longest of any group; -1 when one of them never switched, 0 when none had to."""
        switches = [group.switch_ms for group in self.groups.values()]
        known = [ms for ms in switches if ms is not None]
        return max(known, default=0) if len(known) == len(switches) else -1

    def faults(self, limits: Limits) -> list[str]:
        """Why this is not a pass, one line each; empty when it is."""
        counts = {
            "lost": self.lost,
            "duplicated": self.duplicated,
            "reordered": self.reordered,
            "missed": self.missed,
            "reread": self.reread,
            "read where the target has no such record": sum(group.strange for group in self.groups.values()),
        }
        faults = [f"{count} {what}" for what, count in counts.items() if count]
        if self.found == 0:
            faults.append("nothing was found on the target")
        if not self.offsets_equal:
            faults.append("the offsets differ")
        if self.promote_gap_ms > limits.promote_gap_ms:
            faults.append(f"a producer waited {self.promote_gap_ms} ms, limit {limits.promote_gap_ms}")
        faults += [fault for name, group in self.groups.items() for fault in _switch_faults(name, group, limits)]
        faults += [f"{name} acknowledged nothing after the source was gone" for name in self.silent]
        if self.errors:
            faults.append(f"{len(self.errors)} errors reached a client, first: {self.errors[0]}")
        return faults


def _switch_faults(name: str, group: GroupVerdict, limits: Limits) -> list[str]:
    if group.switch_ms is None:
        return [f"group {name} never read on the target"]
    if group.switch_ms < 0:
        return [f"group {name} read on the target {-group.switch_ms} ms before its last member left the source"]
    if group.switch_ms > limits.group_switch_ms:
        return [f"group {name} took {group.switch_ms} ms to switch, limit {limits.group_switch_ms}"]
    return []
