"""How the auto-create of each link stands, as it is shown: Confluent's task `AutoCreateMirror`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gateway.operations.link_tasks import LinkTask, LinkTasks, TaskErrorCode, TaskState


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """`since_ms`: wall clock of the change to this state. `error`: the last one; kept while ACTIVE, with `error_ms`."""

    state: TaskState = TaskState.NOT_CONFIGURED
    since_ms: int = 0
    error: str = ""
    error_ms: int = 0
    created: int = 0


class AutoCreateState:
    """Of all links, in one term of leadership. `now_ms`: wall clock. `tasks`: told as well."""

    def __init__(self, now_ms: Callable[[], int], tasks: LinkTasks) -> None:
        self._now_ms = now_ms
        self._tasks = tasks
        self._of: dict[str, TaskStatus] = {}

    def of(self, link: str) -> TaskStatus:
        """How it stands; NOT_CONFIGURED of a link that does not ask for it."""
        return self._of.get(link, TaskStatus())

    def not_configured(self, link: str) -> None:
        """The link does not ask for it."""
        self._set(link, TaskState.NOT_CONFIGURED, "")
        self._tasks.not_configured(link, LinkTask.AUTO_CREATE_MIRROR)

    def ran(self, link: str) -> None:
        """A round came to its end, and nothing stands refused."""
        self._set(link, TaskState.ACTIVE, "")
        self._tasks.succeeded(link, LinkTask.AUTO_CREATE_MIRROR)

    def failed(self, link: str, error: str, reason: BaseException | None = None) -> None:
        """A round did not come to its end, for this `reason`, or a topic stands refused."""
        self._set(link, TaskState.IN_ERROR, error)
        self._tasks.failed(link, LinkTask.AUTO_CREATE_MIRROR, reason or (TaskErrorCode.INTERNAL_ERROR, error))

    def created(self, link: str) -> None:
        """One more mirror topic was created."""
        old = self.of(link)
        self._of[link] = TaskStatus(old.state, old.since_ms, old.error, old.error_ms, old.created + 1)

    def only(self, links: Collection[str]) -> None:
        """Forget those of links that are gone."""
        self._of = {link: status for link, status in self._of.items() if link in links}

    def _set(self, link: str, state: TaskState, error: str) -> None:
        old, now = self.of(link), self._now_ms()
        since = old.since_ms if old.state is state and old.since_ms else now
        last, at = (error, now) if error else (old.error, old.error_ms)
        self._of[link] = TaskStatus(state, since, last, at, old.created)
