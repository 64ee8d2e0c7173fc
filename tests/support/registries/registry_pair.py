"""Two registries in memory, and a link of a control plane between them."""

from __future__ import annotations

from gateway.operations.link_tasks import LinkTask, TaskErrorCode, TaskState
from gateway.schemas.rules.scene import SchemaReason
from tests.support.control.control_plane import Plane
from tests.support.registries.in_memory import in_memory
from tests.support.registries.strict_registry import StrictRegistry
from tests.support.waiting import wait_until_async

URLS = "http://source.example:8081", "http://target.example:8081"


class RegistryPair:
    """`source` and `target` of link `l`."""

    def __init__(self, plane: Plane) -> None:
        self.plane, self.urls = plane, URLS
        self.source, self.target = StrictRegistry(), StrictRegistry()
        self.sync = plane.service.schema_sync
        self.sync.open_registry = in_memory(dict(zip(URLS, (self.source, self.target), strict=True)))

    async def link(self, name: str = "l", **more: str) -> None:
        """Not looked at yet. `more`: options, with `_` for `.`."""
        configs = {key.replace("_", "."): value for key, value in more.items()}
        registries = dict(zip(("schema.source.registry.url", "schema.target.registry.url"), self.urls, strict=True))
        await self.plane.with_link(name, **{"schema.sync.enable": "true", **registries, **configs})

    async def round(self, after_s: float = 1_000.0) -> None:
        """One round, if one is due so many seconds later; thorough, unless said otherwise."""
        self.plane.clock_s += after_s
        await self.sync.run_due()
        await wait_until_async(lambda: not any(one.running for one in self.sync._rounds.known.values()), 20.0)

    async def linked(self, **more: str) -> None:
        """With a round."""
        await self.link(**more)
        await self.round()

    @property
    def state(self) -> tuple[TaskState, TaskErrorCode | None, str]:
        """Of the task, with its present error."""
        status = self.plane.parts.tasks.one("l", LinkTask.SCHEMA_SYNC)
        error = status.present_error
        return status.state, None if error is None else error.code, "" if error is None else error.message

    async def left_out(self) -> list[tuple[str, int, SchemaReason]]:
        """What a plan leaves out."""
        plan = await self.sync.plan("l")
        return [(one.subject, one.version, one.reason) for one in plan.left_out]

    def ids(self) -> dict[int, int]:
        """The id map."""
        entries = [entry for record in self.plane.store.schemas.get("l", {}).values() for entry in record.entries]
        return {entry.id: entry.target_id for entry in entries}

    def at_rest(self) -> bool:
        """The last round went well."""
        return self.state[0] is TaskState.ACTIVE
