"""The state topic's I/O: create, read, take over, write in transactions.

Any process reads. One writes at a time: `lead` takes over the transactional id, which fences the process that had it
before (KIP-98) and ends a transaction it left open. It then writes a `writer` record: the offset of that record is the
**term**, higher than all before. Who reads another's writer record behind its own has been replaced.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import LogTruncated, NetError, ReadTooLate
from gateway.kafka.logs.compacted_log import CompactedLog, until_answered
from gateway.kafka.logs.log_follower import LogFollower
from gateway.kafka.rules.topic_configs import INTERNAL
from gateway.kafka.transactional_producer import Fenced, LogProducer, OutcomeUnknown
from gateway.state.errors import ProducerFenced, StateReadTooLate, StateWentBack, StoreError, StoreUncertain
from gateway.state.log import MORE, WAS, WRITER_KEY, Change, Entry, StateReader
from gateway.transport.host import MACHINE, Host
from protocol.batch.keyed import KeyedRecord
from protocol.errors import ProtocolError

TOPIC = "__lockgate_state"
TRANSACTIONAL_ID = "__lockgate-state"

_MAX_RECORD_BYTES = 32 * 1024 * 1024  # a promoted topic's producer tables may be long
_COMMIT_S = 20.0


class StateTopic:
    """The topic as seen by one process, named by `instance` (unique per start).

    Calls must not overlap, except `read`, which goes on beside the others.

    `commit_s`: seconds after which a commit that nobody answers counts as uncertain.
    """

    def __init__(
        self,
        config: ClusterConfig,
        instance: str,
        *,
        host: Host = MACHINE,
        topic: str = TOPIC,
        transactional_id: str = TRANSACTIONAL_ID,
        commit_s: float = _COMMIT_S,
    ) -> None:
        self._cluster = Cluster(config, host=host)
        self._instance = instance
        self._topic = topic
        self._transactional_id = transactional_id
        self._commit_s = commit_s
        self._producer: LogProducer | None = None
        self._reader: StateReader | None = None

    # -- reading -------------------------------------------------------------------------------------------------

    async def open(self, timeout_s: float = 30.0) -> list[Entry]:
        """Create the topic if absent, and read all of it. Once; `close` also when it has failed.

        Raises:
            StoreError: the target is not reachable or the topic is not what it must be.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        with _translated("the state topic on the target could not be opened"):
            await self._cluster.start(timeout_s, topics=())
            await self._ensure_topic(timeout_s)
            return await self._read_all(deadline)

    async def read(self, timeout_s: float) -> list[Entry]:
        """What came since, whole changes only; waits up to `timeout_s` for the first.

        Raises:
            StateWentBack: the topic has lost what was read of it; `read_anew` then.
            StateReadTooLate: it was not read for so long that deletions may be missed; `read_anew` then.
            StoreError: the topic cannot be read any more.
        """
        if self._reader is None:
            raise StoreError("the state topic is not open")
        with _translated("the state topic on the target cannot be read"):
            return await self._reader.read(timeout_s)

    async def read_anew(self, timeout_s: float = 30.0) -> list[Entry]:
        """All of the topic from its beginning; `read` goes on behind it.

        Raises:
            StateWentBack: it has lost more meanwhile.
            StoreError: it cannot be read, or not in time.
        """
        with _translated("the state topic on the target cannot be read"):
            return await self._read_all(asyncio.get_running_loop().time() + timeout_s)

    async def _read_all(self, deadline: float) -> list[Entry]:
        """To the end, by a reader that goes on from there."""
        reader = StateReader(LogFollower(self._cluster, self._topic))
        try:
            async with asyncio.timeout_at(deadline):
                entries = await reader.read_to_end()
        except TimeoutError:
            raise StoreError("the state topic could not be read to its end in time") from None
        self._reader = reader
        return entries

    # -- writing -------------------------------------------------------------------------------------------------

    async def lead(self, timeout_s: float = 30.0) -> int:
        """Fence whoever wrote before. Returns the term.

        Raises:
            StoreError: the target does not answer, or refuses.
            ProducerFenced: somebody else took over in the meantime.
        """
        self.resign()
        producer = LogProducer(self._cluster, self._transactional_id, self._topic)
        with _translated("the state topic on the target could not be taken over"):
            await producer.init(timeout_s)
        self._producer = producer
        return await self.commit([(WRITER_KEY, json.dumps({"v": 1, "instance": self._instance}).encode())])

    def resign(self) -> None:
        """Write no more; reading goes on. What became of a commit of unknown outcome is for the next leader to read."""
        self._producer = None

    async def commit(self, changes: Sequence[Change], still: Callable[[], None] = lambda: None) -> int:
        """Write all changes in one transaction. Returns the offset of the last record.

        `still` is called right before the target is asked to commit; what it raises is raised here, and nothing was
        written.

        Raises:
            StoreError: nothing was written, nor will it be.
            StoreUncertain: the outcome is unknown; `resolve_outcome` before the next commit.
            ProducerFenced: another process leads.
        """
        return await self._commit(changes, still)

    async def write_again(self, changes: Sequence[Change], was: Sequence[int]) -> int:
        """As `commit`, of changes that the topic has lost. `was`: the offset of each before."""
        return await self._commit(changes, lambda: None, was)

    async def _commit(self, changes: Sequence[Change], still: Callable[[], None], was: Sequence[int] = ()) -> int:
        producer = self._opened()
        more: list[tuple[bytes, ...]] = [*[(MORE.encode(),)] * (len(changes) - 1), ()]
        again: list[tuple[bytes, ...]] = [(f"{WAS}{offset}".encode(),) for offset in was] or [()] * len(changes)
        records = [
            KeyedRecord(key.encode(), value, one + other)
            for (key, value), one, other in zip(changes, more, again, strict=True)
        ]
        with _translated("the state was not changed"):
            return await producer.commit(records, self._commit_s, still)

    async def resolve_outcome(self) -> int:
        """Find out what became of a commit of unknown outcome: it is never made later than this.

        Returns the offset of its last record; -1: there was none.

        Raises:
            StoreUncertain: still unknown.
            StoreError: it is not in the topic, and never will be.
            ProducerFenced: another process leads.
        """
        producer = self._producer
        if producer is None:
            return -1
        with _translated("the last change of the state was not made"):
            return await producer.resolve_outcome(self._commit_s)

    async def close(self) -> None:
        """Close the clients. Waits for nothing: what was not committed is not in the state."""
        self.resign()
        self._reader = None
        await self._cluster.close()

    def _opened(self) -> LogProducer:
        if self._producer is None:
            raise StoreError("this gateway does not lead the fleet: it cannot change the state")
        return self._producer

    async def _ensure_topic(self, timeout_s: float) -> None:
        configs = {**INTERNAL, "max.message.bytes": str(_MAX_RECORD_BYTES)}
        log = CompactedLog(self._cluster, self._topic, configs=configs)
        if not await until_answered(self._cluster, f"create {self._topic}", partial(_made, log), timeout_s):
            raise StoreError(
                f"topic {self._topic} exists on the target, but is not a compacted topic of one partition: "
                "it is not lockgate's state"
            )


async def _made(log: CompactedLog, timeout_s: float) -> bool:
    await log.ensure(timeout_s)
    return await log.is_well_formed(timeout_s)


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """The store's own errors for those of our client."""
    try:
        yield
    except Fenced as exc:
        why = f"another lockgate process has taken over the state topic; this one must stop ({exc})"
        raise ProducerFenced(why) from exc
    except LogTruncated as exc:
        raise StateWentBack(f"{what}: {exc}", exc.end) from exc
    except ReadTooLate as exc:
        raise StateReadTooLate(f"{what}: {exc}") from exc
    except OutcomeUnknown as exc:
        raise StoreUncertain(f"the target has not answered a change of the state: {exc}") from exc
    except (NetError, ProtocolError) as exc:
        raise StoreError(f"{what}: {exc}") from exc
