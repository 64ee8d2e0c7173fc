"""What is set on a mirror topic itself on the target, beside what config sync sets: for `mirror describe`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from gateway.errors import ControlError
from gateway.kafka.rules.topic_configs import ALWAYS_SYNCED, LIFTED
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import target_errors
from gateway.operations.records import Records
from gateway.operations.sources import VIEW_S
from gateway.state import link_config
from gateway.state.records import MirrorRecord

_OURS: Final = frozenset({*ALWAYS_SYNCED, *LIFTED})


class TargetConfigs:
    """Asks the target."""

    def __init__(self, records: Records, target: ClusterAccess) -> None:
        self._records = records
        self._target = target

    async def of(self, mirror: MirrorRecord) -> Mapping[str, str] | None:
        """By name; None where the target does not tell in time, as of a topic that is gone."""
        if not mirror.created:
            return None
        try:
            synced = set(link_config.parse(self._records.link(mirror.link).configs).sync_include)
            with target_errors():
                async with asyncio.timeout(VIEW_S):
                    if not await self._target.topics([mirror.mirror_topic]):
                        return None
                    found = await self._target.topic_overrides(mirror.mirror_topic)
        except ControlError:
            return None
        ours = _OURS | (synced - mirror.configs.keys())
        return {name: value for name, value in sorted(found.items()) if name not in ours}
