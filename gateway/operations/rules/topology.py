"""What a source that is another fleet's target means for a mirror: a chain that is safe, one that is not, or a loop.

In a chain A → B → C the topic on B is a *copy* while B's fleet mirrors it from A: the place where its records get their
order is A. So

* whoever writes to it on B beside B's gateways writes behind that mirror, which FAILs at its next append. A gateway
  before C that is linked straight to B would do just that with what its clients write. It must reach B by B's gateways,
  which send on to A, or not let its clients write;
* B → C cannot be promoted first: what A has acknowledged may not be on B yet, so a log end of B is no end. Nor may
  anything be mirrored back to a copy, nor the copy be deleted and made anew;
* C → A would be a loop: the records would come back to the cluster that they are from, and go round.

Once A → B is promoted B is a source like any other one. What B's fleet mirrors is told by its state topic; where that
is not to be seen, as behind B's gateways, by who has written the last batches: a copy is written by nobody but a
mirror.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.state.producer_ids import mirror_of
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState, Upstream


@dataclass(frozen=True, slots=True)
class FleetView:
    """What a fleet's records say: its links by name, and its mirrors by mirror topic, of which each has one."""

    links: Mapping[str, LinkRecord]
    mirrors: Mapping[str, MirrorRecord]


def is_copy(mirror: MirrorRecord) -> bool:
    """The mirror topic is written by its mirror, or is about to be: not by clients."""
    return not mirror.is_reverse and mirror.state not in (MirrorState.STOPPED, MirrorState.PENDING_SYNCHRONIZE)


def upstream_of(fleet: FleetView, topic: str) -> tuple[Upstream, ...]:
    """From where a fleet's target has a topic, the nearest cluster first; empty when it is the topic's own home."""
    mirror = fleet.mirrors.get(topic)
    link = None if mirror is None else fleet.links.get(mirror.link)
    if mirror is None or link is None:
        return ()
    ends = () if is_copy(mirror) else mirror.cutover.stopped_copy_at
    return (Upstream(link.source_cluster_id, mirror.link, mirror.source_topic, ends), *mirror.upstream)


def why_not_mirrored(topic: str, fleet: FleetView, target_id: str, *, written: bool) -> str:
    """Why a topic of another fleet's target cannot be mirrored to `target_id`; '' when it can.

    Args:
        written: clients of this gateway may write the topic on its source.
    """
    mirror = fleet.mirrors.get(topic)
    if mirror is None or not is_copy(mirror):
        return ""
    chain = upstream_of(fleet, topic)
    for hops, each in enumerate(chain, start=2):
        if each.ends:  # promoted there: nothing comes from further up any more
            break
        if each.cluster_id == target_id:
            return (
                f"it would be a loop: the source mirrors it {'itself ' if hops == 2 else ''}from this target "
                f"(cluster id {target_id}), {_way(chain[: hops - 1])}; mirror it one way only"
            )
    if not written:
        return ""
    return (
        f"on the source it is a mirror topic itself, {_way(chain[:1])} ({mirror.state}), and what clients of this "
        "gateway write would land behind that mirror: name the gateways of that fleet in bootstrap.servers, or leave "
        "the topic out of link.client.topic.filters, so that it is not written here before it is promoted"
    )


def why_not_an_origin(topic: str, fleet: FleetView) -> str:
    """Why a topic of another fleet's target is not where its records get their order, and may not be written; '' if it
    is and may."""
    mirror = fleet.mirrors.get(topic)
    if mirror is None or not is_copy(mirror):
        return ""
    return (
        f"topic '{topic}' on the source is itself mirrored, {_way(upstream_of(fleet, topic)[:1])} ({mirror.state}): "
        "promote it there first; what has been acknowledged further up may not be there yet"
    )


def is_written_by_a_mirror(producer_ids: Iterable[int]) -> bool:
    """Whether the last batches of a topic's partitions look like those of a copy: all by a mirror to that cluster."""
    writers = [mirror_of(each) for each in producer_ids]
    return bool(writers) and all(each is not None and not each.reverse for each in writers)


def _way(chain: Sequence[Upstream]) -> str:
    return ", ".join(f"by link '{each.link}' from cluster {each.cluster_id or 'unknown'}" for each in chain)
