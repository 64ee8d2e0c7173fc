"""From which cluster a record is, told by the log and the state topic alone: its bytes are not touched.

The producer id of each batch says who wrote it (`producer_ids.py`): a mirror's id holds the link's tag, which stands
for one source cluster for good (`OriginRecord`), the failback epoch, and which way it went. So a log that was promoted,
failed back and promoted again tells of each batch whether it was copied, from where, or written by clients. In a chain
the source has copied it, too: from where, and up to which of its offsets, is in the mirror's record (`Upstream`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from gateway.state.producer_ids import (
    GATEWAY_PID_BASE,
    is_gateway_issued,
    mirror_of,
    mirror_producer_id,
    of_any_failback_epoch,
)
from gateway.state.records import LinkRecord, MirrorRecord, OriginRecord, Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Of a mirror topic. `link_tag`: in the producer ids of all that was mirrored. `producer_id`: under which it is
    mirrored now. `upstream`: from where the source itself has it, the nearest first."""

    link_tag: int
    source_cluster_id: str
    producer_id: int
    upstream: tuple[Upstream, ...]


def provenance_of(mirror: MirrorRecord, link: LinkRecord) -> Provenance:
    """As the records say now."""
    reverse = mirror.is_reverse
    return Provenance(
        link_tag=link.link_id,
        source_cluster_id=link.source_cluster_id,
        producer_id=mirror_producer_id(link.link_id, mirror.mirror_id, mirror.failback.epoch, reverse=reverse),
        upstream=mirror.upstream,
    )


def sources_by_tag(origins: Mapping[int, OriginRecord], links: Mapping[str, LinkRecord]) -> dict[int, str]:
    """The source's cluster id of every link there ever was. Links of older versions have no origin record."""
    return {link.link_id: link.source_cluster_id for link in links.values()} | {
        tag: origin.source_cluster_id for tag, origin in origins.items()
    }


def origin_of(producer_id: int, sources: Mapping[int, str], here: str) -> str:
    """The cluster from which a batch of the target's log is; '' when its link is unknown.

    Args:
        producer_id: as it stands in the log; -1 for a producer that is not idempotent.
        sources: see `sources_by_tag`.
        here: the target's cluster id. What no mirror wrote was written here.
    """
    writer = mirror_of(producer_id)
    return here if writer is None else sources.get(writer.link_id, "")


@lru_cache(maxsize=1024)  # batches of one producer come in a row
def kind_of_writer(producer_id: int) -> int:
    """One id for all clients, one for all clients of gateways, and a mirror's own: there are only so many of those."""
    if mirror_of(producer_id) is not None:
        return producer_id
    return GATEWAY_PID_BASE if is_gateway_issued(of_any_failback_epoch(producer_id)) else -1


def writer_in_words(producer_id: int) -> str:
    """Who wrote a batch, for people."""
    writer = mirror_of(producer_id)
    if writer is not None:
        way = "back to the source" if writer.reverse else "from the source"
        return f"the mirror of link tag {writer.link_id}, {way}, failback epoch {writer.failback_epoch}"
    if is_gateway_issued(of_any_failback_epoch(producer_id)):
        return "a client of a gateway"
    return "a client"
