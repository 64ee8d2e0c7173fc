"""The producer id space: who issued an id, told by its value alone.

Kafka's brokers hand out producer ids from 0 upwards and never check who allocated the id in a batch. So the
space can be divided without any state::

    [0, 2^49)       issued by a cluster, as it stands in that cluster
    [2^49, 2^50)    issued by the target and shown to clients of the gateway as id + 2^49 + its tag · 2^34, on both
                    clusters
    [2^50, 2^51)    ours: the mirror of one topic writes its target partitions under one such id::

                        2^50 + link id · 2^32 + mirror id

Tags. A link's id is its *tag*: it stands in each batch that its mirrors append, and is never given to another link. So
a log and the state topic's `origin` records (`state/records.py`) tell which source a batch came from, also after the
link is gone (`mirror_of`). A target's tag keeps apart what the gateways of *several* targets write to one source, which
all count from 0: without it two producers would share an id there, and the source would take the records of one for
retries of the other. It is 15 bits of a checksum of the target's cluster id, so two targets of one source share it once
in 32,768 times; the ids of their mirrors begin at it, too (`first_mirror_id`).

Failback epochs. A broker remembers the last sequence of each producer id per partition. A topic whose writes go to the
target and back on the source, and later perhaps to the target once more, would show each cluster a producer that
skips what it wrote on the other one in between: OUT_OF_ORDER_SEQUENCE_NUMBER. So each failback begins a new *failback
epoch* of the topic: within it the ids above stand on both clusters as `id + failback_epoch * 2^51`, which no broker has
seen on the topic, and a broker takes an unknown id in the middle of its sequence. Clients know nothing of it: they keep
the id of epoch 0. The mirror back to the source writes in the upper half of the failback epochs. All of it is a
bijection that needs no state but the topic's failback epoch.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

GATEWAY_PID_BASE: Final = 2**49
"""Added to a target-issued producer id before a client of the gateway sees it."""

MIRROR_PID_BASE: Final = 2**50
"""First id of the mirrors' own range; the end of the gateway-issued range."""

MIRROR_PID_END: Final = 2**51

_FAILBACK_EPOCH: Final = 2**51
_REVERSE: Final = 2**11
MAX_FAILBACK_EPOCH: Final = _REVERSE - 1
"""How often a topic's writes can fail back; the highest id is then just below 2^63."""

_ISSUED_BITS: Final = 34
"""More than a cluster ever issues: it gives out a thousand ids at a time to a broker that starts."""
_TAG_BITS: Final = 15

_MIRROR_BITS: Final = 32
MAX_MIRROR_ID: Final = 2**_MIRROR_BITS - 1
MAX_LINK_ID: Final = 2 ** (50 - _MIRROR_BITS) - 1


def mirror_producer_id(link_id: int, mirror_id: int, failback_epoch: int = 0, *, reverse: bool = False) -> int:
    """The producer id under which a mirror writes, the same for all partitions of the topic.

    Producer state is kept per partition by the broker, so partitions may share an id.

    Args:
        failback_epoch: how often the topic's writes have failed back.
        reverse: of the mirror from the target back to the source.

    Raises:
        ValueError: link_id is outside 0..2^18-1, mirror_id outside 0..2^32-1, or the epoch outside 0..2047.
    """
    if not 0 <= link_id <= MAX_LINK_ID:
        raise ValueError(f"link id {link_id} is outside 0..{MAX_LINK_ID}")
    if not 0 <= mirror_id <= MAX_MIRROR_ID:
        raise ValueError(f"mirror id {mirror_id} is outside 0..{MAX_MIRROR_ID}")
    first = MIRROR_PID_BASE + (link_id << _MIRROR_BITS) + mirror_id
    return in_failback_epoch(first, failback_epoch) + (_REVERSE * _FAILBACK_EPOCH if reverse else 0)


class MirrorWriter(NamedTuple):
    """Whose batch a mirror's producer id names. `link_id`: the tag of the link; see `mirror_producer_id`."""

    link_id: int
    mirror_id: int
    failback_epoch: int
    reverse: bool


def mirror_of(producer_id: int) -> MirrorWriter | None:
    """The mirror that writes under an id, as it stands in a log; None for an id of anybody else's."""
    first = producer_id & (_FAILBACK_EPOCH - 1)
    if producer_id < 0 or not MIRROR_PID_BASE <= first < MIRROR_PID_END:
        return None
    link_id, mirror_id = divmod(first - MIRROR_PID_BASE, 1 << _MIRROR_BITS)
    reverse, failback_epoch = divmod(producer_id // _FAILBACK_EPOCH, _REVERSE)
    return MirrorWriter(link_id, mirror_id, failback_epoch, bool(reverse))


def target_tag(cluster_id: str) -> int:
    """What tells a target from others that share a source, 0..2^15-1; 0 while its cluster id is not known."""
    return crc32(cluster_id.encode()) & ((1 << _TAG_BITS) - 1) if cluster_id else 0


def first_mirror_id(cluster_id: str) -> int:
    """The id of the first mirror that the gateways of a target make; the next ones follow it."""
    return (target_tag(cluster_id) << (_MIRROR_BITS - _TAG_BITS - 1)) + 1


def shown_as(cluster_id: str) -> int:
    """What is added to an id that the target with this cluster id has issued, before a client sees it."""
    return GATEWAY_PID_BASE + (target_tag(cluster_id) << _ISSUED_BITS)


def as_issued(producer_id: int) -> int:
    """The id as the target has issued it, of one that a client of the gateway holds; whatever its tag is."""
    return (producer_id - GATEWAY_PID_BASE) & ((1 << _ISSUED_BITS) - 1)


def is_gateway_issued(producer_id: int) -> bool:
    """True when a client got this id through the gateway; for the id as clients know it."""
    return GATEWAY_PID_BASE <= producer_id < MIRROR_PID_BASE


def in_failback_epoch(producer_id: int, failback_epoch: int) -> int:
    """The id as it stands in the logs of a topic in this failback epoch.

    Raises:
        ValueError: the epoch is outside 0..2047.
    """
    if not 0 <= failback_epoch <= MAX_FAILBACK_EPOCH:
        raise ValueError(f"failback epoch {failback_epoch} is outside 0..{MAX_FAILBACK_EPOCH}")
    return producer_id + failback_epoch * _FAILBACK_EPOCH


def of_any_failback_epoch(producer_id: int) -> int:
    """The id as clients know it, from the one that stands in a log; -1 (no producer) comes out as no client's id."""
    return producer_id & (_FAILBACK_EPOCH - 1)
