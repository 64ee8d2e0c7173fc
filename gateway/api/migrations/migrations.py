"""/v3/links/{link}/migration-discovery, /v3/migrations"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import Query, Request

from gateway.api.access.roles import Role, caller_name
from gateway.api.migrations.discovery_models import DiscoveryData
from gateway.api.migrations.file_models import MigrationFileCheck, MigrationText
from gateway.api.migrations.migration_models import MigrationData, MigrationItem, MigrationList, MigrationUndoData
from gateway.api.migrations.readiness_models import ReadinessData
from gateway.api.models import ValidateOnly
from gateway.api.plane import Plane
from gateway.api.rehearsal_models import ApplicationRehearsal, MigrationRehearsalData, RehearsalData
from gateway.api.routes import Routes
from gateway.errors import BadRequest, Busy
from gateway.migration.rules.file import MigrationFile
from gateway.migration.rules.file_text import TextError, of_yaml

OneApplication = Annotated[str, Query(description="Only this application.")]
KeepLateWrites = Annotated[
    bool, Query(description="Records that somebody wrote to the source beside the gateway stay where they are.")
]
WithGroups = Annotated[bool, Query(description="Demote groups that only read, too.")]
Picture = Annotated[bool, Query(description="With the picture, as SVG.")]
CHECK_S: Final = 10.0
"""For how long a file waits until those before it are checked. The largest takes a second or two."""


def reading_router(plane: Plane) -> Routes:
    """The routes that change nothing."""
    routes = Routes(tags=["migrations"])
    one_by_one = asyncio.Semaphore(1)  # a thread for one file, whoever types

    @routes.post(
        "/v3/migrations:check",
        Role.VIEWER,
        reads=True,
        summary="Read a migration file, as text, and say what is wrong with it",
    )
    async def check(body: MigrationText) -> MigrationFileCheck:
        try:
            async with asyncio.timeout(CHECK_S):
                await one_by_one.acquire()
        except TimeoutError:
            raise Busy(f"other migration files are being checked, for {CHECK_S:g} s already; try again") from None
        try:
            return MigrationFileCheck.of(await asyncio.to_thread(of_yaml, body.text))
        except TextError as exc:
            return MigrationFileCheck.refused(exc)
        finally:
            one_by_one.release()

    @routes.get(
        "/v3/links/{link}/migration-discovery",
        summary="What must move together on a link's source, and why",
    )
    async def discover(link: str, picture: Picture = False) -> DiscoveryData:
        found = await plane().discovery.discover(link)
        return await asyncio.to_thread(DiscoveryData.of, link, found, picture=picture)

    @routes.get("/v3/migrations", summary="List the migrations")
    async def list_migrations() -> MigrationList:
        return MigrationList(data=[MigrationItem.of(record) for record in plane().migrations.list()])

    @routes.get("/v3/migrations/{migration}", summary="What is left of a migration, and what was done")
    async def describe(migration: str) -> MigrationData:
        return MigrationData.of(await plane().migrations.describe(migration))

    @routes.get("/v3/migrations/{migration}/readiness", summary="How ready a migration's applications are, and why")
    async def readiness(migration: str) -> ReadinessData:
        service = plane().migrations
        file = service.file_of(service.record(migration))
        return ReadinessData.of(file.link, await plane().readiness.of_file(file))

    @routes.get(
        "/v3/migrations/{migration}/report",
        summary="The report of a migration: what moved when, and by whom",
    )
    async def report(migration: str) -> dict[str, Any]:
        return await plane().migration_reports.make(migration)

    @routes.get(
        "/v3/links/{link}/readiness",
        summary="How ready all that a link mirrors is to be promoted, and why",
    )
    async def link_readiness(link: str) -> ReadinessData:
        judged = await plane().readiness.of_link(link)
        return ReadinessData.of(link, [] if judged is None else [judged])

    return routes


def router(plane: Plane) -> Routes:
    """The routes of what is done with migrations."""
    routes = Routes(tags=["migrations"])

    @routes.put(
        "/v3/migrations/{migration}", Role.OPERATOR, summary="Apply a migration file: bring the world to what it says"
    )
    async def apply(
        migration: str, body: MigrationFile, request: Request, validate_only: ValidateOnly = False
    ) -> MigrationData:
        if body.migration != migration:
            raise BadRequest(f"the file is of migration '{body.migration}', not of '{migration}'")
        view = await plane().migrations.apply(body, caller_name(request), validate_only=validate_only)
        return MigrationData.of(view)

    @routes.post(
        "/v3/migrations/{migration}:pause",
        Role.OPERATOR,
        summary="Take no further step of a migration until it is resumed",
    )
    async def pause(migration: str, request: Request, validate_only: ValidateOnly = False) -> MigrationData:
        view = await plane().migrations.pause(migration, caller_name(request), validate_only=validate_only)
        return MigrationData.of(view)

    @routes.post("/v3/migrations/{migration}:resume", Role.OPERATOR, summary="Go on with a migration")
    async def resume(migration: str, request: Request, validate_only: ValidateOnly = False) -> MigrationData:
        view = await plane().migrations.resume(migration, caller_name(request), validate_only=validate_only)
        return MigrationData.of(view)

    @routes.post(
        "/v3/migrations/{migration}:abort", Role.OPERATOR, summary="End a migration where it is; what is done stays"
    )
    async def abort(migration: str, request: Request, validate_only: ValidateOnly = False) -> MigrationData:
        view = await plane().migrations.abort(migration, caller_name(request), validate_only=validate_only)
        return MigrationData.of(view)

    @routes.post(
        "/v3/migrations/{migration}:rehearse", Role.OPERATOR, summary="Rehearse the promotes of a migration, one by one"
    )
    async def rehearse(
        migration: str, request: Request, application: OneApplication = "", validate_only: ValidateOnly = False
    ) -> MigrationRehearsalData:
        service, by = plane().migration_rehearsals, caller_name(request)
        done = await service.rehearse(migration, application, by, validate_only=validate_only)
        link = plane().migrations.record(migration).link
        return MigrationRehearsalData(
            migration=migration,
            applications=[
                ApplicationRehearsal(
                    application=one.application,
                    refused=one.refused,
                    rehearsal=None if one.rehearsal is None else RehearsalData.of(link, one.rehearsal),
                )
                for one in done
            ],
        )

    @routes.post(
        "/v3/migrations/{migration}:undo",
        Role.OPERATOR,
        status_code=202,
        summary="Take the promotes of a migration back",
    )
    async def undo(
        migration: str,
        request: Request,
        application: OneApplication = "",
        groups: WithGroups = False,
        keep_late_writes: KeepLateWrites = False,
        validate_only: ValidateOnly = False,
    ) -> MigrationUndoData:
        service, by = plane().migration_undo, caller_name(request)
        done = await service.undo(
            migration, application, by, with_groups=groups, keep_late=keep_late_writes, validate_only=validate_only
        )
        return MigrationUndoData.of(done)

    @routes.delete(
        "/v3/migrations/{migration}", Role.OPERATOR, status_code=204, summary="Forget a migration with its journal"
    )
    async def delete(migration: str, validate_only: ValidateOnly = False) -> None:
        await plane().migrations.delete(migration, validate_only=validate_only)

    return routes
