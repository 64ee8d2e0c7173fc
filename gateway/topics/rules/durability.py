"""Whether a copy keeps what clients write as safely as its origin does: asked before a promote begins. Pure.

From the cutover on the copy is what clients write to, with acks=all in the main. Two things may be less there. A broker
is down, so fewer replicas are in sync than the copy's `min.insync.replicas`: writes would be refused, and what was
copied is on too few disks while nobody else goes on to have it. That passes, so it is refused, with the remedy. Or the
copy asks for fewer replicas than the origin: then acks=all promises less from then on, for good. That is refused, too,
but for topics of which the link says that it may be so (`promote.less.durable.topic.filters`): some targets cannot have
as many.

As in brokers, what counts of `min.insync.replicas` is never more than the replicas that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.state.link_config import LESS_DURABLE

IN_SYNC: Final = "min.insync.replicas"
_TWO: Final = 2
"""Replicas that are to have what nobody else will write again, where there are two."""


@dataclass(frozen=True, slots=True)
class Durable:
    """A topic on one side. `least`: its `min.insync.replicas`, None where that is not told; `replicas`: of each
    partition; `in_sync`: by partition, -1 where it is not told."""

    least: int | None
    replicas: int
    in_sync: Sequence[int] = ()

    @property
    def effective(self) -> int | None:
        """How many replicas have what was acknowledged with acks=all."""
        return None if self.least is None else min(self.least, self.replicas)


def why_too_few(topic: str, copy: Durable, side: str) -> str:
    """Why writes of the topic cannot go to its copy on the cluster `side` now; '' when they can."""
    needed = min(max(_TWO, copy.effective or 0), copy.replicas)
    few = [(partition, count) for partition, count in enumerate(copy.in_sync) if 0 <= count < needed]
    if not few:
        return ""
    partition, count = few[0]
    more = f", and {len(few) - 1} more partitions" if len(few) > 1 else ""
    least = "not told" if copy.least is None else copy.least
    return (
        f"{topic}, partition {partition}{more}: {count} of {copy.replicas} replicas on the {side} in sync, {needed} "
        f"are needed ({IN_SYNC} is {least}); look after the brokers of the {side}, or reassign the partition"
    )


def why_less(topic: str, origin: Durable, copy: Durable, *, origin_side: str, side: str) -> str:
    """Why acks=all would promise less on the copy than it does now; '' when it does not, as far as is told."""
    if origin.effective is None or copy.effective is None or copy.effective >= origin.effective:
        return ""
    can = f"set {IN_SYNC}={origin.effective} for the topic on the {side}"
    if copy.replicas < origin.effective:
        can = f"give the topic {origin.effective} replicas on the {side}, and {IN_SYNC}={origin.effective}"
    return (
        f"{topic}: acks=all would promise less: {IN_SYNC} is {copy.effective} on the {side} ({copy.replicas} replicas)"
        f", {origin.effective} on the {origin_side}; {can}, or accept it for the topic with the link's {LESS_DURABLE}"
    )
