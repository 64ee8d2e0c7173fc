"""What is missing between the world and a migration file, step by step. Pure.

`resolve` is asked again after every step and every change, and remembers nothing: what somebody has done by hand is
done, what a crash has left is gone on with, and a file that was changed counts from the next look on. A step that is
there says for what it waits; one that waits for nothing may be taken now.

What people do is respected. A mirror that is paused, mirrored back or FAILED, a group that was demoted, are waited for
with the command that goes on; nothing is repaired, resumed or promoted over their heads. A topic that another link
mirrors is not taken from it. An application is not promoted while the source does not tell all that it means: the rest
would be left behind without a word.

An application goes through three stages: its mirrors are there; its groups read on the target; its topics are written
there. In one that moves `together` the last two are one step, since its transactions tie them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.kafka.rules.names import is_internal
from gateway.migration.rules.file import Application, Meant, MigrationFile, Until
from gateway.migration.rules.windows import is_open, next_opening, wave_waits, waves_of
from gateway.migration.rules.world import GroupStanding, MirrorStanding, World
from gateway.state.records import MirrorState

_MIRRORS = (MirrorState.ACTIVE, MirrorState.PENDING_STOPPED)


class MigrationStepKind(StrEnum):
    """What is done, in the order of stages."""

    CREATE_MIRROR = "CREATE_MIRROR"
    DECLARE_GROUP = "DECLARE_GROUP"
    PROMOTE_GROUP = "PROMOTE_GROUP"
    PROMOTE_TOPICS = "PROMOTE_TOPICS"
    PROMOTE_TOGETHER = "PROMOTE_TOGETHER"


CUTOVERS: Final = (MigrationStepKind.PROMOTE_TOPICS, MigrationStepKind.PROMOTE_TOGETHER)
"""Steps by which topics change sides."""


class Stage(StrEnum):
    """How far an application is."""

    TO_MIRROR = "TO_MIRROR"
    MIRRORED = "MIRRORED"
    GROUPS_MOVED = "GROUPS_MOVED"
    PROMOTED = "PROMOTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """One step. `waits_for`: why it is not taken now; '' when it may be. Names are the source's."""

    kind: MigrationStepKind
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    waits_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationPlan:
    """What is left of one application. `problems`: what nobody but a person can mend. `beyond`: how many steps are left
    after its `until`. `topics`, `groups`: all that it is about, patterns resolved."""

    application: Application
    stage: Stage
    steps: tuple[PlannedStep, ...] = ()
    problems: tuple[str, ...] = ()
    beyond: int = 0
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Nothing is left up to its `until`."""
        return not self.steps and not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What is left of a migration, in the order in which applications go. `problems`: of all of it."""

    applications: tuple[ApplicationPlan, ...]
    problems: tuple[str, ...] = ()

    @property
    def all_problems(self) -> tuple[str, ...]:
        """Also those of its applications, behind the name of each."""
        of_each = (f"{one.application.name}: {problem}" for one in self.applications for problem in one.problems)
        return (*self.problems, *of_each)

    @property
    def is_done(self) -> bool:
        """The file's end is reached."""
        return not self.problems and all(one.is_done for one in self.applications)


def resolve(file: MigrationFile, world: World) -> MigrationPlan:
    """What is left to be done."""
    if not world.link_there:
        return MigrationPlan(applications=(), problems=(f"link '{file.link}' does not exist: lockgate link create",))
    plans: dict[str, ApplicationPlan] = {}
    owners, waves = _Owners(file, world), waves_of(file)
    over_ms = 0
    for index, wave in enumerate(waves):
        behind = {name: _is_behind(plan) for name, plan in plans.items()}
        waits = wave_waits(index, waves, behind, over_ms, file.wave_rest_s, world)
        for application in wave:
            unfinished = [name for name in application.after if _is_behind(plans[name])]
            resolver = _Resolver(file.link, application, world, owners, unfinished, waits)
            plan = plans[application.name] = resolver.plan()
            over_ms = max(over_ms, _promoted_ms(plan, world))
    problems = [world.source_trouble] if any(_is_not_told(one, world) for one in file.applications) else []
    return MigrationPlan(applications=tuple(plans[one.name] for one in file.applications), problems=tuple(problems))


def _promoted_ms(plan: ApplicationPlan, world: World) -> int:
    """When the last of its topics and groups was promoted; 0: nothing was."""
    topics = (world.mirrors[name].promoted_ms for name in plan.topics if name in world.mirrors)
    groups = (world.groups[name].promoted_ms for name in plan.groups if name in world.groups)
    return max((*topics, *groups), default=0)


def _is_behind(plan: ApplicationPlan) -> bool:
    """Something of it is not promoted, whether its `until` asks for it or not."""
    return plan.stage is not Stage.PROMOTED


def _is_not_told(application: Application, world: World) -> bool:
    """Names in it cannot be resolved without the source, which does not tell them."""
    if world.source_topics is not None:
        return False
    kinds = ((application.topics, world.mirrors), (application.groups, world.groups))
    return any(name.endswith("*") or name not in there for names, there in kinds for name in names)


class _Owners:
    """Which application has which names: the one that names it, else the first whose pattern means it.

    Worked out once for all names of the world, so that a look costs no more for many applications, or many patterns.
    """

    def __init__(self, file: MigrationFile, world: World) -> None:
        self._found: dict[tuple[str, str], list[str]] = {}
        there = {
            "topic": {*world.mirrors, *(world.source_topics or ())},
            "group": {*world.groups, *(world.source_groups or ())},
        }
        for kind, names in there.items():
            meant = Meant((name, one.name) for one in file.applications for name in _names(one, kind))
            for name in sorted(name for name in names if not is_internal(name)):
                if owner := meant.owner(name):
                    self._found.setdefault((kind, owner), []).append(name)

    def names_of(self, application: Application, kind: str) -> list[str]:
        """Of the world, in order."""
        return self._found.get((kind, application.name), [])


def _names(application: Application, kind: str) -> Sequence[str]:
    return application.topics if kind == "topic" else application.groups


@dataclass(slots=True)
class _Resolver:
    """Of one application."""

    link: str
    application: Application
    world: World
    owners: _Owners
    unfinished: Sequence[str]
    wave_waits: str = ""
    problems: list[str] = field(default_factory=list)

    def plan(self) -> ApplicationPlan:
        application, world = self.application, self.world
        topics = self._resolved("topic", world.source_topics)
        groups = self._resolved("group", world.source_groups if application.until is not Until.MIRRORED else None)
        mirrors = [*self._creates(topics)]
        moves = [*self._declares(groups), *([] if application.together else self._group_promotes(groups))]
        promotes = [*self._promote(topics, groups)]
        stages = {Until.MIRRORED: mirrors, Until.GROUPS: mirrors + moves, Until.PROMOTED: mirrors + moves + promotes}
        steps = stages[application.until]
        problems = [*self.problems, *self._in_the_way(topics)]
        return ApplicationPlan(
            application=application,
            stage=_stage(mirrors, moves, promotes, open_ends=bool(problems) or _is_not_told(application, world)),
            steps=tuple(steps),
            problems=tuple(problems),
            beyond=len(stages[Until.PROMOTED]) - len(steps),
            topics=tuple(topics),
            groups=tuple(groups),
        )

    def _resolved(self, kind: str, source: frozenset[str] | None) -> list[str]:
        """All names that the application means; what is nowhere is a problem. `source`: None where that is not one,
        or not known."""
        found = self.owners.names_of(self.application, kind)
        there = set(found)
        for name in _names(self.application, kind) if source is not None else ():
            if not name.endswith("*") and name not in there:
                self.problems.append(f"{kind} '{name}' is not on the source of link '{self.link}'")
        return found

    # -- mirrors ---------------------------------------------------------------------------------------------------

    def _creates(self, topics: Iterable[str]) -> Iterator[PlannedStep]:
        waits = f"link '{self.link}' is paused: lockgate link resume {self.link}" if self.world.link_paused else ""
        for name in topics:
            if name not in self.world.mirrors:
                yield PlannedStep(kind=MigrationStepKind.CREATE_MIRROR, topics=(name,), waits_for=waits)

    def _in_the_way(self, topics: Iterable[str]) -> Iterator[str]:
        """What somebody must decide on."""
        for name in topics:
            mirror = self.world.mirrors.get(name)
            if mirror is None:
                continue
            if mirror.link != self.link:
                yield f"topic '{name}' is a mirror topic of link '{mirror.link}' already"
            elif mirror.kept:
                continue  # promoted; what becomes of its undo is shown elsewhere
            elif mirror.state is MirrorState.FAILED:
                yield f"mirror topic '{mirror.mirror_topic}' has FAILED ({mirror.remark}): lockgate mirror repair"
            elif mirror.reverse:
                yield (
                    f"mirror topic '{mirror.mirror_topic}' is mirrored back to the source: somebody goes back; "
                    "wait for that, or delete its mirror"
                )

    # -- groups ----------------------------------------------------------------------------------------------------

    def _declares(self, groups: Iterable[str]) -> Iterator[PlannedStep]:
        for name in groups:
            if name not in self.world.groups:
                yield PlannedStep(kind=MigrationStepKind.DECLARE_GROUP, groups=(name,))

    def _group_promotes(self, groups: Iterable[str]) -> Iterator[PlannedStep]:
        for name in groups:
            if not self._is_promoted(name):
                yield PlannedStep(
                    kind=MigrationStepKind.PROMOTE_GROUP, groups=(name,), waits_for=self._group_waits(name)
                )

    def _is_promoted(self, name: str) -> bool:
        group = self.world.groups.get(name)
        return group is not None and group.is_promoted

    def _group_waits(self, name: str) -> str:
        """Why the group cannot be promoted now; '' when it may be tried."""
        group = self.world.groups.get(name)
        if group is None:
            return "it is not declared yet"
        if group.demoted:
            return f"somebody has demoted it: lockgate group promote {group.group} --link {self.link}"
        if group.members is None:
            return group.remark or "the source has not said whether it has members there"
        if group.members:
            return _on_source(group, self.link)
        if not group.waiting and not self.application.options.idle_groups:
            return "no member waits at the gateway (a group that stays idle: options.idle_groups)"
        return ""

    # -- promotes --------------------------------------------------------------------------------------------------

    def _promote(self, topics: Iterable[str], groups: Sequence[str]) -> Iterator[PlannedStep]:
        trouble = self.world.source_trouble if _is_not_told(self.application, self.world) else ""
        left = [name for name in topics if not self._is_stopped(name)]
        still = [name for name in groups if not self._is_promoted(name)]
        if not self.application.together:
            if left:
                waits = trouble or self._first(self._mirrors_wait, left) or self._gate(still, begun=False)
                yield PlannedStep(kind=MigrationStepKind.PROMOTE_TOPICS, topics=tuple(left), waits_for=waits)
        elif left or still:
            begun = len(left) < len([*topics]) or len(still) < len(groups)
            waits = trouble or self._first(self._mirrors_wait, left) or self._together_waits(still)
            waits = waits or self._gate((), begun=begun)
            yield PlannedStep(
                kind=MigrationStepKind.PROMOTE_TOGETHER, topics=tuple(left), groups=tuple(still), waits_for=waits
            )

    def _is_stopped(self, name: str) -> bool:
        mirror = self.world.mirrors.get(name)
        return mirror is not None and mirror.is_promoted

    def _together_waits(self, groups: Iterable[str]) -> str:
        if self.world.auto_promote and groups:
            return (
                "groups.auto.promote is on: its groups would be promoted before its topics; "
                f"lockgate link configuration update {self.link} --config groups.auto.promote=false"
            )
        return self._first(self._group_waits, groups)

    def _mirrors_wait(self, name: str) -> str:
        mirror = self.world.mirrors.get(name)
        if mirror is None:
            return "it is not mirrored yet"
        if mirror.reverse:
            return "it is mirrored back to the source"  # its promote would take it home
        if mirror.state is MirrorState.PENDING_STOPPED:
            return "it is being promoted"
        if mirror.state is not MirrorState.ACTIVE:
            return _paused(mirror, self.link)
        return "" if mirror.lag is not None else "its mirror has not measured its lag yet"

    def _gate(self, groups: Sequence[str], *, begun: bool) -> str:
        """What holds a promote that could begin: what was begun is brought to its end, whatever the window."""
        application, world = self.application, self.world
        if groups:
            return f"group '{groups[0]}' is not promoted yet" + (f", nor {len(groups) - 1} more" if groups[1:] else "")
        if begun:
            return ""
        if self.unfinished:
            return f"application '{self.unfinished[0]}' goes first"
        if self.wave_waits:
            return self.wave_waits
        opening = next_opening(application.windows, world.now)
        if not is_open(application.windows, world.now):
            return (
                f"no window is open; the next one opens at {opening.isoformat(timespec='minutes') if opening else '?'}"
            )
        ready = world.readiness.get(application.name, 0)
        if ready < application.options.min_readiness:
            return f"its readiness is {ready}, below {application.options.min_readiness}: lockgate migration ready"
        return ""

    @staticmethod
    def _first(waits: Callable[[str], str], names: Collection[str] | Iterable[str]) -> str:
        """The first reason, with the name that it is about."""
        return next((f"'{name}': {reason}" for name in names if (reason := waits(name))), "")


def _on_source(group: GroupStanding, link: str) -> str:
    """What to do about its members there: stop those that live, wait for those that did not leave when closed."""
    members = f"{group.members} member(s) on the source"
    if group.alive:
        return f"{members}: stop {_some(group.alive)} there, and start it at the gateway"
    if group.waiting < (group.members or 0):
        return f"{members}: restart them onto the gateway"
    timeout = f" ({group.session_timeout_s:g} s)" if group.session_timeout_s else ""
    return (
        f"{members}, and as many wait at the gateway: who did not leave on close is "
        f"removed after its session timeout{timeout}, or by lockgate group remove-members {group.group} --link {link}"
    )


def _some(names: Sequence[str]) -> str:
    """Three of them by name: there may be hundreds."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")


def _paused(mirror: MirrorStanding, link: str) -> str:
    if mirror.state is MirrorState.PAUSED:
        return f"it is PAUSED: lockgate mirror resume {mirror.mirror_topic} --link {link}"
    return f"it is {mirror.state.value}{f': {mirror.remark}' if mirror.remark else ''}"


def _stage(
    mirrors: Sequence[PlannedStep],
    moves: Sequence[PlannedStep],
    promotes: Sequence[PlannedStep],
    *,
    open_ends: bool,
) -> Stage:
    """`open_ends`: there may be more of it than these steps say."""
    if mirrors:
        return Stage.TO_MIRROR
    if moves:
        return Stage.MIRRORED
    if promotes:
        return Stage.GROUPS_MOVED if not any(one.groups for one in promotes) else Stage.MIRRORED
    return Stage.MIRRORED if open_ends else Stage.PROMOTED


__all__ = ["ApplicationPlan", "GroupStanding", "MigrationPlan", "MigrationStepKind", "PlannedStep", "Stage", "resolve"]
