"""A topic whose owner goes on as if nobody migrated it, with clients and a link of its own: a `Branch` of the run.

Its history has a judge of its own, so what is excused of it is excused of nothing else (`judge/owners.py`). Its
operations are those of every topic. When its owner has deleted it somewhere, the operation under way has some time to
end by itself; what then becomes of the mirror is judged, and nothing more is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from gateway.state.records import MirrorMode, MirrorRecord, MirrorState
from tests.simulation.clients import GroupMember, Producer, TransactionalProducer
from tests.simulation.judge import unread
from tests.simulation.judge.history import writes_of
from tests.simulation.judge.logs import data
from tests.simulation.judge.owners import answered_after, has_settled, wrong_end, wrong_partitions
from tests.simulation.judge.state import side_of
from tests.simulation.kafka.groups.group_offsets import CommittedOffset
from tests.simulation.operations.at_rest import AtRest, Wrong
from tests.simulation.operations.branches import Branch
from tests.simulation.operations.operator import Operator, Stuck
from tests.simulation.plan import OWNED, OWNED_GROUP, Act, Operation
from tests.simulation.plan.owner_acts import BY_LINK, TRANSACTIONS
from tests.simulation.recorder import SOURCE, TARGET

if TYPE_CHECKING:
    from tests.simulation.world import World

_LINK: Final = "owned"
_PARTITIONS: Final = 2
_RATE: Final = 12.0
_RECORDS: Final = 20
"""That the writer gets through before the story goes on."""
_GIVEN_UP_S: Final = 60.0
"""For so long an operation goes on whose topic is deleted."""
_CONFIGS: Final = {"min.insync.replicas": "2", "retention.ms": "86400000"}
_MAY_FAIL: Final = frozenset({OWNED, f"group {OWNED_GROUP}"})
_CHANGE_SIDES: Final = (
    Operation.OWN,
    Operation.PROMOTE,
    Operation.REVERSE,
    Operation.FAILBACK,
    Operation.FAILOVER,
    Operation.RESTORE,
    Operation.MADE_AGAIN,
)


class Owned:
    """Of one run. Nothing before its first act."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._branch: Branch | None = None
        self._at_rest: AtRest | None = None
        self._writer: Producer | TransactionalProducer | None = None
        self._deleted: dict[str, float] = {}  # cluster -> when the topic was deleted there
        self._home = SOURCE  # where it is written once that has settled
        self._gone = asyncio.Event()
        self._over, self._linked, self._group_deleted = False, True, False
        self._partitions = {SOURCE: _PARTITIONS, TARGET: _PARTITIONS}
        self._begins: dict[tuple[str, int], int] = {}  # (cluster, partition) -> where its owner has it begin
        self._altered: set[str] = set()  # configs that changed while the topic changed sides
        self._do: Mapping[Operation, Callable[[Act], Coroutine[Any, Any, None]]] = {
            Operation.OWN: self._own,
            Operation.GROUP_PROMOTE: self._promote_group,
            Operation.DEMOTE: self._demote,
            Operation.PROMOTE: lambda act: self._operator.promote((OWNED,)),
            Operation.FAILBACK: self._fail_back,
            Operation.REVERSE: self._reverse,
            Operation.FAILOVER: lambda act: self._operator.failover(OWNED),
            Operation.RESTORE: lambda act: self._operator.restore(OWNED),
            Operation.MADE_AGAIN: self._make_again,
        }

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def branch(self) -> Branch:
        """Once it is there."""
        assert self._branch is not None, "its first act makes it"
        return self._branch

    @property
    def _operator(self) -> Operator:
        return self.branch.operator

    @property
    def is_preserved(self) -> bool:
        """Its records have the same offsets on both clusters."""
        mirror = self.mirror()
        return mirror is not None and mirror.mode is MirrorMode.PRESERVE

    def mirror(self) -> MirrorRecord | None:
        """As the state topic has it."""
        if self._branch is None:
            return None
        self._branch.judge.look()
        return next((each for each in self._branch.judge.state.mirrors if each.mirror_topic == OWNED), None)

    def is_over(self, branch: Branch) -> bool:
        """The branch is this one's, and nothing is mirrored any more: its topic was deleted, or its link."""
        return branch is self._branch and (self._over or not self._linked)

    def look(self) -> None:
        """Called again and again."""
        if self._at_rest is not None:
            self._at_rest.look()
            self._follow()

    def _follow(self) -> None:
        """While it is mirrored its copy gets the partitions that it has where it is written."""
        mirror = self.mirror()
        if mirror is not None and mirror.state is MirrorState.ACTIVE:
            home = side_of(mirror)
            copy = TARGET if home == SOURCE else SOURCE
            self._partitions[copy] = max(self._partitions.values())

    # -- acts --------------------------------------------------------------------------------------------------------

    async def perform(self, act: Act) -> None:
        """One operation. Raises Stuck and TopicFailed, unless it is so by the owner's will."""
        world = self._world
        if self._over or (self._branch is None and act.operation is not Operation.OWN):
            return  # shrinking may have left out what comes before
        doing = world.loop.spawn(world.loop.lab, self._do[act.operation](act), f"owned {act.operation}")
        gone = world.loop.spawn(world.loop.lab, self._given_up(), "owned gone")
        await asyncio.wait([doing, gone], return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not doing.done():
            doing.cancel()
            with suppress(asyncio.CancelledError):
                await doing
        self._look_again()
        if self._gone.is_set():
            if doing.done() and not doing.cancelled():
                doing.exception()  # refused, or FAILED: what the mirror says is judged
            await self._settle(act)
            return
        doing.result()
        if self._at_rest is not None:
            self._at_rest.operation_ended()

    def _look_again(self) -> None:
        """What was deleted may have been about to be made anew by the operation itself: then nothing has come of it."""
        clusters = {SOURCE: self._world.source, TARGET: self._world.target}
        self._deleted = {side: at for side, at in self._deleted.items() if OWNED not in clusters[side].topics}
        if not self._deleted and self._gone.is_set():
            self._altered.update(_CONFIGS)  # its own went with it: one that is made anew has the other topic's
            self._gone.clear()
            self.branch.judge.allowed -= _MAY_FAIL

    async def _given_up(self) -> None:
        await self._gone.wait()
        await asyncio.sleep(_GIVEN_UP_S)

    async def _settle(self, act: Act) -> None:
        self._over = True

        async def settled() -> bool:
            return has_settled(self.mirror(), self._deleted)

        with suppress(Stuck):
            await self._world.until(settled, f"the mirror of {OWNED}, which is deleted, has not settled")
        mirror = self.mirror()
        self._home = SOURCE if mirror is None else side_of(mirror)
        self.branch.judge.topic_gone(OWNED, min(self._deleted.values()))
        said = "it is gone" if mirror is None else f"it is {mirror.state} {mirror.error} {mirror.error_message}"
        if mirror is not None and mirror.state is MirrorState.FAILED and self._home == SOURCE:
            await self._keep_from_beginning_anew()
        self._world.story.tell("operator", f"{OWNED} is deleted on the {', '.join(self._deleted)}: {said}")

    async def _keep_from_beginning_anew(self) -> None:
        """While its group is promoted no copy is made anew under it, whatever its owner has deleted of its offsets."""
        if OWNED not in self._world.source.topics or await self._operator.group_state(OWNED_GROUP) != "PROMOTED":
            return
        code, answer = await self._operator.say("POST", f"/v3/links/{_LINK}/mirrors/{OWNED}:recreate", None)
        if code in (200, 202):
            self._add("lost", f"the copy is made anew under group {OWNED_GROUP}, which is promoted: {answer}")

    async def _own(self, act: Act) -> None:
        world = self._world
        world.source.create_topic(OWNED, _PARTITIONS, 3, _CONFIGS)
        branch = Branch(
            world, _LINK, OWNED, source=world.source, target=world.target, asked_as_source=world.asked_as_source
        )
        self._branch, self._at_rest = branch, AtRest(branch, excused=self._is_wanted)
        branch.judge.grown.add(OWNED)
        topics, at = {OWNED: _PARTITIONS}, world.source.bootstrap
        name, recorder = "owned-writer", branch.recorder
        if act.how == TRANSACTIONS:
            self._writer = TransactionalProducer(
                world.loop, name, at, topics, recorder, rate_per_s=_RATE, side=SOURCE, style="librdkafka"
            )
        else:
            self._writer = Producer(
                world.loop, name, at, topics, recorder, rate_per_s=_RATE, side=SOURCE, style="librdkafka"
            )
        branch.writers.append(self._writer)
        branch.readers.append(GroupMember(world.loop, "owned-reader", at, OWNED_GROUP, (OWNED,), recorder, side=SOURCE))
        for client in (*branch.writers, *branch.readers):
            client.on_error.append(world.story.tell)
            client.start()
        world.arm(act)
        await branch.operator.create_link(at)
        await branch.operator.alter_link(cluster_link_retry_timeout_ms="20000")
        await branch.operator.create(OWNED)
        await self._writer.restart(world.gateway_bootstrap, TARGET)
        await self._written()

    async def _promote_group(self, act: Act) -> None:
        async def committed() -> bool:
            return len(self._world.source.committed(OWNED_GROUP)) >= _PARTITIONS

        await self._world.until(committed, f"group {OWNED_GROUP} has not committed on the source")
        for member in self.branch.readers:
            await member.restart(self._world.gateway_bootstrap, TARGET)
        await self._operator.promoted(OWNED_GROUP)

    async def _reverse(self, act: Act) -> None:
        self._even_out()
        await self._operator.reverse((OWNED,))

    async def _fail_back(self, act: Act) -> None:
        """With partitions that its owner has added on the source alone it is refused until the target has them, too."""
        source, target = self._world.source.topics.get(OWNED), self._world.target.topics.get(OWNED)
        has = 0 if source is None else len(source.partitions)
        mirror = self.mirror()
        if mirror is not None and mirror.is_reverse and target is not None and has > len(target.partitions):
            path = f"/v3/links/{_LINK}/mirrors:promote"
            code, answer = await self._operator.say(
                "POST", path, {"mirror_topic_names": [OWNED], "mirror_direction": "REVERSE"}
            )
            if code not in (0, 409) or (code == 409 and "on the target, too" not in str(answer)):
                self._add("claims_wrong", f"going home with {has} partitions on the source alone is answered {answer}")
            self._even_out()
        await self._operator.promote((OWNED,), home=True)

    def _even_out(self) -> None:
        """Who has added partitions on the source alone adds them on the target, as he is told to."""
        source, target = self._world.source.topics.get(OWNED), self._world.target.topics.get(OWNED)
        if source is not None and target is not None and len(source.partitions) > len(target.partitions):
            self._world.target.add_partitions(target, len(source.partitions))
            self.grown(TARGET, len(source.partitions))

    async def _demote(self, act: Act) -> None:
        for member in self.branch.readers:
            await member.stop()
        path = f"/v3/links/{_LINK}/groups/{OWNED_GROUP}"

        async def back() -> bool:
            return await self._operator.group_state(OWNED_GROUP) == "ACTIVE"

        async def ask() -> None:
            await self._find_offsets()
            if await self._operator.group_state(OWNED_GROUP) == "PROMOTED":
                await self._operator.say("POST", f"{path}:demote", {})

        await self._operator.until(back, ask, path)
        for member in self.branch.readers:
            member.start(self._world.source.bootstrap, SOURCE)

    async def _find_offsets(self) -> None:
        """A demote refuses a group whose offsets its owner has deleted on the target: he sets them, as he is told."""
        target = self._world.target
        if not self._group_deleted or OWNED not in target.topics or target.committed(OWNED_GROUP):
            return
        path = f"/v3/links/{_LINK}/groups/{OWNED_GROUP}:demote"
        code, answer = await self._operator.say("POST", path, {})
        if code not in (0, 409) or (code == 409 and "--reset-offsets" not in str(answer)):
            self._add("claims_wrong", f"a demote without offsets on the target is answered {answer}")
        count = len(target.topics[OWNED].partitions)
        begins = {(OWNED, n): CommittedOffset(target.log_range(OWNED, n)[0], -1, "by hand") for n in range(count)}
        target.groups.offsets.commit(OWNED_GROUP, begins)

    async def _make_again(self, act: Act) -> None:
        """What has failed back is deleted with its topic, or with its link; producers go on."""
        old = self.mirror()

        async def gone() -> bool:
            mirror = self.mirror()
            return mirror is None or (old is not None and mirror.mirror_id != old.mirror_id)

        async def cleared() -> bool:
            return await gone() and OWNED not in self._world.target.topics

        async def delete() -> None:
            if not await gone():
                await self._operator.delete_mirror(OWNED)

        if act.how == BY_LINK:
            await self._operator.until(gone, self._delete_link, "/v3/links")
            await self._written()
            self._linked = False
            return
        await self._operator.until(cleared, delete, "/v3/links")
        await self._operator.create(OWNED)
        self._partitions = dict.fromkeys((SOURCE, TARGET), len(self._world.source.topics[OWNED].partitions))
        await self._written()

    async def _delete_link(self) -> None:
        await self._operator.say("DELETE", f"/v3/links/{_LINK}?force=true", None)

    async def _written(self) -> None:
        assert self._writer is not None
        writer = self._writer
        wanted = writer.progress + _RECORDS

        async def got_on() -> bool:
            return writer.progress >= wanted

        await self._world.until(got_on, f"{writer.name} does not get on: {writer.errors[-3:]}")

    # -- what its owner does -----------------------------------------------------------------------------------------

    def grown(self, side: str, count: int) -> None:
        """The topic has so many partitions there."""
        self._partitions[side] = max(self._partitions[side], count)
        self._follow()

    def altered(self, side: str, synced: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Its configs change there. Nobody can say which of them count while it changes sides."""
        if self._at_rest is None:
            return
        act, mirror = self._world.act(), self.mirror()
        goes_by_what_was_read = any(
            each.operation is Operation.FAILOVER and OWNED in each.topics for each in self._world.plan.acts
        )
        if goes_by_what_was_read or (act is not None and act.operation in _CHANGE_SIDES):
            self._altered.update(synced, own)
            return
        self._at_rest.kept(OWNED, side, own)
        if (SOURCE if mirror is None else side_of(mirror)) == side:
            self._at_rest.configured(OWNED, synced)

    def records_deleted(self, side: str, index: int, before: int, gone: Iterable[bytes | None]) -> None:
        """A partition begins there."""
        self._begins[side, index] = before
        self.branch.judge.deleted(f"{OWNED}/{index}", gone)

    def group_deleted(self) -> None:
        """The group is gone on a cluster, with what it had committed there."""
        self._group_deleted = True
        self.branch.judge.begin_anew.add(OWNED_GROUP)

    def topic_deleted(self, side: str) -> None:
        """It is gone there."""
        self._deleted[side] = self._world.loop.time()
        self.branch.judge.allowed |= _MAY_FAIL
        self._gone.set()

    # -- at the end --------------------------------------------------------------------------------------------------

    async def come_to_rest(self) -> None:
        """Its writers have stopped by now, and its mirror is level: the group reads it to the end."""
        if self._branch is None:
            return
        for member in self._branch.readers:
            if not self._over:
                await member.restart()  # it hears of partitions that were added
                await self._world.until(self._read_out, "the group of an owned topic has not read to the end")
            await member.stop()

    async def _read_out(self) -> bool:
        return not any(
            unread(member, self._world.source if member.side == SOURCE else self._world.target)
            for member in self.branch.readers
        )

    async def judged(self) -> None:
        """Judge what is at rest, and what its owner's acts may not have come to."""
        if self._branch is None or self._at_rest is None:
            return
        if not self._over:
            await self._at_rest.judged()
        mirror = self.mirror()
        for what in wrong_end(mirror, self._deleted):
            self._add("failed_topics", what)
        if mirror is not None and not self._over:
            now = {
                side: len(cluster.topics[OWNED].partitions)
                for side, cluster in ((SOURCE, self._world.source), (TARGET, self._world.target))
                if OWNED in cluster.topics
            }
            for what in wrong_partitions(mirror, self._partitions, now):
                self._add("diverged", what)
        if self._deleted:
            self._judge_writes()

    def _judge_writes(self) -> None:
        """Of a topic that is deleted where it is written, nothing goes on; else nothing of it is lost."""
        clusters = {SOURCE: self._world.source, TARGET: self._world.target}
        is_gone = self._home in self._deleted
        seen = clusters[(TARGET if self._home == SOURCE else SOURCE) if is_gone else self._home]
        for index in range(len(seen.topics[OWNED].partitions) if OWNED in seen.topics else 0):
            texts = {(record.value or b"").decode(errors="replace") for record in data(seen, OWNED, index)}
            writes = writes_of(self.branch.recorder.ops, f"{OWNED}/{index}")
            if is_gone:
                for name, what in answered_after(writes, self._deleted[self._home], texts):
                    self._add(name, what)
            elif not self._begins:
                lost = sorted(text for text, write in writes.items() if write.end == "ok" and text not in texts)
                for text in lost[:1]:
                    self._add("lost", f"{len(lost)} records are not on the {self._home}, where it is written: {text!r}")

    def _is_wanted(self, wrong: Wrong) -> bool:
        """It is so since its owner wants it."""
        name, _, what = wrong
        if name == "configs_wrong":
            return any(what.startswith(f"{config} is ") for config in self._altered)
        if name == "log_starts_wrong":
            begins = (f"the copy of partition {index} starts at {at}," for (_, index), at in self._begins.items())
            return any(map(what.startswith, begins))
        return False

    def _add(self, name: str, what: str) -> None:
        self.branch.judge.findings.add(name, OWNED, what, self._world.loop.time())
