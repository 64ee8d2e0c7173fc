"""Creates of mirror topics, with how long each took and how it ended: for the metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.errors import BadRequest, Conflict, NotFound
from gateway.state.records import MirrorRecord
from gateway.topics.create import MirrorCreator

CreateEnded = Callable[[str, str, float], None]
"""(link, outcome, seconds). `outcome`: created; refused (as it was asked for it cannot be); failed (later it may)."""


def nobody_listens(_link: str, _outcome: str, _seconds: float) -> None:
    """Where nothing is measured."""


class MeasuredCreator(MirrorCreator):
    """Tells `ended` of every create that somebody has asked for."""

    ended: CreateEnded = staticmethod(nobody_listens)
    clock: Callable[[], float]

    async def create(self, link_name: str, *args: Any, **kwargs: Any) -> MirrorRecord:
        """See `MirrorCreator.create`."""
        began, outcome = self.clock(), "failed"
        try:
            record = await super().create(link_name, *args, **kwargs)
            outcome = "created"
            return record
        except (BadRequest, Conflict, NotFound):
            outcome = "refused"
            raise
        finally:
            self.ended(link_name, outcome, self.clock() - began)
