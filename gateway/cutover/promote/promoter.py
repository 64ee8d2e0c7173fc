"""Promotes mirror topics: the checks before, one run per set, and the runs that a restart interrupted.

Built by `control_parts.py`, and wired by `runtime/term.py`:

    promoter.resume()                             # continues what a restart interrupted, and begins to look for
                                                  # records after the cutover (`records_after_cutover`);
                                                  # returns immediately

Its tasks run in `background` and end with `service.close`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import structlog

from gateway.cutover.promote.call_off import CallOffs, Claim
from gateway.cutover.promote.durability import Durability
from gateway.cutover.promote.gather import PromoteTools
from gateway.cutover.promote.records_after_cutover import RecordsAfterCutover
from gateway.cutover.promote.rehearsal import BEFORE_PAUSE_S, Rehearsal
from gateway.cutover.promote.rules.call_off import WAS_CALLED_OFF
from gateway.cutover.promote.rules.promote import REHEARSAL, REHEARSED
from gateway.cutover.promote.run import PromoteRun
from gateway.cutover.promote.unpromoted_groups import unpromoted_groups
from gateway.errors import Conflict, ControlError, SourceUnreachable
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.sources import Sources
from gateway.operations.upstream import require_origins
from gateway.state.link_config import parse
from gateway.state.mirror_states import MirrorOperation, WrongState, transition
from gateway.state.producer_ids import MAX_FAILBACK_EPOCH
from gateway.state.promote_sets import CALLED_OFF, groups_among, missing_of
from gateway.state.records import MirrorRecord, MirrorState, ThenReverse
from gateway.transport.background import Background

_REHEARSAL_INTERRUPTED = "the rehearsal was interrupted"
_FAILED_OVER = "mirror topic '{}' is being failed over"
_log = structlog.get_logger("lockgate.promote")


class TopicPromoter:
    """Implements `TopicPromoter`.

    Args:
        tools: shared by all runs.
        late: looks for records after the cutover.
    """

    def __init__(
        self,
        tools: PromoteTools,
        *,
        late: RecordsAfterCutover,
        sources: Sources,
        target: ClusterAccess,
        background: Background,
    ) -> None:
        self._tools = tools
        self._records = tools.records
        self._store = tools.records.store
        self._late = late
        self._sources = sources
        self._target = target
        self._durability = Durability(sources, target)
        self._background = background
        self._running: dict[tuple[str, str], Claim] = {}
        self._groups: set[tuple[str, str]] = set()  # groups that change sides with topics
        self._leaving = ""
        self._over = asyncio.Event()
        self._barred: set[tuple[str, str]] = set()
        self._changed = asyncio.Condition()
        # a promote that is told to end gets the time of a write pause to do so, and again to store the result
        self._end_s = 2 * tools.limits.pause_timeout_s
        self._call_offs = CallOffs(
            records=tools.records,
            locks=tools.locks,
            claims=self._running,
            changed=self._changed,
            gives_up=lambda link, names, groups: self._resume(link, names, WAS_CALLED_OFF, groups),
            within_s=self._end_s,
        )

    def records_after_cutover(self, link: str, topic: str) -> Mapping[int, int] | None:
        """See `operations/partners.py`."""
        return self._late.of(link, topic)

    def late_writes_known(self, link: str, topic: str) -> bool:
        """See `operations/partners.py`."""
        return self._late.is_known(link, topic)

    async def require_no_late_writes(self, link: str, topics: Sequence[str], *, keep: bool = False) -> None:
        """See `operations/partners.py`."""
        await self._late.require_none(link, topics, keep=keep)

    async def promote(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        force: bool = False,
        then_reverse: ThenReverse = ThenReverse.NO,
        keep_late: bool = False,
    ) -> Sequence[MirrorRecord]:
        """Promote the topics as one set. `force` skips the check for groups that still read on the source.

        `groups`: mirror groups that change sides with them, under the same write pause and by the same state write.
        `then_reverse`: see `PromoteRun`. `keep_late`: for a failback, keep late writes on the source in place.

        Raises:
            NotFound, WrongState: nothing was begun.
            Conflict: refused (lists groups that are not promoted), or given up with the reason; then writes go on and
                the topics are ACTIVE.
            SourceUnreachable, TargetUnreachable: nothing was begun.
        """
        names, moving = tuple(dict.fromkeys(topics)), tuple(dict.fromkeys(groups))
        if self._leaving:
            raise Conflict(f"{self._leaving}; ask again in a moment")
        self._call_offs.require_none(link, names)
        async with self._claim(link, names, moving):
            operation = MirrorOperation.FORCE_PROMOTE if force else MirrorOperation.PROMOTE
            await self._check(link, names, operation, moving, keep_late=keep_late)
            await self._run(link, names, operation, then_reverse=then_reverse, groups=moving, keep_late=keep_late)
        return [self._records.mirror(link, name) for name in names]

    async def rehearse(self, link: str, topics: Sequence[str], bound_s: float = 0.0) -> Rehearsal:
        """Run the promote of these topics as one set up to the cutover, and back. Does not check groups.

        Args:
            bound_s: the longest write pause in seconds; 0, or more than a promote's: a promote's.

        Raises:
            NotFound, WrongState, Conflict, SourceUnreachable, TargetUnreachable: nothing was begun.
        """
        names, own_s = tuple(dict.fromkeys(topics)), self._tools.limits.pause_timeout_s
        if self._leaving:
            raise Conflict(f"{self._leaving}; ask again in a moment")
        self._call_offs.require_none(link, names)
        async with self._claim(link, names):
            await self.check_rehearsal(link, names)
            bound_s = min(bound_s, own_s) or own_s
            tools = replace(self._tools, limits=replace(self._tools.limits, pause_timeout_s=bound_s))
            run = PromoteRun(tools, link, names, MirrorOperation.PROMOTE, rehearses=True)
            late = f"the write pause did not begin within {BEFORE_PAUSE_S:g} s"
            timer = asyncio.get_running_loop().call_later(
                BEFORE_PAUSE_S, lambda: run.end(f"{late}: {run.waiting_for}" if run.waiting_for else late)
            )
            try:
                await self._go(run, link, names)
            except Conflict as exc:  # a rehearsal always ends like this
                given_up = "" if str(exc) == REHEARSED else str(exc)
            else:
                given_up = "it did not come to its end"
            finally:
                timer.cancel()
        return Rehearsal(topics=names, given_up=given_up, bound_s=bound_s, pause=run.rehearsed)

    async def check_rehearsal(self, link: str, topics: Sequence[str]) -> None:
        """The checks of `rehearse`, without the rehearsal. Raises as `rehearse`."""
        mirrors = [self._records.mirror(link, name) for name in dict.fromkeys(topics)]
        for mirror in mirrors:
            self._check_mirror(mirror, MirrorOperation.PROMOTE)
        _require_one_way(mirrors)
        await self._check_partitions(link, mirrors)

    async def call_off(self, link: str, topics: Sequence[str], *, validate_only: bool = False) -> Sequence[str]:
        """See `CallOffs.call_off`; `validate_only`: only return what would go back."""
        if validate_only:
            return self._call_offs.plan(link, topics)
        return await self._call_offs.call_off(link, topics)

    def waiting_for(self, link: str, topic: str) -> str:
        """What a running promote of the topic waits for; '' when none runs or it does not wait."""
        run = self._run_of((link, topic))
        return run.waiting_for if run is not None else ""

    def _run_of(self, key: tuple[str, str]) -> PromoteRun | None:
        claim = self._running.get(key)
        return None if claim is None else claim.run

    def under_way(self) -> frozenset[tuple[str, str]]:
        """(link, mirror topic) of each topic that this gateway promotes now."""
        return frozenset(self._running)

    async def leave(self, limit_s: float) -> None:
        """This gateway is about to stop: wait, at most `limit_s`, until promotes that pause writes have ended.

        The next leader continues the others; new ones are refused. To be called before partitions are given away.
        """
        self._leaving = "this gateway is being stopped"
        for claim in self._running.values():
            if claim.run is not None:
                claim.run.leave(self._leaving)
        try:
            async with asyncio.timeout(limit_s):
                while self._running:
                    self._over.clear()
                    await self._over.wait()
        except TimeoutError:
            _log.warning("promotes are not over yet", topics=sorted(topic for _, topic in self._running))

    def resume(self) -> None:
        """Continue every promote that the end of a process interrupted, and watch finished ones; returns immediately.

        By their records, the topics of a set are one set again. If one of them is in another state by now, the set is
        given up: its topics cut over together, or not at all.
        """
        self._late.start()
        interrupted = [mirror for mirror in self._store.mirrors.values() if _interrupted(mirror)]
        for link, names in sorted({_set_of(mirror) for mirror in interrupted}):
            left = tuple(mirror.mirror_topic for mirror in interrupted if _set_of(mirror) == (link, names))
            gone = missing_of(names, left)
            what = f"mirror topic '{gone[0]}'" if gone and " " not in gone[0] else "".join(gone[:1])
            reason = f"{what} of its set is not being promoted any more" if gone else ""
            reason = WAS_CALLED_OFF if CALLED_OFF in gone else reason
            reason = _REHEARSAL_INTERRUPTED if REHEARSAL in gone else reason
            going_on = self._resume(link, left, reason, groups_among(names))
            self._background.spawn(going_on, f"resume promote {link} {','.join(left)}")

    @asynccontextmanager
    async def without(self, link: str, topic: str) -> AsyncIterator[None]:
        """A block in which no promote of the topic runs: a running one is ended first, or has cut over by then.

        Raises:
            Conflict: it did not end in time; or another block for the topic is not over.
        """
        key = (link, topic)
        if key in self._barred:
            raise Conflict(f"mirror topic '{topic}' is being failed over already")
        self._barred.add(key)
        try:
            await self._ended(key)
            yield
        finally:
            self._barred.discard(key)
            await self._tell()

    async def _ended(self, key: tuple[str, str]) -> None:
        try:
            async with asyncio.timeout(self._end_s), self._changed:
                while (run := self._run_of(key)) is not None:  # a claim without a run will not begin any more
                    run.end(_FAILED_OVER.format(key[1]))
                    await self._changed.wait()
        except TimeoutError:
            raise Conflict(self._still(key)) from None

    def _still(self, key: tuple[str, str]) -> str:
        run = self._run_of(key)
        if run is not None and run.committing:
            return (
                f"whether the promote of mirror topic '{key[1]}' has been stored is not known: the target does not "
                "answer. Its writes are paused until then; try again when the target answers"
            )
        waits = "" if run is None else run.waiting_for
        return f"the promote of mirror topic '{key[1]}' has not come to an end yet{waits and ': '}{waits}; try again"

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _resume(self, link: str, names: tuple[str, ...], reason: str, groups: tuple[str, ...] = ()) -> None:
        """`reason`: why it must be given up, or ''."""
        async with self._changed:
            await self._changed.wait_for(lambda: not any((link, name) in self._barred for name in names))
        try:
            async with self._claim(link, names, groups):
                rehearsed = reason == _REHEARSAL_INTERRUPTED
                await self._run(link, names, MirrorOperation.PROMOTE, reason, rehearsed=rehearsed, groups=groups)
        except ControlError as exc:  # the record says so, too
            told = "a promote that was gone on with was given up: nothing was cut over"
            _log.warning(told, link=link, topics=names, reason=str(exc))

    async def _run(
        self,
        link: str,
        names: tuple[str, ...],
        operation: MirrorOperation,
        reason: str = "",
        then_reverse: ThenReverse = ThenReverse.NO,
        *,
        rehearsed: bool = False,
        groups: Sequence[str] = (),
        keep_late: bool = False,
    ) -> None:
        """`rehearsed`: this is the rest of a rehearsal, and is given up because of `reason`."""
        keeps = self._late.others_only if keep_late else None
        run = PromoteRun(
            self._tools, link, names, operation, then_reverse, groups=groups, rehearses=rehearsed, keeps=keeps
        )
        if reason:
            run.end(reason)
        await self._go(run, link, names)

    async def _go(self, run: PromoteRun, link: str, names: tuple[str, ...]) -> None:
        """Execute a run for claimed topics, unless something has intervened during their checks."""
        keys = [(link, name) for name in names]
        self._require_not_barred(keys)
        if self._leaving:
            run.leave(self._leaving)
        if self._call_offs.is_asked(link, names):
            run.end(WAS_CALLED_OFF)
        self._running.update(dict.fromkeys(keys, Claim(names, run)))
        await run.run()

    def _require_not_barred(self, keys: Sequence[tuple[str, str]]) -> None:
        if barred := [name for link, name in keys if (link, name) in self._barred]:
            raise Conflict(_FAILED_OVER.format(barred[0]))

    @asynccontextmanager
    async def _claim(self, link: str, names: tuple[str, ...], groups: tuple[str, ...] = ()) -> AsyncIterator[None]:
        keys = [(link, name) for name in names]
        if busy := [name for key, name in zip(keys, names, strict=True) if key in self._running]:
            raise Conflict(f"mirror topic '{busy[0]}' is being promoted already")
        self._require_free(link, groups)
        self._require_not_barred(keys)
        self._running.update(dict.fromkeys(keys, Claim(names, None)))
        self._groups.update((link, group) for group in groups)
        try:
            yield
        finally:
            for key in keys:
                del self._running[key]
            self._groups.difference_update((link, group) for group in groups)
            self._over.set()
            await self._tell()

    def _require_free(self, link: str, groups: Sequence[str]) -> None:
        if taken := [group for group in groups if (link, group) in self._groups]:
            raise Conflict(f"group '{taken[0]}' is changing sides with other topics already")

    # -- checks before a promote begins ------------------------------------------------------------------------

    async def check(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        force: bool = False,
        keep_late: bool = False,
    ) -> None:
        """The checks of `promote`, without the promote. Raises as `promote`."""
        names = tuple(dict.fromkeys(topics))
        if busy := [name for name in names if (link, name) in self._running]:
            raise Conflict(f"mirror topic '{busy[0]}' is being promoted already")
        self._require_free(link, groups)
        self._require_not_barred([(link, name) for name in names])
        operation = MirrorOperation.FORCE_PROMOTE if force else MirrorOperation.PROMOTE
        await self._check(link, names, operation, tuple(dict.fromkeys(groups)), note=False, keep_late=keep_late)

    async def _check(
        self,
        link: str,
        names: tuple[str, ...],
        operation: MirrorOperation,
        moving: tuple[str, ...] = (),
        *,
        note: bool = True,
        keep_late: bool = False,
    ) -> None:
        mirrors = [self._records.mirror(link, name) for name in names]
        forced = operation is MirrorOperation.FORCE_PROMOTE
        for mirror in mirrors:
            self._check_mirror(mirror, operation)
        _require_one_way(mirrors)
        if moving:
            if forced:
                raise Conflict(
                    "groups do not change sides with topics by force: nothing would hold them; leave one out"
                )
            if self._tools.groups is None:
                raise Conflict(f"group '{moving[0]}' cannot change sides with topics here")
            await self._tools.groups.check(link, names, moving, home=mirrors[0].is_reverse)
        if mirrors[0].is_reverse:
            await self._late.require_none(link, names, keep=keep_late)
            await self._check_failback_promote(link, mirrors)
            await self._durability.require(self._records.link(link), mirrors, forced=forced)
            return
        if forced:
            await self._durability.require(self._records.link(link), mirrors, forced=forced)
            with suppress(SourceUnreachable):  # the run waits for the source
                await require_origins(self._records, self._sources, mirrors, by_writers=False, note=note)
            return
        await self._check_partitions(link, mirrors)
        record = self._records.link(link)
        await self._durability.require(record, mirrors, forced=forced)
        await require_origins(self._records, self._sources, mirrors, by_writers=True, note=note)
        along = {parse(record.configs).source_group(group) for group in moving}
        topics = [mirror.source_topic for mirror in mirrors]
        reading = await unpromoted_groups(self._store, self._sources, record, topics)
        groups = [group for group in reading if group not in along]
        if groups:
            what = f"mirror topic '{names[0]}'" if len(names) == 1 else f"{len(names)} mirror topics"
            raise Conflict(
                f"{what} cannot be promoted: these groups read on the source and are not promoted: "
                f"{', '.join(groups)}; promote them first, or use force"
            )
        if self._tools.schema_gate is not None:
            await self._tools.schema_gate.check(link, names)

    def _check_mirror(self, mirror: MirrorRecord, operation: MirrorOperation) -> None:
        try:
            transition(operation, mirror.state)
        except WrongState as exc:
            raise WrongState(f"mirror topic '{mirror.mirror_topic}' {exc}") from None

    async def _check_failback_promote(self, link: str, mirrors: Sequence[MirrorRecord]) -> None:
        """The checks of a failback. It does not check groups: the gateway's consumers keep reading on the target."""
        for mirror in mirrors:
            if mirror.failback.epoch >= MAX_FAILBACK_EPOCH:
                raise Conflict(
                    f"mirror topic '{mirror.mirror_topic}' has failed back {mirror.failback.epoch} times: there are no "
                    "producer ids left for another time"
                )
        await self._check_partitions(link, mirrors)
        with target_errors():
            found = await self._target.topics([mirror.mirror_topic for mirror in mirrors])
        for mirror in mirrors:
            topic = found.get(mirror.mirror_topic)
            if topic is not None and topic.partitions != len(mirror.starts):
                raise Conflict(
                    f"topic '{mirror.mirror_topic}' has {topic.partitions} partitions on the target, its mirror on the "
                    f"source {len(mirror.starts)}; wait until the new ones are mirrored"
                )

    async def _check_partitions(self, link: str, mirrors: Sequence[MirrorRecord]) -> None:
        access = await self._sources.reach(self._records.link(link))
        with source_errors(link):
            found = await access.topics([mirror.source_topic for mirror in mirrors])
        for mirror in mirrors:
            topic = found.get(mirror.source_topic)
            if topic is not None and mirror.is_reverse and topic.partitions > len(mirror.starts):
                raise Conflict(
                    f"topic '{mirror.source_topic}' has {topic.partitions} partitions on the source, its mirror back "
                    f"{len(mirror.starts)}: somebody has added some there, which nobody mirrors; add them on the "
                    "target, too, and ask again"
                )
            if topic is not None and topic.partitions != len(mirror.starts):
                raise Conflict(
                    f"mirror topic '{mirror.mirror_topic}' has {len(mirror.starts)} partitions, its source topic "
                    f"{topic.partitions}; wait until the new ones are mirrored"
                )


def _require_one_way(mirrors: Sequence[MirrorRecord]) -> None:
    if len({mirror.failback.direction for mirror in mirrors}) > 1:
        raise Conflict("some of these mirror topics are mirrored to the target, some back to the source: no set")


def _interrupted(mirror: MirrorRecord) -> bool:
    return mirror.state is MirrorState.PENDING_STOPPED


def _set_of(mirror: MirrorRecord) -> tuple[str, tuple[str, ...]]:
    """The mirror's link, and the topics that are promoted together with it."""
    return mirror.link, mirror.cutover.promoted_with or (mirror.mirror_topic,)
