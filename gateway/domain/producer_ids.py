"""The producer id space: who issued an id, told by its value alone.

Kafka's brokers hand out producer ids from 0 upwards and never check who allocated the id in a batch. So the
space can be divided without any state::

    [0, 2^49)       issued by a cluster, as it stands in that cluster
    [2^49, 2^50)    issued by the target and shown to clients of the gateway as id + 2^49, on both clusters
    [2^50, 2^51)    ours: the mirror of one topic writes its target partitions under one such id
"""

from __future__ import annotations

from typing import Final

GATEWAY_PID_BASE: Final = 2**49
"""Added to a target-issued producer id before a client of the gateway sees it."""

MIRROR_PID_BASE: Final = 2**50
"""First id of the mirrors' own range; the end of the gateway-issued range."""

MIRROR_PID_END: Final = 2**51

_MIRROR_BITS: Final = 32
MAX_MIRROR_ID: Final = 2**_MIRROR_BITS - 1
MAX_LINK_ID: Final = 2 ** (50 - _MIRROR_BITS) - 1


def mirror_producer_id(link_id: int, mirror_id: int) -> int:
    """The producer id under which a mirror writes, the same for all partitions of the topic.

    Producer state is kept per partition by the broker, so partitions may share an id.

    Raises:
        ValueError: link_id is outside 0..2^18-1 or mirror_id outside 0..2^32-1.
    """
    if not 0 <= link_id <= MAX_LINK_ID:
        raise ValueError(f"link id {link_id} is outside 0..{MAX_LINK_ID}")
    if not 0 <= mirror_id <= MAX_MIRROR_ID:
        raise ValueError(f"mirror id {mirror_id} is outside 0..{MAX_MIRROR_ID}")
    return MIRROR_PID_BASE + (link_id << _MIRROR_BITS) + mirror_id


def is_gateway_issued(producer_id: int) -> bool:
    """True when a client got this id through the gateway."""
    return GATEWAY_PID_BASE <= producer_id < MIRROR_PID_BASE
