"""Topic configs that are lifted on a copy while it is mirrored, and set back when it is written to by clients."""

from __future__ import annotations

from dataclasses import replace

from gateway.kafka.rules.topic_configs import set_back
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.records import Records
from gateway.operations.sources import Sources
from gateway.state.records import MirrorRecord, MirrorState


class LiftedConfigs:
    """What a record says was lifted (`restore_configs`), and on which cluster."""

    def __init__(self, records: Records, sources: Sources, target: ClusterAccess) -> None:
        self._records = records
        self._sources = sources
        self._target = target

    async def restore(self, record: MirrorRecord) -> None:
        """Set the configs that were lifted on the copy while the topic was mirrored, once.

        Raises:
            ControlError, NetError, StoreError: not all is done; to be tried again.
        """
        if not record.restore_configs:
            return
        values, reset = set_back(record.restore_configs)
        home = record.state is MirrorState.PENDING_MIRROR  # fail back: the copy was the source's
        if record.is_reverse or home:
            link = self._records.link(record.link)
            access, topic = await self._sources.reach(link), record.source_topic
        else:
            access, topic = self._target, record.mirror_topic
        await access.alter_topic_configs(topic, values, reset)
        await self._records.store.replace(record, replace(record, restore_configs={}))
