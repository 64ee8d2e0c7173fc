"""What the control plane knows, kept in a compacted topic on the target: there is no database to run.

Every gateway reads the topic all the time, in its order (`open`). One of them leads: it alone writes (`lead`,
`resign`), each change in one transaction, which others that wait and do not concern it may share. The views change only
with what is committed, so what they show survives a crash.

What a gateway has read, and the topic has lost, comes into the topic again: `state/recovery.py`.

While the outcome of a write is unknown, nothing that depends on it goes on or is undone (`until_known`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.kafka.connection.config import ClusterConfig
from gateway.state.codec import Record, key_of
from gateway.state.errors import ProducerFenced, StoreConflict, StoreError, StoreUncertain
from gateway.state.failback_records import MAX_REMEMBERED, FailbackEpochRecord, outliving
from gateway.state.log import StateLog
from gateway.state.mirror_transitions import check_write
from gateway.state.records import MirrorRecord, SequenceRecord
from gateway.state.recovery import FollowedState
from gateway.state.slices import Slices, encoded
from gateway.state.table_writes import with_tables
from gateway.state.topic import StateTopic
from gateway.transport.host import MACHINE, Host

__all__ = ["ProducerFenced", "StateLog", "StateStore", "StoreConflict", "StoreError", "StoreUncertain"]

_TOGETHER: Final = 64  # writes in one transaction
_log = logging.getLogger("lockgate.state")


class _PendingWrite(NamedTuple):
    """A write that waits for its turn, and for whoever has the turn before it."""

    changes: Sequence[tuple[str, Record | None]]
    guard: Callable[[], None]
    done: asyncio.Future[None]


class _Guards:
    """Calls all. `refused`: one of them has raised."""

    def __init__(self, guards: Sequence[Callable[[], None]]) -> None:
        self._guards = guards
        self.refused = False

    def __call__(self) -> None:
        try:
            for guard in self._guards:
                guard()
        except Exception:
            self.refused = True
            raise


class StateStore(FollowedState):
    """The records, by kind. Use on one event loop. See `StateViews` for what is to be seen.

    Only a leader writes: every writing method raises ProducerFenced otherwise.
    """

    def __init__(
        self, target: Mapping[str, str] | ClusterConfig, *, log: StateLog | None = None, host: Host = MACHINE
    ) -> None:
        config = target if isinstance(target, ClusterConfig) else ClusterConfig.from_client_properties(target)
        self.instance = host.new_id()
        super().__init__(log or StateTopic(config, self.instance, host=host))
        self._now_ms = host.wall_ms
        self._waiting: list[_PendingWrite] = []

    async def lead(self) -> int:
        """Take over the topic, and read all that was written before. Returns the term.

        Raises:
            StoreError: the target does not answer.
            ProducerFenced: another process took over meanwhile.
        """
        async with self._lock:
            self._unresolved = []
            term = await self._log.lead()
            await self.read_up_to(term)
            if self.term != term:
                raise ProducerFenced("another gateway has taken over the state topic meanwhile")
            self.leading = True
        return term

    async def resign(self) -> None:
        """Write no more. What is being written is ended first."""
        self.leading = False
        async with self._lock:
            self._unresolved = []
            self._log.resign()

    # -- writing -------------------------------------------------------------------------------------------------

    async def put(self, *records: Record, guard: Callable[[], None] = lambda: None, with_others: bool = False) -> None:
        """Write the records in one transaction: all or none, whatever is stored under their keys.

        What was read before, or found to be absent, is written by `replace`, `insert` and `delete`: anything may have
        been written since, also by this very write, when it is tried again and its first outcome was unknown.

        Args:
            guard: called when no other write is under way: the place to compare before one sets. First before the
                write, and again right before the target is asked to commit it, which may be seconds later. What it
                raises is raised here, and nothing is written.
            with_others: others of this kind that wait for their turn may be in the same transaction. None of their
                guards asks for what one of them writes.

        Raises:
            StoreError: nothing was written (StoreUncertain: unknown, resolved before the next write).
            ProducerFenced: this process does not lead, or another has taken over.
        """
        await self.write([(key_of(record), record) for record in records], guard, with_others=with_others)

    async def insert(self, *records: Record, guard: Callable[[], None] = lambda: None) -> None:
        """Write records where there are none yet, all in one transaction. `guard` and errors as `put`.

        Raises:
            StoreConflict: there is a record under one of the keys.
        """

        def absent() -> None:
            guard()
            for record in records:
                if self.get(key_of(record)) is not None:
                    raise StoreConflict(f"{key_of(record)} was made by another operation meanwhile; try again")

        await self.put(*records, guard=absent)

    async def delete(self, *records: Record, guard: Callable[[], None] = lambda: None) -> None:
        """Delete the records in one transaction, if they are still what is stored. `guard` and errors as `put`.

        Raises:
            StoreConflict: they are not.
        """
        await self.write([(key_of(record), None) for record in records], self.unchanged(records, guard))

    async def replace(self, old: Record, new: Record, guard: Callable[[], None] = lambda: None) -> None:
        """Compare and set: write `new` if `old` is still what is stored under its key. `guard` and errors as `put`.

        Raises:
            StoreConflict: it is not.
        """
        await self.put(new, guard=self.unchanged([old], guard))

    def unchanged(self, records: Iterable[Record], guard: Callable[[], None] = lambda: None) -> Callable[[], None]:
        """A guard of `write`: raises StoreConflict when one of the records is not what is stored. `guard` is first."""

        def unchanged() -> None:
            guard()
            for record in records:
                if self.get(key_of(record)) != record:
                    raise StoreConflict(f"{key_of(record)} was changed by another operation meanwhile; try again")

        return unchanged

    async def write(
        self,
        changes: Sequence[tuple[str, Record | None]],
        guard: Callable[[], None] = lambda: None,
        *,
        with_others: bool = False,
    ) -> None:
        """Write records and deletions (None) by key in one transaction. `with_others` and errors as `put`.

        With the deletion of a mirror goes what outlives it (`state/failback_records.py`).
        """
        changes = [*changes, *self._outliving(changes)]
        # Shielded: a caller that goes away must not leave a commit whose result nobody takes into the views.
        write = self._write_with_others if with_others else self._write
        task = asyncio.create_task(write(changes, guard), name="state-write")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_told_to_nobody)
            raise

    def _outliving(self, changes: Sequence[tuple[str, Record | None]]) -> list[tuple[str, FailbackEpochRecord]]:
        deleted = [self.get(key) for key, record in changes if record is None]
        mirrors = [record for record in deleted if isinstance(record, MirrorRecord)]
        now_ms, known = self._now_ms(), self.failback_epochs
        kept = [outliving(one, self.links.get(one.link), known.get(one.mirror_topic), now_ms) for one in mirrors]
        found = [(key_of(record), record) for record in kept if record is not None]
        if found and len(known.keys() | {record.mirror_topic for _, record in found}) > MAX_REMEMBERED:
            raise StoreError(
                f"the failback epochs of {len(known)} deleted mirrors are kept, {MAX_REMEMBERED} at most: delete "
                "topics on the target that nobody needs any more, or keep the mirror"
            )
        return found

    async def outcome_known(self) -> None:
        """Find out what became of a write of unknown outcome, if there is one; nothing is asked otherwise.

        What is decided by the records is decided behind this. Raises as `resolve_outcome`.
        """
        if self._unresolved:
            await self.resolve_outcome()

    async def resolve_outcome(self) -> None:
        """Find out what became of a write of unknown outcome: then the views are what is written. Errors as `put`."""
        async with self._lock:
            try:
                await self._resolve_outcome()
            except ProducerFenced:
                self._fenced()
                raise

    async def _write(self, changes: Sequence[tuple[str, Record | None]], guard: Callable[[], None]) -> None:
        async with self._lock:
            try:
                await self._resolve_outcome()
            except ProducerFenced:
                self._fenced()
                raise
            guard()
            self._require_new_ids(changes)
            self._require_transitions(changes)
            await self._commit(changes, guard)

    async def _write_with_others(self, changes: Sequence[tuple[str, Record | None]], guard: Callable[[], None]) -> None:
        """Whoever has the turn writes for all who wait. A transaction takes several round trips between brokers, so a
        thousand creates would take minutes one by one."""
        own = _PendingWrite(changes, guard, asyncio.get_running_loop().create_future())
        self._waiting.append(own)
        async with self._lock:  # first come, first served: nobody who came before is without a result
            if not own.done.done():
                writes, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
                try:
                    await self._write_all(writes)
                finally:
                    for write in writes:
                        write.done.cancel()  # of those that have no result: this task was cancelled
        await own.done

    async def _write_all(self, writes: Sequence[_PendingWrite]) -> None:
        """Write them in one transaction, but those that may not be; each is told its result."""
        try:
            await self._resolve_outcome()
        except StoreError as exc:
            self._refuse(writes, exc)
            return
        allowed, later = self._allowed(writes)
        still = _Guards([write.guard for write in allowed])
        try:
            await self._commit([change for write in allowed for change in write.changes], still)
        except Exception as exc:  # noqa: BLE001 - also what a guard raises: each is told its own
            if still.refused and len(allowed) > 1 and not isinstance(exc, StoreUncertain | ProducerFenced):
                later = [*allowed, *later]  # nothing was written; whose guard it was is seen one by one
            else:
                self._refuse(allowed, exc)
        else:
            for write in allowed:
                write.done.set_result(None)
        for write in later:
            await self._write_all([write])

    async def _commit(self, changes: Sequence[tuple[str, Record | None]], still: Callable[[], None]) -> None:
        if not changes:
            return
        slices = Slices()
        changes = await with_tables(changes, self.records, slices, apart=self.tables_apart)
        values = await encoded(changes, self.records, slices)
        before = self.applied  # the commit itself may be read before it is answered
        try:
            offset = await self._log.commit(values, still)
        except StoreUncertain:
            self._unresolved = self._unresolved or list(changes)
            raise
        except ProducerFenced:
            self._fenced()
            raise
        if offset <= before:  # the log ended before that: it went back, and will be told to have
            self._unresolved = self._unresolved or list(changes)
            self._fenced()
            raise StoreUncertain("the state topic has lost records; what was written last is to be read anew")
        self.apply(changes, offset)

    def _allowed(self, writes: Iterable[_PendingWrite]) -> tuple[list[_PendingWrite], list[_PendingWrite]]:
        """Those that may be written at once, and those that are to look at what one of the former writes."""
        allowed, later, keys, given = list[_PendingWrite](), list[_PendingWrite](), set[str](), dict[str, int]()
        for write in writes:
            own = {key for key, record in write.changes if not isinstance(record, SequenceRecord)}
            if own & keys:
                later.append(write)
                continue
            try:
                write.guard()
                self._require_new_ids(write.changes, given)
                self._require_transitions(write.changes)
            except Exception as exc:  # noqa: BLE001 - its caller is told
                self._refuse([write], exc)
                continue
            allowed.append(write)
            keys |= own
            given |= {record.name: record.last for _, record in write.changes if isinstance(record, SequenceRecord)}
        return allowed, later

    def _refuse(self, writes: Iterable[_PendingWrite], exc: Exception) -> None:
        if isinstance(exc, ProducerFenced):
            self._fenced()
        for write in writes:
            write.done.set_exception(exc)

    def _require_new_ids(
        self, changes: Iterable[tuple[str, Record | None]], given: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """An id is given out once, also when the write that gave it out before had an unknown outcome until now.

        `given`: by who is written in the same transaction.
        """
        for _, record in changes:
            if not isinstance(record, SequenceRecord):
                continue
            stored = self.sequences.get(record.name)
            last = max(given.get(record.name, -1), -1 if stored is None else stored.last)
            if last >= record.last:
                raise StoreConflict(f"{record.name} id {record.last} was given out meanwhile; try again")

    def _require_transitions(self, changes: Iterable[tuple[str, Record | None]]) -> None:
        """Whoever has decided on it: no state of a mirror topic is written that its table does not lead to."""
        for _, record in changes:
            if isinstance(record, MirrorRecord):
                check_write(self.mirrors.get((record.link, record.mirror_topic)), record)

    async def _resolve_outcome(self) -> None:
        if not self.leading:
            raise ProducerFenced("this gateway does not lead: another one has taken over the state topic")
        if not self._unresolved:
            return
        changes = self._unresolved
        try:
            offset = await self._log.resolve_outcome()
        except (StoreUncertain, ProducerFenced):
            raise
        except StoreError:
            self._unresolved = []
            return  # it was not made, and its caller was told that it may not have been
        self._unresolved = []
        self.apply(changes, offset)


def _told_to_nobody(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (exc := task.exception()) is not None:
        _log.warning("a write whose caller has gone: %s", exc)


_AGAIN_S = 0.2


async def until_known(store: StateStore) -> bool:
    """Wait until the store's views are what is written. No limit of its own.

    Returns:
        False when another gateway leads by now: it has read what became of the write, and goes on from there.
    """
    while True:
        try:
            await store.resolve_outcome()
        except ProducerFenced:
            return False
        except StoreError:
            await asyncio.sleep(_AGAIN_S)
        else:
            return True
