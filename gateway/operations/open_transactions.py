"""Transactions that are open on a link's source and on the target: a promote waits for those that have its topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.errors import ControlError
from gateway.kafka.connection.errors import NetError
from gateway.kafka.transactions import TransactionDescription, all_transactions
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.records import Records
from gateway.operations.sources import VIEW_S, SourcesForViews

ReadsTransactions = Callable[[ClusterAccess], Awaitable[Sequence[TransactionDescription]]]


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """`source`, `target` -> transactions that are not ended, by transactional id; and why a cluster does not tell."""

    found: Mapping[str, Sequence[TransactionDescription]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


async def _unended(access: ClusterAccess) -> Sequence[TransactionDescription]:
    return await all_transactions(access.cluster, VIEW_S, unended_only=True)


class TransactionsView:
    """Asks both clusters, at most `VIEW_S` seconds. Nothing is changed."""

    def __init__(
        self, records: Records, views: SourcesForViews, target: ClusterAccess, reads: ReadsTransactions = _unended
    ) -> None:
        self._records = records
        self._views = views
        self._target = target
        self._reads = reads

    async def of_link(self, name: str) -> OpenTransactions:
        """Of the link's source and of the target. Raises NotFound."""
        link = self._records.link(name)
        found: dict[str, Sequence[TransactionDescription]] = {}
        unknown: dict[str, str] = {}

        async def source() -> Sequence[TransactionDescription]:
            with source_errors(name):
                async with asyncio.timeout(VIEW_S):
                    return await self._reads(await self._views.reach(link))

        async def target() -> Sequence[TransactionDescription]:
            with target_errors():
                async with asyncio.timeout(VIEW_S):
                    return await self._reads(self._target)

        async def ask(cluster: str, look: Callable[[], Awaitable[Sequence[TransactionDescription]]]) -> None:
            try:
                found[cluster] = await look()
            except (ControlError, NetError) as exc:
                unknown[cluster] = str(exc)

        await asyncio.gather(ask("source", source), ask("target", target))
        return OpenTransactions(found, unknown)
