"""How the operations on links and topics are put together, one function each.

As in `control_parts.py`: no operation is handed the parts, each names in its constructor what it needs, and here is
where that comes from. `ControlService` says in which order they are built; what an operation needs of another one is an
argument.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.access.quotas import Quotas
from gateway.access.users import Users
from gateway.control_parts import ControlParts
from gateway.cutover.failback.operations import Failbacks
from gateway.cutover.failback.undo import Undos
from gateway.cutover.promote.unpromoted_groups import unpromoted_groups
from gateway.groups.operations import Groups
from gateway.groups.reports import GroupReports
from gateway.links.checks import LinkChecks
from gateway.links.links import Links
from gateway.links.running import RunningLinks
from gateway.links.update import LinkUpdates
from gateway.migration.carry_out import SetPromotion, StepExecutor
from gateway.migration.client_errors import WatchedErrors
from gateway.migration.history import MirrorTrends
from gateway.migration.keeps import UndoRetention
from gateway.migration.migrations import Migrations, PromoteCallOffs
from gateway.migration.ready import ReadinessCheck
from gateway.migration.run import MigrationRun
from gateway.migration.undo import MigrationUndo
from gateway.migration.world_reader import WorldReader
from gateway.operations.partners import GroupPromoter, TopicPromoter
from gateway.topics.auto_create import AutoCreate
from gateway.topics.catch_up import CatchUps
from gateway.topics.clients_not_migrated import SourceReaders
from gateway.topics.copy_watch import CopyWatch
from gateway.topics.create import MirrorCreator
from gateway.topics.delete import MirrorDeletion
from gateway.topics.events import EngineEvents
from gateway.topics.measured_create import CreateEnded, MeasuredCreator
from gateway.topics.mirrors import Mirrors
from gateway.topics.plan import MirrorPlanner, PlanStart
from gateway.topics.repair import MirrorRepair
from gateway.topics.topic_configs import TargetConfigs

# -- links -----------------------------------------------------------------------------------------------------------


def link_operations(parts: ControlParts, reports: GroupReports) -> tuple[Links, LinkUpdates]:
    """What is made and changed of links. Both check a source in the same way."""
    checks = LinkChecks(records=parts.records, sources=parts.sources, target=parts.target)
    links = Links(
        records=parts.records,
        sources=parts.sources,
        target=parts.target,
        health=parts.health,
        engine=parts.engine,
        publisher=parts.publisher,
        progress=parts.progress,
        locks=parts.locks,
        deleted=parts.deleted,
        checks=checks,
        tasks=parts.tasks,
        reports=reports,
    )
    updates = LinkUpdates(
        records=parts.records,
        sources=parts.sources,
        engine=parts.engine,
        fleet=parts.fleet,
        locks=parts.locks,
        checks=checks,
        links=links,
    )
    return links, updates


def running_links(parts: ControlParts) -> RunningLinks:
    """Which links the engine runs."""
    return RunningLinks(
        store=parts.records.store,
        sources=parts.sources,
        engine=parts.engine,
        locks=parts.locks,
        background=parts.background,
    )


def users_and_quotas(parts: ControlParts) -> tuple[Users, Quotas]:
    """Who may log in at the target, and how much clients may take of it."""
    users = Users(
        records=parts.records,
        views=parts.views,
        target=parts.target,
        secrets_of=parts.sources.secrets,
        locks=parts.locks,
        door=parts.door,
        identities=parts.identities,
    )
    return users, Quotas(
        records=parts.records, views=parts.views, target=parts.target, locks=parts.locks, door=parts.door
    )


# -- mirror topics ---------------------------------------------------------------------------------------------------


def catch_ups(parts: ControlParts) -> CatchUps:
    """Which topics a job copies."""
    return CatchUps(
        records=parts.records,
        target=parts.target,
        engine=parts.engine,
        measure=parts.measure,
        maps=parts.maps,
        locks=parts.locks,
        deleted=parts.deleted,
        clock=parts.clock,
    )


def mirror_creator(
    parts: ControlParts, plan_start: PlanStart, state_topic: str, on_create_ended: CreateEnded
) -> MirrorCreator:
    """Of whoever asks: people, auto-create, a recreate."""
    creator = MeasuredCreator(
        records=parts.records,
        sources=parts.sources,
        target=parts.target,
        engine=parts.engine,
        publisher=parts.publisher,
        planner=MirrorPlanner(
            sources=parts.sources,
            target=parts.target,
            plan_start=plan_start,
            clock=parts.clock,
            state_topic=state_topic,
        ),
        fleet=parts.fleet,
        locks=parts.locks,
        door=parts.door,
        lifted=parts.lifted,
        background=parts.background,
    )
    creator.ended, creator.clock = on_create_ended, parts.clock
    return creator


def mirrors(
    parts: ControlParts,
    *,
    creator: MirrorCreator,
    catch_ups: CatchUps,
    promoter: TopicPromoter,
    failbacks: Failbacks,
    failback_waits: Callable[[str, str], str],
) -> Mirrors:
    """`failback_waits`: see `Mirrors`."""
    return Mirrors(
        records=parts.records,
        engine=parts.engine,
        target=parts.target,
        maps=parts.maps,
        measure=parts.measure,
        catch_ups=catch_ups,
        creator=creator,
        readers=SourceReaders(parts.records, parts.views, parts.clock),
        promoter=promoter,
        failback_waits=failback_waits,
        locks=parts.locks,
        background=parts.background,
        deleted=parts.deleted,
        drift=parts.drift,
        differences=parts.differences,
        configs=TargetConfigs(parts.records, parts.target),
        trouble=failbacks.trouble,
        schema_ids=lambda link, topic: parts.missing_ids.of(link, topic) or parts.schema_gate.unknown(link, topic),
    )


def mirror_deletion(parts: ControlParts, mirrors: Mirrors, catch_ups: CatchUps, failbacks: Failbacks) -> MirrorDeletion:
    """Of a mirror with its copy."""
    return MirrorDeletion(
        records=parts.records,
        sources=parts.sources,
        target=parts.target,
        engine=parts.engine,
        publisher=parts.publisher,
        progress=parts.progress,
        catch_ups=catch_ups,
        readers=lambda link, topics: unpromoted_groups(parts.records.store, parts.sources, link, topics),
        promoting=mirrors.promoting,
        without_promote=failbacks.without_promote,
        fleet=parts.fleet,
        locks=parts.locks,
        door=parts.door,
        background=parts.background,
        deleted=parts.deleted,
    )


def mirror_repair(parts: ControlParts, creator: MirrorCreator) -> MirrorRepair:
    """Of a FAILED mirror."""
    return MirrorRepair(
        records=parts.records,
        sources=parts.sources,
        target=parts.target,
        engine=parts.engine,
        creator=creator,
        locks=parts.locks,
    )


def auto_create(parts: ControlParts, creator: MirrorCreator) -> AutoCreate:
    """Of all links that ask for it."""
    return AutoCreate(
        records=parts.records,
        sources=parts.sources,
        views=parts.views,
        target=parts.target,
        creator=creator,
        background=parts.background,
        tasks=parts.tasks,
        clock=parts.clock,
    )


def copy_watch(parts: ControlParts) -> CopyWatch:
    """Whether each copy is the topic that it was."""
    return CopyWatch(
        records=parts.records,
        sources=parts.sources,
        target=parts.target,
        measure=parts.measure,
        background=parts.background,
        differences=parts.differences,
        clock=parts.clock,
    )


def engine_events(parts: ControlParts) -> EngineEvents:
    """What becomes of what the engine tells."""
    return EngineEvents(
        records=parts.records,
        measure=parts.measure,
        maps=parts.maps,
        publisher=parts.publisher,
        health=parts.health,
        background=parts.background,
        deleted=parts.deleted,
        tasks=parts.tasks,
        clock=parts.clock,
    )


# -- groups ----------------------------------------------------------------------------------------------------------


def groups(parts: ControlParts, promoter: GroupPromoter, reports: GroupReports) -> Groups:
    """What is done with mirror groups."""
    return Groups(
        records=parts.records,
        sources=parts.sources,
        views=parts.views,
        gates=parts.gates,
        promoter=promoter,
        reports=reports,
        locks=parts.locks,
        target=parts.target,
        door=parts.door,
    )


# -- migrations ------------------------------------------------------------------------------------------------------


def migrations(
    parts: ControlParts, mirrors: Mirrors, groups: Groups, promoter: GroupPromoter, reports: GroupReports
) -> tuple[Migrations, MigrationRun, ReadinessCheck, MirrorTrends, WatchedErrors]:
    """What is made and shown of migrations, what carries them out, how ready they are, and what their clients get."""
    errors = WatchedErrors(records=parts.records, ask=parts.ask_answers)
    world = WorldReader(
        records=parts.records,
        views=parts.views,
        mirrors=mirrors,
        gates=parts.gates,
        reports=reports,
        waits_for=promoter.waits_for,
        client_errors=errors.of,
        clock=parts.clock,
    )
    history = MirrorTrends(parts.records.store.mirrors, parts.engine.status)
    check = ReadinessCheck(
        records=parts.records,
        views=parts.views,
        target=parts.target,
        world=world,
        mirrors=mirrors,
        groups=groups,
        acls=parts.acl_sync,
        history=history,
    )
    made = Migrations(records=parts.records, world=world, scores=check.scores)

    carry_out = StepExecutor(
        records=parts.records,
        mirrors=mirrors,
        groups=groups,
        sets=SetPromotion(mirrors, groups),
        pauses=parts.pauses_seen,
        clock=parts.clock,
    )
    run = MigrationRun(
        records=parts.records, migrations=made, carry_out=carry_out, background=parts.background, clock=parts.clock
    )
    return made, run, check, history, errors


def ways_back(
    parts: ControlParts, migrations: Migrations, mirrors: Mirrors, groups: Groups, undos: Undos, keeps: UndoRetention
) -> tuple[MigrationUndo, PromoteCallOffs]:
    """Behind the cutover, and before it."""
    records = parts.records
    return (
        MigrationUndo(records=records, migrations=migrations, undos=undos, groups=groups),
        PromoteCallOffs(records=records, migrations=migrations, mirrors=mirrors, claimed=keeps.running),
    )
