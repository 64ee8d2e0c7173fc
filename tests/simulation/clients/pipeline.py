"""A consume-transform-produce pipeline: each record it reads is written once to another topic, with its offsets.

Read and written records are one `txn` of the history, the offsets a `commit` beside it. An output is named
`INPUT|PROCESS:NUMBER`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gateway.kafka.cluster import Cluster
from tests.simulation.clients.client import Fatal
from tests.simulation.clients.member import GroupMember, Read, text
from tests.simulation.clients.membership import Membership, Rewind
from tests.simulation.clients.records import Sent
from tests.simulation.clients.sequences import Key
from tests.simulation.clients.transactions import Abortable, Transactions

OF: Final = "|"


class Pipeline(GroupMember):
    """Args, after `GroupMember`'s: `output`: topic and partitions; `transactional_id`: default its name."""

    most = 60

    def __init__(
        self,
        *args: Any,
        output: tuple[str, int],
        transactional_id: str = "",
        style: str = "java",
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.output, self.style = output, style
        self.transactional_id = transactional_id or self.name
        self._transactions: Transactions | None = None
        self._number = self._records = 0

    async def prepare(self, cluster: Cluster) -> None:
        """Take over the transactional id."""
        self._number = self._records = 0
        if not await self.metadata(cluster, [*self.topics, self.output[0]]):
            return
        patience_s = 2 * self.timing.transaction_timeout
        self._transactions = Transactions(self, cluster, self.transactional_id, self.style, patience_s)
        await self._transactions.init()

    def finish(self) -> None:
        """End the producer."""
        if self._transactions is not None:
            self._transactions.close()
            self._transactions = None

    async def act_on(self, membership: Membership, read: Read) -> None:
        """One transaction. Raises Rewind when it was aborted: what it had read is read again."""
        transactions = self._transactions
        assert transactions is not None
        self._number += 1
        number = self._number
        outputs = self._transformed(read)
        name = self.recorder.key(self.side, self.output[0], 0).rpartition("/")[0]
        sends = [["send", f"{name}/{k[1]}", r.value.decode()] for k, records in outputs.items() for r in records]
        told = {self.key(key): [[r.offset, text(r)] for r in records] for key, records in read.items()}
        offsets = {key: records[-1].offset + 1 for key, records in read.items()}
        named = {self.key(key): offset for key, offset in offsets.items()}
        self.recorder.write("invoke", self.process, "txn", [["poll"], *sends], number)
        self.recorder.write("invoke", self.process, "commit", named)
        kind = "unknown"
        try:
            kind = await self._transact(transactions, membership, outputs, offsets)
        except Fatal:
            kind = "unknown" if transactions.committing else "fail"
            raise
        finally:
            done = [["poll", told], *([what, key, [None, value]] for what, key, value in sends)]
            self.recorder.write(kind, self.process, "txn", done, number)
            self.recorder.write(kind, self.process, "commit", named)
        if kind != "ok":
            raise Rewind
        self.progress += len(sends)
        for key, offset in named.items():
            self.passed(key, offset)

    async def _transact(
        self,
        transactions: Transactions,
        membership: Membership,
        outputs: dict[Key, list[Sent]],
        offsets: dict[Key, int],
    ) -> str:
        transactions.begin()
        try:
            for key, records in outputs.items():
                await transactions.send(key, records)
            await self.bring_offsets(transactions, membership, offsets)
            await transactions.commit()
        except Abortable as error:
            self.failed(str(error))
            await transactions.abort()
            return "unknown" if transactions.committing else "fail"
        return "ok"

    async def bring_offsets(
        self, transactions: Transactions, membership: Membership, offsets: Mapping[Key, int]
    ) -> None:
        """With the member's id and generation, by which the coordinator knows one that has been replaced."""
        await transactions.send_offsets(self.group, offsets, (membership.member_id, membership.generation))

    def _transformed(self, read: Read) -> dict[Key, list[Sent]]:
        topic, partitions = self.output
        outputs: dict[Key, list[Sent]] = {}
        for (_, index), records in read.items():
            for record in records:
                self._records += 1
                value = f"{text(record)}{OF}{self.process}:{self._records}".encode()
                outputs.setdefault((topic, index % partitions), []).append(Sent(record.key, value))
        return outputs


def not_once(inputs: Iterable[str], outputs: Iterable[str]) -> list[str]:
    """What was not written exactly once of what was to be read, a line each."""
    written = Counter(value.rsplit(OF, 1)[0] for value in outputs)
    read = Counter(inputs)
    return [
        *(f"{value!r} was not processed" for value in read - written),
        *(f"{value!r} was processed again" for value in written - read),
    ]
