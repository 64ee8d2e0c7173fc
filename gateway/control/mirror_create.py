"""Creating a mirror topic: all is checked first (`mirror_plan.py`), and a failure leaves the target as it was."""

from __future__ import annotations

import structlog

from gateway.control.access import TopicInfo
from gateway.control.context import ControlContext, target_errors
from gateway.control.errors import BadRequest, Conflict, ControlError
from gateway.control.mirror_plan import MirrorPlan, plan_mirror
from gateway.control.store import StoreError
from gateway.domain import link_config
from gateway.domain.names import bad_name, is_internal
from gateway.domain.records import MirrorMode, MirrorRecord, SequenceRecord
from gateway.domain.topic_configs import config_changes
from gateway.net.errors import NetError

_KEPT = "offsets are kept; they are translated from the first hole on, if there is one"
_log = structlog.get_logger("lockgate.control")


class MirrorCreator:
    """The create operation of mirror topics."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def create(self, link_name: str, source_topic: str = "", mirror_topic: str = "") -> MirrorRecord:
        """Create the topic on the target, store the mirror and start it.

        The mirror topic's name is the link's prefix and the source topic's name: either name is enough.

        An empty topic of that name and the same partition count on the target is taken over: a create that crashed
        leaves one behind.

        Raises:
            BadRequest: a bad or internal name, a mirror name that differs, a topic that cannot be mirrored yet.
            NotFound: no such link, or no such topic on the source.
            Conflict: already mirrored, or the target has a topic of this name with other data.
            SourceUnreachable, TargetUnreachable: a cluster does not answer, or refuses.
        """
        config = link_config.parse(self._context.link(link_name).configs)
        source_topic = source_topic or config.source_topic(mirror_topic) or mirror_topic
        named = config.mirror_topic(source_topic)
        self._check_names(link_name, source_topic, named, mirror_topic or named)
        async with self._context.locks.hold(f"mirror/{named}"):  # a name has one mirror over all links
            link = self._context.link(link_name)
            self._require_unmirrored(named)
            plan = await plan_mirror(self._context, link, source_topic)
            return await self._carry_out(plan)

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

    async def resume(self, intent: MirrorRecord) -> None:
        """Finish a create that a crash cut short. Until it ends the topic stays routed as a mirror.

        Raises:
            ControlError, StoreError: as `create`; a cluster that does not answer is worth another try.
        """
        topic = intent.mirror_topic
        async with self._context.locks.hold(f"mirror/{topic}"):
            if self._context.store.mirrors.get((intent.link, topic)) != intent:
                return
            link = self._context.link(intent.link)
            plan = await plan_mirror(self._context, link, intent.source_topic, intent.restore_configs)
            await self._carry_out(plan)

    def _require_unmirrored(self, topic: str, *, besides: MirrorRecord | None = None) -> None:
        for (link, name), mirror in self._context.store.mirrors.items():
            if name == topic and mirror != besides:
                raise Conflict(f"topic '{topic}' is already a mirror topic of link '{link}' ({mirror.state})")

    async def _carry_out(self, plan: MirrorPlan) -> MirrorRecord:
        context = self._context
        topic = plan.mirror_topic
        # Routed, and stored as not created yet, before it exists: a producer of the gateway that finds it on the target
        # must write to the source, after a crash in the midst of this too.
        intent = self._record(plan, mirror_id=0, target_id="", created=False)
        context.publisher.reserve(intent)
        created = False
        try:
            await context.store.put(intent)
            await context.fleet.read_by_all()
            with target_errors():
                if plan.target is None:
                    await context.target.create_topic(
                        topic, plan.source.partitions, plan.replication_factor, plan.configs.apply
                    )
                    created = True
                target = await self._verified(plan)
            record = await self._store(plan, target, intent)
        except BaseException:
            if created:
                await self._undo(topic)
            await self._forget(intent)
            raise
        finally:
            context.publisher.release(topic)
        context.engine.start_mirror(record)
        _log.info(
            "mirror created",
            link=record.link,
            topic=topic,
            partitions=len(record.starts),
            new=record.state.value,
            adopted=not created,
        )
        return record

    async def _verified(self, plan: MirrorPlan) -> TopicInfo:
        """The topic as it is on the target now, with the configs it must have."""
        target, topic = self._context.target, plan.mirror_topic
        found = plan.target or (await target.topics([topic])).get(topic)
        if found is None or found.partitions != plan.source.partitions:
            raise Conflict(f"topic '{topic}' on the target is not the one that was created; try again")
        if plan.target is not None:
            changes = config_changes(plan.configs.apply, (await target.topic_configs([topic]))[topic])
            if changes:
                await target.alter_topic_configs(topic, changes)
        return found

    async def _store(self, plan: MirrorPlan, target: TopicInfo, intent: MirrorRecord) -> MirrorRecord:
        context = self._context
        async with context.locks.hold("sequence/mirror"):
            mirror_id = context.store.sequences.get("mirror", SequenceRecord("mirror", 0)).last + 1
            record = self._record(plan, mirror_id=mirror_id, target_id=target.topic_id)

            def still_allowed() -> None:
                if context.link(plan.link.name) != plan.link:
                    raise Conflict(f"link '{plan.link.name}' was changed meanwhile; try again")
                self._require_unmirrored(record.mirror_topic, besides=intent)

            await context.store.put(record, SequenceRecord("mirror", mirror_id), guard=still_allowed)
        return record

    def _record(self, plan: MirrorPlan, *, mirror_id: int, target_id: str, created: bool = True) -> MirrorRecord:
        return MirrorRecord(
            link=plan.link.name,
            source_topic=plan.source.name,
            mirror_topic=plan.mirror_topic,
            mirror_id=mirror_id,
            source_topic_id=plan.source.topic_id,
            mirror_topic_id=target_id,
            state_since_ms=self._context.now_ms(),
            mode=MirrorMode.TRANSLATE if plan.translated else MirrorMode.PRESERVE,
            mode_reason=f"offsets are translated: {plan.translated}" if plan.translated else _KEPT,
            starts=plan.starts,
            compacted=bool(plan.translated),
            restore_configs=dict(plan.configs.restore),
            created=created,
        )

    async def _forget(self, intent: MirrorRecord) -> None:
        if self._context.store.mirrors.get((intent.link, intent.mirror_topic)) != intent:
            return
        try:
            await self._context.store.delete(intent)
        except StoreError as exc:
            _log.warning("a failed create is tried again at the next start", topic=intent.mirror_topic, error=str(exc))

    async def _undo(self, topic: str) -> None:
        try:
            await self._context.target.delete_topic(topic)
        except (NetError, ControlError, TimeoutError, OSError) as exc:
            # It is empty, so the next create of this mirror takes it over.
            _log.warning("a topic of a failed create stays on the target", topic=topic, error=str(exc))
