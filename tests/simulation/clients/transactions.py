"""Transactions as a producer's library carries them out: Java's TransactionManager, with transactions V1.

InitProducerId, then per transaction AddPartitionsToTxn, Produce, AddOffsetsToTxn, TxnOffsetCommit, EndTxn. An answer is
tried again, or makes the transaction one that can only be aborted (`Abortable`), or ends the producer (`Fatal`). After
an abort for a batch that failed the epoch is bumped by the coordinator (InitProducerId with the identity, KIP-360).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from gateway.kafka.cluster import Cluster
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from tests.simulation.clients.client import EPOCH_MS, Client, Fatal
from tests.simulation.clients.coordinator import GROUP, TRANSACTION, Codes, Coordinator, GivenUp
from tests.simulation.clients.producer import STYLES
from tests.simulation.clients.records import Sent, record_body
from tests.simulation.clients.sender import Sender
from tests.simulation.clients.sequences import Batch, End, Identity, Key

_CONCURRENT_S: Final = 0.02
_FATAL: Final = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNSUPPORTED_VERSION,
    )
)
_BUMP: Final = frozenset((ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
Member = tuple[str, int]
"""(member id, generation)."""


class Abortable(Exception):
    """The transaction can only be aborted."""


class Transactions:
    """One producer with a transactional id. `patience_s`: for how long a request is tried again, then it is Fatal."""

    def __init__(self, client: Client, cluster: Cluster, transactional_id: str, style: str, patience_s: float) -> None:
        self._client, self._id, self._patience_s = client, transactional_id, patience_s
        self._loop = client.loop
        timing = client.timing
        self._timing = timing
        self._cluster = cluster
        self._coordinator = Coordinator(cluster, transactional_id, TRANSACTION, timing.request_timeout)
        self.sequences = STYLES[style](
            self._ended,
            lambda _batch: None,  # an epoch is bumped between transactions, when nothing is open
            idempotent=True,
            transactional=True,
            backoff=(timing.retry_backoff, timing.retry_backoff_max),
        )
        self._sender = Sender(
            cluster,
            self.sequences,
            timeout_s=timing.request_timeout,
            transactional_id=transactional_id,
            epoch_ms=EPOCH_MS,
            spawn=client.spawn,
        )
        self._sender.allowed = set()
        self._added: set[Key] = set()
        self._failed = ""
        self._with_offsets = False
        self._bump = False
        self._numbers = 0
        self.committing = False
        """The commit was sent: how the transaction ends is not known until the answer."""

    async def init(self) -> None:
        """Get an identity; fences whoever had the id before. Fatal when that cannot be."""
        await self._init(Identity(-1, -1))

    def begin(self) -> None:
        """A transaction begins."""
        self._added.clear()
        self._sender.allowed = set()
        self._failed, self._with_offsets, self.committing = "", False, False

    async def send(self, key: Key, records: Sequence[Sent]) -> None:
        """Send a batch in the transaction; its partition is added first."""
        if key not in self._added:
            await self._add([key])
        now = self._loop.time()
        self._numbers += 1
        batch = Batch(
            key, tuple(records), record_body(records), self._numbers, now, now + self._timing.delivery_timeout
        )
        self._sender.send(batch)

    async def send_offsets(self, group: str, offsets: Mapping[Key, int], member: Member) -> None:
        """AddOffsetsToTxn, then TxnOffsetCommit."""
        await self.add_offsets(group)
        await self.commit_offsets(group, offsets, member)

    async def add_offsets(self, group: str) -> None:
        """AddOffsetsToTxn."""
        identity = self._identity
        add = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group,
        )
        await self._ask("AddOffsetsToTxn", add, 3, lambda answer: [answer.error_code])
        self._with_offsets = True

    async def commit_offsets(self, group: str, offsets: Mapping[Key, int], member: Member) -> None:
        """TxnOffsetCommit to the group's coordinator."""
        identity = self._identity
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition
        topics = [
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    part(
                        partition_index=index,
                        committed_offset=offsets[topic, index],
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets)
        ]
        commit = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=member[1],
            member_id=member[0],
            group_instance_id=None,
            topics=topics,
        )
        coordinator = Coordinator(self._cluster, group, GROUP, self._timing.request_timeout)
        await self._ask("TxnOffsetCommit", commit, 3, _codes_of_topics, coordinator)

    async def commit(self) -> None:
        """Wait for what was sent, and commit. Abortable before the commit was sent, never after."""
        await self._sender.flushed()
        self._raise_if_failed()
        if not self._added and not self._with_offsets:
            return
        self.committing = True
        await self._end(committed=True)

    async def abort(self) -> None:
        """Give it up. Fatal when that cannot be done."""
        self.sequences.drop_unsent("the transaction is aborted")
        self._sender.wake()
        await self._sender.flushed()
        refused = self.sequences.refused
        if refused is not None and refused.fatal:
            raise Fatal(refused.why)
        bump = self._bump or refused is not None
        if self._added or self._with_offsets:
            await self._end(committed=False)
        self._bump = False
        self.sequences.refused = None
        if bump:
            await self._init(self._identity)

    def close(self) -> None:
        """No more is sent."""
        self._sender.close("closed")

    # -- requests --------------------------------------------------------------------------------------------

    @property
    def _identity(self) -> Identity:
        identity = self.sequences.identity
        assert identity is not None, "init first"
        return identity

    async def _init(self, known: Identity) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=int(self._timing.transaction_timeout * 1000),
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
        )
        try:
            answer = await self._ask("InitProducerId", request, 4, lambda answer: [answer.error_code])
        except Abortable as error:
            raise Fatal(str(error)) from None
        self.sequences.begin(Identity(answer.producer_id, answer.producer_epoch))

    async def _add(self, keys: Collection[Key]) -> None:
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[kind(name=topic, partitions=list(indexes)) for topic, indexes in by_topic(keys)],
        )
        self._added.update(keys)  # an answer that is lost may have added them
        await self._ask("AddPartitionsToTxn", request, 3, _codes_of_results)
        assert self._sender.allowed is not None
        self._sender.allowed.update(keys)

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=committed,
        )
        await self._ask("EndTxn", request, 3, lambda answer: [answer.error_code])

    async def _ask(
        self,
        what: str,
        request: Any,
        cap: int,
        codes_of: Callable[[Any], Iterable[int]],
        coordinator: Coordinator | None = None,
    ) -> Any:
        """Try it until there is an answer to act on."""
        backoff_s = self._timing.retry_backoff
        try:
            return await (coordinator or self._coordinator).ask_again(
                request,
                cap=cap,
                codes_of=codes_of,
                judge=lambda codes, _doubt: self._judge(what, codes),
                patience_s=self._patience_s,
                pause_s=lambda codes: _CONCURRENT_S if ErrorCode.CONCURRENT_TRANSACTIONS in codes else backoff_s,
            )
        except GivenUp as error:
            raise Fatal(f"{what}: given up after {self._patience_s:g} s: {error}") from None

    def _judge(self, what: str, codes: Codes) -> None:
        for code in codes:
            why = f"{what}: {error_name(code)}"
            if code in _FATAL:
                raise Fatal(why)
            if not is_retriable(code):
                self._bump |= code in _BUMP
                if what == "EndTxn" and code not in _BUMP and code != ErrorCode.TRANSACTION_ABORTABLE:
                    raise Fatal(why)
                raise Abortable(why)

    def _raise_if_failed(self) -> None:
        refused = self.sequences.refused
        if refused is not None:
            raise Fatal(refused.why) if refused.fatal else Abortable(refused.why)
        if self._failed:
            raise Abortable(self._failed)

    def _ended(self, _batch: Batch, end: End, _offset: int, why: str) -> None:
        if end is not End.OK:
            self._failed = self._failed or f"Produce: {why}"


def by_topic(keys: Iterable[Key]) -> list[tuple[str, list[int]]]:
    """Topics with their partitions, in order."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(keys):
        found.setdefault(topic, []).append(index)
    return list(found.items())


def _codes_of_results(answer: Any) -> list[int]:
    return [
        part.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    ]


def _codes_of_topics(answer: Any) -> list[int]:
    return [part.error_code for topic in answer.topics for part in topic.partitions]
