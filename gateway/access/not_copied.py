"""What a cluster has that a migration does not carry over: read part by part, and what cannot be read is said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from gateway.access.rules.not_copied import NOTICED, ClusterSettings, Kind
from gateway.kafka.connection.errors import NetError
from gateway.operations.cluster_access import ClusterAccess

T = TypeVar("T")


async def look_at_settings(access: ClusterAccess) -> ClusterSettings:
    """As far as this principal may see them: each part needs a right of its own."""
    unknown: dict[Kind, str] = {}

    async def read(kind: Kind, question: Callable[[], Awaitable[Mapping[str, T]]]) -> Mapping[str, T]:
        try:
            return await question()
        except (NetError, TimeoutError, OSError) as exc:
            unknown[kind] = str(exc) or type(exc).__name__
            return {}

    owners = await read(Kind.DELEGATION_TOKENS, access.token_owners)
    features = await read(Kind.FEATURE_LEVEL, access.feature_levels)
    configs = await read(Kind.BROKER_DEFAULT, access.broker_configs)
    defaults = {name: configs[name] for name in NOTICED if name in configs}
    return ClusterSettings(owners, features, defaults, unknown)
