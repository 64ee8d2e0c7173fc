"""Producers with transactions over all their partitions, some aborted. The transactional id stays over all lives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.simulation.clients.client import Bootstrap, Client, Fatal
from tests.simulation.clients.records import Sent
from tests.simulation.clients.sequences import Key
from tests.simulation.clients.transactions import Abortable, Transactions
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.recorder import Recorder

_ABORTED: Final = 0.15
Part = tuple[Key, list[Sent]]


class TransactionalProducer(Client):
    """Args:
    transactional_id: default: its name.
    rate_per_s: records a second.
    keyspace, style: as `Producer`'s.
    """

    revives = True

    def __init__(
        self,
        loop: SimLoop,
        name: str,
        bootstrap: Bootstrap,
        topics: Mapping[str, int],
        recorder: Recorder,
        *,
        transactional_id: str = "",
        style: str = "java",
        rate_per_s: float = 20.0,
        keyspace: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(loop, name, bootstrap, recorder, **options)
        self.keys: list[Key] = [(topic, index) for topic in sorted(topics) for index in range(topics[topic])]
        self.transactional_id = transactional_id or name
        self.style, self.rate_per_s, self.keyspace = style, rate_per_s, keyspace
        self.committed = self.aborted = 0
        self._number = self._records = 0

    async def live(self) -> None:
        """Transactions until it is to stop."""
        self.recorder.opened(self.process, self.side)
        self._number = self._records = 0
        cluster = self.open_cluster()
        try:
            if not await self.metadata(cluster, sorted({topic for topic, _ in self.keys})):
                return
            patience_s = 2 * self.timing.transaction_timeout
            transactions = Transactions(self, cluster, self.transactional_id, self.style, patience_s)
            try:
                await transactions.init()
                await self._transact_all(transactions)
            finally:
                transactions.close()
        finally:
            await cluster.close()

    async def _transact_all(self, transactions: Transactions) -> None:
        due = self.loop.time()
        while not self.stopping:
            parts = self._parts()
            count = sum(len(records) for _, records in parts)
            due = max(due, self.loop.time() - 1.0) + count / self.rate_per_s
            await self._transact(transactions, parts)
            await self.pause(max(0.0, due - self.loop.time()))

    async def _transact(self, transactions: Transactions, parts: list[Part]) -> None:
        self._number += 1
        number, told = self._number, self._told(parts)
        self.recorder.write("invoke", self.process, "txn", told, number)
        transactions.begin()
        end = "unknown"
        try:
            end = await self._attempt(transactions, parts)
        except Fatal:
            end = "unknown" if transactions.committing else "fail"
            raise
        finally:
            if end == "ok":
                told = [[what, key, [None, value]] for what, key, value in told]
                self.progress += len(told)
                self.committed += 1
            else:
                self.aborted += end == "fail"
            self.recorder.write(end, self.process, "txn", told, number)

    async def _attempt(self, transactions: Transactions, parts: list[Part]) -> str:
        try:
            for key, records in parts:
                await transactions.send(key, records)
            if self.rng.random() >= _ABORTED:
                await transactions.commit()
                return "ok"
        except Abortable as error:
            self.failed(str(error))
        await transactions.abort()
        return "unknown" if transactions.committing else "fail"

    def _parts(self) -> list[Part]:
        """Some partitions, some records for each."""
        chosen = self.rng.sample(self.keys, self.rng.randint(1, min(3, len(self.keys))))
        return [(key, [self._record() for _ in range(self.rng.randint(1, 4))]) for key in chosen]

    def _record(self) -> Sent:
        number = self._records
        self._records += 1
        key = b"k%d" % self.rng.randrange(self.keyspace) if self.keyspace else None
        return Sent(key, f"{self.process}:{number}".encode())

    def _told(self, parts: list[Part]) -> list[list[Any]]:
        side = self.side
        return [["send", self.recorder.key(side, *key), r.value.decode()] for key, records in parts for r in records]
