"""Whether topics have the configs that they are to have: where they are written their owner's, on the other cluster
those of a copy. Pure.

Said anew here, not asked of the product. What is synced is one thing for both topics of a mirror: the source's when it
was first seen, and what the owner has changed since, where the topic was written then. A copy has the lifted form of
it, and gets the values themselves when clients write to it. What is not synced, each of both topics keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.state.records import MirrorRecord, MirrorState
from tests.simulation.judge.state import side_of
from tests.simulation.recorder import SOURCE, TARGET

STAMPS: Final = "message.timestamp.type"
_LONG_MAX: Final = str((1 << 63) - 1)
_LIFTED: Final[Mapping[str, str]] = {
    STAMPS: "CreateTime",
    "message.timestamp.before.max.ms": _LONG_MAX,
    "message.timestamp.after.max.ms": _LONG_MAX,
    "max.message.bytes": str((1 << 31) - 1),
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""What a copy has, so that nothing of its origin's is refused, stamped anew or deleted."""
_SYNCED: Final = (
    *_LIFTED,
    "cleanup.policy",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
)
_MIRRORED: Final = (MirrorState.ACTIVE, MirrorState.PAUSED)


@dataclass(frozen=True, slots=True)
class Owned:
    """The configs of a mirror's topics, by their owners. `synced`: effective values of what is synced; `own`: by side,
    of all else."""

    synced: Mapping[str, str]
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def seen(cls, source: Mapping[str, str], owns: Mapping[str, Mapping[str, str]]) -> Owned:
        """As both topics are when the mirror is first seen. `source`: effective values of its topic."""
        return cls({name: source[name] for name in _SYNCED}, {side: _own(values) for side, values in owns.items()})

    def with_own(self, side: str, values: Mapping[str, str]) -> Owned:
        """Another topic stands on that side now."""
        return Owned(self.synced, {**self.own, side: _own(values)})

    def changed(self, changes: Mapping[str, str]) -> Owned:
        """The owner has changed synced configs where the topic is written."""
        return Owned({**self.synced, **changes}, self.own)


def _own(values: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in values.items() if name not in _SYNCED}


def wrong_configs(
    mirror: MirrorRecord, owned: Owned, now: Mapping[str, Mapping[str, str]], *, at_rest: bool
) -> Iterator[str]:
    """What is wrong with the configs of a mirror's topics, a line each.

    Args:
        now: by side, the effective configs of its topic; without a side whose topic is not there.
        at_rest: everything had time to follow. Else what is still to be set back is left alone, as the record says,
            and so is the copy: the next sync may bring it what it is to have.
    """
    home = side_of(mirror)
    if mirror.state is MirrorState.STOPPED:
        if mirror.restore_configs and not at_rest:
            return
        if mirror.restore_configs:
            yield f"{', '.join(sorted(mirror.restore_configs))} of a topic that clients write are not set back"
    elif mirror.state not in _MIRRORED:
        return
    yield from _unlike(home, now.get(home), {**owned.synced, **owned.own.get(home, {})}, "which clients write")
    if at_rest and mirror.state in _MIRRORED:
        copy = TARGET if home == SOURCE else SOURCE
        yield from _unlike(copy, now.get(copy), {**owned.synced, **owned.own.get(copy, {}), **_LIFTED}, "the copy")


def _unlike(side: str, now: Mapping[str, str] | None, wanted: Mapping[str, str], what: str) -> Iterator[str]:
    if now is None:
        return
    for name, value in sorted(wanted.items()):
        if now.get(name, value) != value:
            yield f"{name} is {now[name]} on the {side}, {what}, and {value} is its owner's"
