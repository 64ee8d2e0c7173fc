"""Topic configs that are lifted on a copy while it is mirrored, and set back when it is written to by clients."""

from __future__ import annotations

from dataclasses import replace

from gateway.control.context import ControlContext
from gateway.domain.records import MirrorRecord, MirrorState
from gateway.domain.topic_configs import set_back


async def restore_configs(context: ControlContext, record: MirrorRecord) -> None:
    """Set the configs that were lifted on the copy while the topic was mirrored, once.

    Raises:
        ControlError, NetError, StoreError: not all is done; to be tried again.
    """
    if not record.restore_configs:
        return
    values, reset = set_back(record.restore_configs)
    if record.state is MirrorState.PENDING_MIRROR and not record.is_reverse:  # come home: the copy was the source's
        access, topic = await context.sources.reach(context.link(record.link)), record.source_topic
    else:
        access, topic = context.target, record.mirror_topic
    await access.alter_topic_configs(topic, values, reset)
    await context.store.replace(record, replace(record, restore_configs={}))
