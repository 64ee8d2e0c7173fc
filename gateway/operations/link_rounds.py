"""When a task of links takes its rounds: of each link that has it switched on, one at a time, while this gateway leads.

What a round does, and what makes one due before its time, is the task's own business; see `AclSync` and `SchemaSync`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from gateway.operations.link_tasks import LinkTask, LinkTasks
from gateway.state.link_config import LinkConfig, parse
from gateway.state.records import LinkRecord
from gateway.state.store import ProducerFenced, StateStore
from gateway.transport.background import Background


class OfLink(Protocol):
    """What a task knows of a link. `running`: a round is under way."""

    link: LinkRecord
    running: bool


Known = TypeVar("Known", bound=OfLink)


class LinkRounds(Generic[Known]):
    """Of one task, for all links.

    Attributes:
        known: what the task knows, by link; no longer than the link is there with the task switched on.
    """

    def __init__(
        self,
        task: LinkTask,
        *,
        store: StateStore,
        tasks: LinkTasks,
        background: Background,
        is_on: Callable[[LinkConfig], bool],
        begun: Callable[[LinkRecord, LinkConfig], Known | None],
        take: Callable[[Known], Coroutine[Any, Any, None]],
    ) -> None:
        """`begun`: of a link whose round is due, which it notes; else None. `take`: a round; tells the task's outcome
        itself, and raises nothing but ProducerFenced."""
        self.known: dict[str, Known] = {}
        self._task = task
        self._store = store
        self._tasks = tasks
        self._background = background
        self._is_on = is_on
        self._begun = begun
        self._take = take

    def of(self, link: LinkRecord) -> Known | None:
        """What is known of this link, not of an older one of its name."""
        found = self.known.get(link.name)
        return found if found is not None and found.link.link_id == link.link_id else None

    async def run_due(self) -> None:
        """Begin the rounds that are due; they go on in the background."""
        links = self._store.links
        self.known = {name: one for name, one in self.known.items() if name in links}
        for name, link in links.items():
            config = parse(link.configs)
            if config.paused:
                continue  # its task stays as it was
            if not self._is_on(config):
                self.known.pop(name, None)
                self._tasks.not_configured(name, self._task)
            elif (one := self._begun(link, config)) is not None:
                one.running = True
                self._background.spawn(self._round(one), f"{self._task.value} {name}")

    async def _round(self, one: Known) -> None:
        try:
            await self._take(one)
        except ProducerFenced:
            return  # whoever leads now begins a round of its own
        finally:
            one.running = False
