"""Faults of what later seeds do: repairs, deletions, and more than two clusters. No other operation meets them.

A repair that begins at the wrong place, or does not say what it goes on without; a deletion by name; a chain nobody
looks up, at its beginning or at its end, nor a loop; two targets whose clients have the same ids at their one source;
a source that is written under the target's names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gateway.cutover.promote import promoter
from gateway.proxy.handlers.transactions import init_producer_id
from gateway.proxy.produce.forwarded_produce import ForwardedProduce
from gateway.state.producer_ids import GATEWAY_PID_BASE
from gateway.topics import events
from gateway.topics import plan as topic_plan
from gateway.topics.delete import MirrorDeletion
from gateway.topics.plan import Wanted
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Patching
from tests.simulation.plan import CHAINED, CROSSED, EAST, FANNED, MENDED, NORTH, ORDERS, Act


def _mended(how: str) -> tuple[Act, ...]:
    acts = life((Operation.SPOIL, (MENDED,)), (Operation.REPAIR, (MENDED,)), (Operation.PROMOTE, (MENDED,)))
    return tuple(replace(act, how=how) for act in acts)


_UNMIRROR: Final = life(Operation.UNMIRROR, Operation.CREATE)
_REPLACED: Final = (Event(EventKind.COPY_REPLACED, 0, "delete_topic"),)
_CHAIN: Final = life((Operation.CHAIN, (CHAINED,)), (Operation.PROMOTE, (CHAINED,)))
_FAN_OUT: Final = life((Operation.FAN_OUT, (FANNED,)), (Operation.PROMOTE, (FANNED,)))
_BOTH_WAYS: Final = life(Operation.CREATE, (Operation.BOTH_WAYS, (CROSSED,)))
_AGGREGATE: Final = life(Operation.CREATE, (Operation.AGGREGATE, (f"{NORTH}{ORDERS}", f"{EAST}{ORDERS}")))


def fill_from_the_end(patching: Patching) -> None:
    """A copy that is created anew begins at the end of the source."""
    shipped = Wanted.of

    def of(record: Any) -> Wanted:
        wanted = shipped(record)
        return replace(wanted, start="latest") if record.repairs else wanted

    patching.replace(Wanted, "of", of)


def forget_what_is_lost(patching: Patching) -> None:
    """A repair that goes on without records does not say how many."""
    patching.replace(events, "with_lost", lambda mirror, reports: mirror)


def delete_by_name(patching: Patching) -> None:
    """With a mirror goes whatever topic has its name."""

    async def delete_topic(self: Any, intent: Any) -> None:
        found = (await self._target.topics([intent.mirror_topic])).get(intent.mirror_topic)
        if found is not None:
            await self._target.delete_topic(intent.mirror_topic, found.topic_id)

    patching.replace(MirrorDeletion, "_delete_topic", delete_topic)


def not_look_upstream(patching: Patching) -> None:
    """A topic that is a copy where it is mirrored from is taken for any other one."""

    async def upstream_of_new(*_: Any) -> tuple[()]:
        return ()

    patching.replace(topic_plan, "upstream_of_new", upstream_of_new)


def promote_from_the_end(patching: Patching) -> None:
    """The end of a chain is promoted while its middle is a copy."""

    async def require_origins(*_: Any, **__: Any) -> None:
        pass

    patching.replace(promoter, "require_origins", require_origins)


def share_ids(patching: Patching) -> None:
    """Targets of one source give their clients the same ids."""
    patching.replace(init_producer_id, "shown_as", lambda cluster_id: GATEWAY_PID_BASE)


def keep_names(patching: Patching) -> None:
    """A write goes to the source under the name that the topic has on the target."""
    patching.replace(ForwardedProduce, "_goes_as_is", staticmethod(lambda route: not route.failback_epoch))


MUTATIONS: Final = (
    sought("repair: the new copy begins at the end", fill_from_the_end, _mended("written"), runs=2),
    sought("repair: nobody says what is lost", forget_what_is_lost, _mended("overtaken"), runs=2),
    sought("delete: by the topic's name", delete_by_name, _UNMIRROR, runs=2, events=_REPLACED),
    sought("chain: nobody looks upstream", not_look_upstream, _CHAIN, runs=2),
    sought("chain: promoted from its end", promote_from_the_end, _CHAIN, runs=2),
    sought("fan-out: two targets' clients have the same ids", share_ids, _FAN_OUT, runs=4),
    sought("both ways: a loop is let in", not_look_upstream, _BOTH_WAYS, runs=2),
    sought("aggregate: the target's names on the source", keep_names, _AGGREGATE, runs=2),
)
