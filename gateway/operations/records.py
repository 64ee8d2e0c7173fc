"""The records of links and mirrors as the operations use them: looked up, and changed by the state table."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from gateway.errors import Conflict, NotFound
from gateway.state.link_config import parse
from gateway.state.mirror_states import MirrorOperation, apply
from gateway.state.records import Deletion, LinkRecord, MirrorRecord
from gateway.state.store import StateStore, StoreConflict

_ATTEMPTS = 8
_TAKES_THE_MIRROR = (MirrorOperation.PROMOTE, MirrorOperation.FORCE_PROMOTE, MirrorOperation.REVERSE)
_log = structlog.get_logger("lockgate.control")


class Records:
    """Of one store. What is missing is told in the operator's words.

    Attributes:
        store: where they are kept.
        now_ms: the wall clock that they are stamped with.
    """

    def __init__(self, store: StateStore, now_ms: Callable[[], int]) -> None:
        self.store = store
        self.now_ms = now_ms
        self._last_mirror_id = 0

    def link(self, name: str) -> LinkRecord:
        """The link; NotFound if there is none."""
        link = self.store.links.get(name)
        if link is None:
            raise NotFound(f"link '{name}' does not exist")
        return link

    def mirror(self, link: str, topic: str) -> MirrorRecord:
        """The mirror; NotFound if the link or the mirror does not exist."""
        self.link(link)
        mirror = self.store.mirrors.get((link, topic))
        if mirror is None:
            raise NotFound(f"link '{link}' has no mirror topic '{topic}'")
        return mirror

    def next_mirror_id(self, first: int = 1) -> int:
        """Above all that are stored or were given out here; those are to be stored in this order, `with_others`.

        Args:
            first: while none was given out.
        """
        stored = self.store.sequences.get("mirror")
        self._last_mirror_id = max(self._last_mirror_id, first - 1 if stored is None else stored.last) + 1
        return self._last_mirror_id

    async def change(
        self,
        link: str,
        topic: str,
        operation: MirrorOperation,
        edited: Callable[[MirrorRecord], MirrorRecord] = lambda record: record,
        **changes: object,
    ) -> MirrorRecord:
        """Apply an operation of the state table to the stored mirror, by compare and set.

        Args:
            edited: what else becomes of the record, which is the one that is compared.
            changes: of fields whose new value does not depend on the record.

        Raises:
            NotFound, WrongState: nothing was changed.
            Conflict: it is being created, or others changed it again and again.
            StoreError: it could not be written.
        """
        for _ in range(_ATTEMPTS):
            old = self.mirror(link, topic)
            require_created(old)
            new = apply(operation, edited(old), self.now_ms(), **changes)
            try:
                await self.store.replace(old, new, guard=lambda: self._require_running(link, operation))
            except StoreConflict:
                continue
            _log.info(
                "mirror state",
                link=link,
                topic=topic,
                old=old.state.value,
                new=new.state.value,
                direction=new.failback.direction.value,
                reason=new.error_message,
            )
            return new
        raise Conflict(f"mirror topic '{topic}' is being changed by other operations; try again")

    def _require_running(self, link: str, operation: MirrorOperation) -> None:
        """What waits for the mirror would wait for ever."""
        if operation in _TAKES_THE_MIRROR and parse(self.link(link).configs).paused:
            raise Conflict(f"link '{link}' is paused; resume it first: lockgate link resume {link}")


def require_created(mirror: MirrorRecord) -> None:
    """Raises Conflict: its create has not come to its end, or its deletion has begun: nothing can be changed."""
    require_kept(mirror)
    if not mirror.created:
        raise Conflict(f"mirror topic '{mirror.mirror_topic}' is being created; try again when it is")


def require_kept(mirror: MirrorRecord) -> None:
    """Raises Conflict: its deletion has begun."""
    if mirror.deletion is not Deletion.NONE:
        raise Conflict(f"mirror topic '{mirror.mirror_topic}' is being deleted")
