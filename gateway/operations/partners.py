"""What the planes ask of one another, as Protocols: proxy, mirror and control never import each other.

`runtime/` hands each its partners. Everything here is called on the one event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.state.records import GroupRecord, MirrorRecord


class TopicPromoter(Protocol):
    """Promotes mirror topics; the control plane's runner of `domain` decisions."""

    async def promote(self, link: str, topics: Sequence[str], *, force: bool = False) -> Sequence[MirrorRecord]:
        """Promote the topics as one set and return their records, now STOPPED.

        States were validated by the caller; they may have changed since. Returns or raises only when the
        promote has ended: on an exception (its message is for the operator) no topic is paused and all are in the
        state before, with the reason in `error_message`.
        """

    async def check(self, link: str, topics: Sequence[str], *, force: bool = False) -> None:
        """Raises what `promote` would refuse before it begins; changes nothing."""

    def waiting_for(self, link: str, topic: str) -> str:
        """What a running promote of the topic waits for; '' when none runs or it does not wait."""

    def records_after_cutover(self, link: str, topic: str) -> Mapping[int, int]:
        """Partition -> records that came to the source after the cutover, as far as the source was last seen."""


class GroupPromoter(Protocol):
    """Promotes and demotes mirror groups."""

    async def promote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        """Carry the group's offsets to the target and open its gate; returns when it is PROMOTED.

        Raises with a message for the operator when it cannot be; the group then stays gated.
        """

    async def demote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        """The failback: close the gate; the group may go on on the source from where it was on the target."""

    def waits_for(self, link: str, group: str) -> str:
        """Why the group is not promoted yet; '' when nothing is known."""
