"""Creates the mirror topics of links with `auto.create.mirror.topics.enable`, round after round.

What is created, and why the rest is not, is decided in `rules/auto_create.py`. Only mirrors' own records outlive the
process: a create that was begun is gone on with by whoever leads, as any other, and the next round sees the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import structlog

from gateway.errors import ControlError, SourceUnreachable, TargetUnreachable
from gateway.kafka.connection.errors import NetError
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.link_tasks import LinkTask, LinkTasks, TaskErrorCode, TaskStatus
from gateway.operations.records import Records
from gateway.operations.sources import Sources, SourcesForViews
from gateway.state import link_config
from gateway.state.records import LinkRecord, MirrorRecord
from gateway.state.store import ProducerFenced, StoreError
from gateway.topics.rules.auto_create import Candidate, Memory, Scene, asked_for, cadence_s, plan_round
from gateway.transport.background import Background

_UNREACHABLE: Final = 3
"""So many creates in a row to which a cluster did not answer end a round: the others would fare no better."""

_log = structlog.get_logger("lockgate.control")


class CreatesMirrors(Protocol):
    """The create operation."""

    async def create(self, link_name: str, source_topic: str = "") -> MirrorRecord:
        """See `MirrorCreator.create`."""


@dataclass(slots=True)
class _OfLink:
    """What is known of one link as its record stands: another record begins anew, with a round at once."""

    link: LinkRecord
    last: float
    running: bool = False
    waiting: int = 0
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True, slots=True)
class AutoCreated:
    """Of one link: topics that were `created` since this gateway leads; of its last round, source topics that are
    `refused`, and that are `waiting` for their turn."""

    created: int
    refused: int
    waiting: int


class AutoCreate:
    """Of all links, while this gateway leads.

    Attributes:
        created: how many mirror topics this gateway has created so, by link.
    """

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        views: SourcesForViews,
        target: ClusterAccess,
        creator: CreatesMirrors,
        background: Background,
        tasks: LinkTasks,
        clock: Callable[[], float],
    ) -> None:
        """`clock`: monotonic seconds."""
        self._records = records
        self._store = records.store
        self._sources = sources
        self._views = views
        self._target = target
        self._creator = creator
        self._background = background
        self._clock = clock
        self._links: dict[str, _OfLink] = {}
        self._tasks = tasks
        self.created: Counter[str] = Counter()

    async def run_due(self) -> None:
        """Begin the rounds that are due; they go on in the background, one at a time for each link."""
        links = self._store.links
        self._links = {name: one for name, one in self._links.items() if name in links}
        self.created = Counter({name: count for name, count in self.created.items() if name in links})
        for name, link in links.items():
            config = link_config.parse(link.configs)
            if config.paused:
                continue  # its task stays as it was
            if not config.auto_create:
                self._links.pop(name, None)
                self._tasks.not_configured(name, LinkTask.AUTO_CREATE_MIRROR)
            elif self._is_due(link):
                self._background.spawn(self._round(self._links[name]), f"auto-create {name}")

    def _is_due(self, link: LinkRecord) -> bool:
        """Whether a round is to begin, which is noted."""
        now, known = self._clock(), self._links.get(link.name)
        if known is not None and known.running:
            return False
        if known is None or known.link.link_id != link.link_id or known.link.configs != link.configs:
            known = self._links[link.name] = _OfLink(link, now)
        elif now - known.last < cadence_s(link.client):
            return False
        known.link, known.last, known.running = link, now, True
        return True

    async def _round(self, one: _OfLink) -> None:
        link = one.link
        try:
            await self._create_due(one)
        except ProducerFenced:
            return  # whoever leads now begins a round of its own
        except (ControlError, NetError, StoreError, TimeoutError, OSError) as exc:
            self._tasks.failed(link.name, LinkTask.AUTO_CREATE_MIRROR, exc)
            _log.warning("auto-create: the round broke off", link=link.name, error=str(exc) or type(exc).__name__)
        finally:
            one.running = False

    async def _create_due(self, one: _OfLink) -> None:
        link, memory = one.link, one.memory
        scene = await self._scene(link, memory, await self._sources.reach(link))
        due = plan_round(scene)
        there = {topic.name for topic in scene.source}
        waiting = {candidate.source_topic for candidate in due.candidates if candidate.reason.waits}
        memory.saw(waiting, there, scene.now)
        one.waiting = len(waiting)
        silent = 0
        for name in due.create:
            if self._store.links.get(link.name) != link:
                return  # its filters may be others now
            try:
                await self._create(link, memory, name)
                silent = 0
            except ProducerFenced:
                raise
            except (SourceUnreachable, TargetUnreachable, NetError, StoreError, TimeoutError, OSError) as exc:
                self._refused(link, memory, name, exc)
                silent += 1
                if silent >= _UNREACHABLE:
                    raise
        one.waiting = len([name for name in waiting if not self._is_settled(link, memory, name)])
        self._tell(link, memory)

    def _is_settled(self, link: LinkRecord, memory: Memory, name: str) -> bool:
        """It is mirrored by now, or was refused."""
        mirror_topic = link_config.parse(link.configs).mirror_topic(name)
        return name in memory.refused or (link.name, mirror_topic) in self._store.mirrors

    async def _create(self, link: LinkRecord, memory: Memory, name: str) -> None:
        """Raises only where a cluster or the state did not answer."""
        mirror_topic = link_config.parse(link.configs).mirror_topic(name)
        try:
            await self._creator.create(link.name, source_topic=name)
        except (SourceUnreachable, TargetUnreachable):
            raise
        except ControlError as exc:
            if (link.name, mirror_topic) not in self._store.mirrors:  # else an operator was faster
                self._refused(link, memory, name, exc)
                return
        else:
            self.created[link.name] += 1
            _log.info("mirror topic created by auto-create", link=link.name, topic=mirror_topic)
        memory.was_created(name)

    def _refused(self, link: LinkRecord, memory: Memory, name: str, exc: Exception) -> None:
        error = str(exc) or type(exc).__name__
        memory.was_refused(name, error, self._clock(), cadence_s(link.client))
        _log.warning("auto-create: a mirror topic is refused", link=link.name, source_topic=name, error=error)

    def _tell(self, link: LinkRecord, memory: Memory) -> None:
        if not memory.refused:
            self._tasks.succeeded(link.name, LinkTask.AUTO_CREATE_MIRROR)
            return
        name, refusal = min(memory.refused.items())
        words = f"{len(memory.refused)} topics are refused, such as '{name}': {refusal.error}"
        self._tasks.failed(link.name, LinkTask.AUTO_CREATE_MIRROR, (TaskErrorCode.INTERNAL_ERROR, words))

    def counted(self, link: str) -> AutoCreated | None:
        """Of a link that auto-creates; None of another one, or before its first round."""
        one = self._links.get(link)
        return None if one is None else AutoCreated(self.created[link], len(one.memory.refused), one.waiting)

    def status(self, link: str) -> TaskStatus:
        """How the link's auto-create stands."""
        return self._tasks.one(link, LinkTask.AUTO_CREATE_MIRROR)

    async def candidates(self, name: str) -> Sequence[Candidate]:
        """The source topics that the link does not mirror, by name, each with the reason; whether it auto-creates or
        not.

        Raises:
            NotFound: no such link.
            SourceUnreachable, TargetUnreachable, Conflict: a cluster does not answer, or refuses.
        """
        link = self._records.link(name)
        known = self._links.get(name)
        scene = await self._scene(link, Memory() if known is None else known.memory, await self._views.reach(link))
        return plan_round(scene).candidates

    async def _scene(self, link: LinkRecord, memory: Memory, access: ClusterAccess) -> Scene:
        """All that is to be known; `access`: the source. The target is asked when the rest leaves something open."""
        config = link_config.parse(link.configs)
        with source_errors(link.name):
            source = await access.list_topics()
            there = await access.mirror_topics() if config.auto_create and config.prefix else frozenset[str]()
        scene = Scene(
            link=link.name,
            config=config,
            source=source,
            mirrored=self._mirrored(),
            mirrors_there=there,
            due=memory.due,
            refused=memory.refused,
            now=self._clock(),
        )
        if not asked_for(scene):
            return scene
        with target_errors():
            found = await self._target.list_topics()
        # A mirror's record is there before its topic: behind the listing all of its mirror topics are known as such.
        return replace(scene, on_target=frozenset(topic.name for topic in found), mirrored=self._mirrored())

    def _mirrored(self) -> dict[str, str]:
        return {topic: link for link, topic in self._store.mirrors}
