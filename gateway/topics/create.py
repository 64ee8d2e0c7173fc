"""Creating a mirror topic: all is checked first (`plan.py`), then the intent is stored, then it is carried out.

The intent (a record that says `created=False`) routes the topic's writes to the source before the topic is there. It is
dropped only when it is certain that the topic was not created: refused by the target, or never asked for. With any
other end it stays, and whoever leads goes on with it: this process, the next attempt, the next leader. So nothing is
ever undone here: a topic that was created may be filled by another leader at the very moment at which a deposed one
would delete it, and one whose creation was not answered may come yet.

A mirror that has FAILED is created anew (`recreate`) by the same steps: its record becomes an intent that names the
topic that is to go (`replaces`), by its id. That one alone is deleted, before the new one is created, by whoever leads.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.errors import BadRequest, Conflict, ControlError, SourceUnreachable, TargetUnreachable
from gateway.groups.mirror_groups import require_no_promoted_readers
from gateway.kafka.acts import ActRefused
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.rules.names import bad_name, is_internal
from gateway.kafka.rules.topic_configs import config_changes
from gateway.mirror.interface import MirrorEngine
from gateway.operations.cluster_access import ClusterAccess, TopicInfo
from gateway.operations.cluster_errors import knows_no_topic, target_errors
from gateway.operations.door import Door
from gateway.operations.fleet_wide import FleetWide
from gateway.operations.records import Records
from gateway.operations.sources import Sources
from gateway.state import link_config
from gateway.state.failback_records import epoch_of_new
from gateway.state.mirror_states import is_mirroring
from gateway.state.producer_ids import MAX_FAILBACK_EPOCH, first_mirror_id
from gateway.state.records import Deletion, MirrorFailback, MirrorRecord, SequenceRecord
from gateway.state.store import ProducerFenced, StoreError, StoreUncertain, until_known
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.topics.plan import AS_THE_LINK_SAYS, MirrorPlan, MirrorPlanner, Wanted
from gateway.topics.rules.create import anew, going_on, record_of
from gateway.transport.background import Background
from gateway.transport.locks import KeyedLocks
from protocol.errors import ErrorCode, is_retriable

_AGAIN_S = 2.0
_log = structlog.get_logger("lockgate.control")


class MirrorCreator:
    """The create operation of mirror topics."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        target: ClusterAccess,
        engine: MirrorEngine,
        publisher: RoutingPublisher,
        planner: MirrorPlanner,
        fleet: FleetWide,
        locks: KeyedLocks,
        door: Door,
        lifted: LiftedConfigs,
        background: Background,
    ) -> None:
        self._records = records
        self._sources = sources
        self._target = target
        self._engine = engine
        self._publisher = publisher
        self._locks = locks
        self._door = door
        self._lifted = lifted
        self._background = background
        self._planner = planner
        self._fleet = fleet

    async def create(
        self,
        link_name: str,
        source_topic: str = "",
        mirror_topic: str = "",
        wanted: Wanted = AS_THE_LINK_SAYS,
    ) -> MirrorRecord:
        """Create the topic on the target, store the mirror and start it.

        The mirror topic's name is the link's prefix and the source topic's name: either name is enough.

        An empty topic of that name and the same partition count on the target is taken over: a create that crashed
        leaves one behind. A create that was begun before is gone on with. One that is begun here and does not come to
        its end goes on in the background, unless it was refused.

        Args:
            wanted: what the operator says of this topic.

        Raises:
            BadRequest: a bad or internal name, a mirror name that differs, a topic that cannot be mirrored yet; a
                config that is always synced or unknown, a start that the source does not have.
            NotFound: no such link, or no such topic on the source.
            Conflict: already mirrored, or the target has a topic of this name with other data, or a promoted group has
                offsets of the topic on the source.
            SourceUnreachable, TargetUnreachable: a cluster does not answer, or refuses.
        """
        source_topic, named = self._names(link_name, source_topic, mirror_topic)
        async with self._locks.hold(f"mirror/{named}"):  # a name has one mirror over all links
            link = self._records.link(link_name)
            begun = self._begun(link_name, named)
            self._require_unmirrored(named, besides=begun)
            if begun is not None:
                wanted = Wanted.of(begun) if wanted == AS_THE_LINK_SAYS else wanted
                await self._delete_replaced(begun)
            plan = await self._planner.plan(link, source_topic, begun.restore_configs if begun else None, wanted)
            try:
                return await self._carry_out(plan)
            except ProducerFenced:
                raise  # the next leader goes on
            except BaseException:
                self._background.spawn(self.finish(link_name, named), f"finish create {named}")
                raise

    async def plan(
        self, link_name: str, source_topic: str = "", mirror_topic: str = "", wanted: Wanted = AS_THE_LINK_SAYS
    ) -> MirrorPlan:
        """What `create` would do. Nothing is changed, and nobody waits. Raises as `create` does."""
        source_topic, named = self._names(link_name, source_topic, mirror_topic)
        link = self._records.link(link_name)
        self._require_unmirrored(named)
        plan = await self._planner.plan(link, source_topic, None, wanted)
        planned = record_of(plan, self._records.now_ms())
        await require_no_promoted_readers(self._records, self._target, self._sources, planned)
        return plan

    async def plan_anew(self, failed: MirrorRecord, replaces: str) -> MirrorPlan:
        """What `recreate` would do. Raises as `create` does, and Conflict when a promoted group reads the topic."""
        link, wanted = self._records.link(failed.link), Wanted.of(failed)
        plan = await self._planner.plan(link, failed.source_topic, failed.restore_configs, wanted, instead_of=replaces)
        await require_no_promoted_readers(self._records, self._target, self._sources, failed)
        return plan

    async def recreate(self, failed: MirrorRecord, replaces: str) -> MirrorRecord:
        """Delete the target's topic, create it anew and fill it from the source; it goes on after this returns.

        Args:
            failed: as it is stored.
            replaces: the id of the topic that goes; '' when there is none.

        Raises:
            as `plan_anew`; StoreError, Conflict: nothing was changed.
        """
        topic = failed.mirror_topic
        async with self._locks.hold(f"mirror/{topic}"):
            plan = await self.plan_anew(failed, replaces)
            base = record_of(plan, self._records.now_ms())
            intent = replace(anew(failed, base, self._records.now_ms()), replaces=replaces)
            await self._records.store.replace(failed, intent)
        self._background.spawn(self.finish(failed.link, topic), f"finish create {topic}")
        _log.info("mirror is created anew", link=failed.link, topic=topic, replaces=replaces)
        return intent

    async def _delete_replaced(self, intent: MirrorRecord) -> None:
        """Delete the topic that the intent names, and no other one of its name.

        Raises:
            TargetUnreachable: it is not known to be gone; to be tried again.
            Conflict: the target refuses.
        """
        topic = intent.mirror_topic
        if not intent.replaces:
            return
        with target_errors():
            found = (await self._target.topics([topic])).get(topic)
        if found is None or found.topic_id != intent.replaces:
            return
        try:
            with target_errors(), self._door.permit(intent):
                await self._target.delete_topic(topic, intent.replaces)
        except Conflict as exc:
            if not knows_no_topic(exc):
                raise
        raise TargetUnreachable(f"topic '{topic}' is being deleted on the target; it is created anew when it is gone")

    def _begun(self, link: str, topic: str) -> MirrorRecord | None:
        """The intent of a create that is not over. Raises Conflict when it is being deleted."""
        found = self._records.store.mirrors.get((link, topic))
        if found is not None and found.deletion is not Deletion.NONE:
            raise Conflict(f"mirror topic '{topic}' is being deleted; try again when it is gone")
        return None if found is None or found.created else found

    def _names(self, link: str, source_topic: str, mirror_topic: str) -> tuple[str, str]:
        """(source topic, mirror topic): either name is enough."""
        config = link_config.parse(self._records.link(link).configs)
        source_topic = source_topic or config.source_topic(mirror_topic) or mirror_topic
        named = config.mirror_topic(source_topic)
        self._check_names(link, source_topic, named, mirror_topic or named)
        return source_topic, named

    def _check_names(self, link: str, source_topic: str, named: str, mirror_topic: str) -> None:
        problem = bad_name(source_topic) or bad_name(named)
        if problem:
            raise BadRequest(f"topic name: {problem}")
        if mirror_topic != named:
            how = "link.prefix and the name" if named != source_topic else "the name"
            raise BadRequest(
                f"a mirror topic of link '{link}' has {how} of its source topic: '{named}', not '{mirror_topic}'"
            )
        if is_internal(source_topic):
            raise BadRequest(f"topic '{source_topic}' is internal to a cluster and cannot be mirrored")

    async def finish(self, link: str, topic: str) -> None:
        """Go on with a create that was begun, until it is done or its record dropped; at once when there is none.

        A refusal that leaves the record ends nothing: that a gateway is waited for, or a topic is in the way, passes.
        """
        said = ""
        while await until_known(self._records.store):  # else another gateway leads
            intent = self._records.store.mirrors.get((link, topic))
            if intent is None or intent.deletion is not Deletion.NONE:
                return
            if intent.created:
                self._start(intent)
                return
            try:
                await self.resume(intent)
            except ProducerFenced:
                return
            except (SourceUnreachable, TargetUnreachable, StoreError) as exc:
                _log.warning("create not finished yet", topic=topic, error=str(exc))
                await asyncio.sleep(_AGAIN_S)
            except ControlError as exc:
                if str(exc) != said:
                    said = str(exc)
                    _log.error("a create that was begun is refused", topic=topic, error=said)
                await asyncio.sleep(_AGAIN_S)

    def _start(self, record: MirrorRecord) -> None:
        """Its write was told to be of unknown outcome, and was made: nobody has begun the mirror."""
        if is_mirroring(record.state):
            self._engine.start_mirror(record)

    async def resume(self, intent: MirrorRecord) -> None:
        """One attempt to finish a create that was begun. Until it ends the topic stays routed as a mirror.

        Raises:
            ControlError, StoreError: as `create`; a cluster that does not answer is worth another try.
        """
        topic = intent.mirror_topic
        async with self._locks.hold(f"mirror/{topic}"):
            if self._records.store.mirrors.get((intent.link, topic)) != intent:
                return
            link = self._records.link(intent.link)
            await self._delete_replaced(intent)
            plan = await self._planner.plan(link, intent.source_topic, intent.restore_configs, Wanted.of(intent))
            await self._carry_out(plan)

    def _require_unmirrored(self, topic: str, *, besides: MirrorRecord | None = None) -> None:
        mirror = self._records.store.mirror_of(topic)
        if mirror is not None and mirror != besides:
            raise Conflict(f"topic '{topic}' is already a mirror topic of link '{mirror.link}' ({mirror.state})")

    async def _carry_out(self, plan: MirrorPlan) -> MirrorRecord:
        topic = plan.mirror_topic
        # Routed, and stored as not created yet, before it exists: a producer of the gateway that finds it on the target
        # must write to the source, after a crash in the midst of this too.
        begun = self._begun(plan.link.name, topic)
        intent = self._intent(plan, begun)
        self._publisher.reserve(intent)
        try:
            await self._begin(intent, besides=begun)
            await self._create(plan, intent, may_be_asked=begun is not None)
            with target_errors():
                target = await self._verified(plan, intent)
            record = await self._store(plan, target, intent)
        finally:
            self._publisher.release(topic)
        self._engine.start_mirror(record)
        _log.info(
            "mirror created",
            link=record.link,
            topic=topic,
            partitions=len(record.starts),
            new=record.state.value,
            adopted=plan.target is not None,
        )
        return record

    def _intent(self, plan: MirrorPlan, begun: MirrorRecord | None) -> MirrorRecord:
        """The record that says what is to be made. One that begins here goes on with the failback epoch that brokers
        know the topic's producers by.

        Raises:
            Conflict: there is no failback epoch left.
        """
        intent = record_of(plan, self._records.now_ms())
        if begun is not None:
            return going_on(intent, begun)
        kept = self._records.store.failback_epochs.values()
        epoch = epoch_of_new(kept, plan.mirror_topic, plan.link.source_cluster_id, plan.source.name)
        if epoch > MAX_FAILBACK_EPOCH:
            raise Conflict(
                f"topic '{plan.mirror_topic}' has failed back {MAX_FAILBACK_EPOCH} times, as often as a topic can; "
                "mirror it under another name, from a topic of another name"
            )
        return replace(intent, failback=MirrorFailback(epoch=epoch))

    async def _begin(self, intent: MirrorRecord, besides: MirrorRecord | None) -> None:
        """Store the intent, and have it known everywhere. An end without having asked the target drops it."""
        await self._records.store.put(
            intent,
            guard=lambda: self._require_unmirrored(intent.mirror_topic, besides=besides),
            with_others=True,  # of this topic nobody else writes now: its lock is held
        )
        try:
            await self._fleet.read_by_all()
            await require_no_promoted_readers(self._records, self._target, self._sources, intent)
        except ControlError:
            if besides is None:  # an earlier attempt may have asked
                await self._drop(intent)
            raise

    async def _create(self, plan: MirrorPlan, intent: MirrorRecord, *, may_be_asked: bool) -> None:
        """Create the topic, unless one is taken over. A refusal drops the intent, if nobody has asked before."""
        if plan.target is not None:
            return
        topic = plan.mirror_topic
        try:
            with target_errors(), self._door.permit(intent, plan.link):
                await self._target.create_topic(
                    topic, plan.source.partitions, plan.replication_factor, plan.configs.apply
                )
        except TargetUnreachable as exc:
            if isinstance(exc.__cause__, ActRefused):
                self._records.link(plan.link.name)  # says so when it is gone
            raise
        except Conflict as exc:
            code = exc.__cause__.code if isinstance(exc.__cause__, BrokerError) else 0
            if code == ErrorCode.TOPIC_ALREADY_EXISTS:  # perhaps by an earlier attempt: it is looked at anew
                raise TargetUnreachable(f"topic '{topic}' has just come to be on the target; try again") from exc
            if code and is_retriable(code):  # such as a time-out of the broker's own
                raise TargetUnreachable(f"whether topic '{topic}' was created is not known: {exc}") from exc
            if not may_be_asked:
                await self._drop(intent)
            raise

    async def _verified(self, plan: MirrorPlan, intent: MirrorRecord) -> TopicInfo:
        """The topic as it is on the target now, with the configs it must have."""
        target, topic = self._target, plan.mirror_topic
        found = plan.target or (await target.topics([topic])).get(topic)
        if found is None or found.partitions != plan.source.partitions:
            raise TargetUnreachable(f"topic '{topic}' on the target is not the one that was created yet; try again")
        if plan.target is not None:
            wanted = plan.configs.apply
            changes = config_changes(wanted, (await target.topic_configs([topic], tuple(wanted)))[topic])
            with self._door.permit(intent, plan.link):
                await self._lifted.lift(target, topic, found.partitions, changes, plan.configs.restore)
        return found

    async def _store(self, plan: MirrorPlan, target: TopicInfo, intent: MirrorRecord) -> MirrorRecord:
        mirror_id = self._records.next_mirror_id(first_mirror_id(self._target.cluster_id()))
        made = record_of(plan, self._records.now_ms(), mirror_id, target.topic_id)
        record = replace(going_on(made, intent), replaces="")

        def still_allowed() -> None:
            if self._records.link(plan.link.name) != plan.link:
                raise Conflict(f"link '{plan.link.name}' was changed meanwhile; try again")
            self._require_unmirrored(record.mirror_topic, besides=intent)

        sequence = SequenceRecord("mirror", mirror_id)
        await self._records.store.put(record, sequence, guard=still_allowed, with_others=True)
        return record

    async def _drop(self, intent: MirrorRecord) -> None:
        """The topic was certainly not created: writes of its name are the target's again."""
        try:
            await self._records.store.delete(intent, guard=lambda: self._require_intent(intent))
        except (StoreUncertain, ProducerFenced):
            raise
        except StoreError as exc:
            _log.warning("a create that was refused is tried again", topic=intent.mirror_topic, error=str(exc))

    def _require_intent(self, intent: MirrorRecord) -> None:
        if self._records.store.mirrors.get((intent.link, intent.mirror_topic)) != intent:
            raise Conflict(f"mirror topic '{intent.mirror_topic}' was changed meanwhile; try again")
