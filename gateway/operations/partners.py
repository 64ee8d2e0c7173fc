"""What the planes ask of one another, as Protocols: proxy, mirror and control never import each other.

`runtime/` hands each its partners. Everything here is called on the one event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.state.records import CarriedOffset, GroupRecord, MirrorRecord, ThenReverse


class TopicPromoter(Protocol):
    """Promotes mirror topics; the control plane's runner of `domain` decisions."""

    async def promote(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        force: bool = False,
        then_reverse: ThenReverse = ThenReverse.NO,
        keep_late: bool = False,
    ) -> Sequence[MirrorRecord]:
        """Promote the topics as one set and return their records, now STOPPED.

        `groups`: mirror groups that change sides with them. `then_reverse`: kept in the records, for whoever leads
        then. `keep_late`: of a failback, what somebody wrote to the source beside the gateway goes home in its place.

        States were validated by the caller; they may have changed since. Returns or raises only when the
        promote has ended: on an exception (its message is for the operator) no topic is paused and all are in the
        state before, with the reason in `error_message`.
        """

    async def check(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        force: bool = False,
        keep_late: bool = False,
    ) -> None:
        """Raises what `promote` would refuse before it begins; changes nothing."""

    async def call_off(self, link: str, topics: Sequence[str], *, validate_only: bool = False) -> Sequence[str]:
        """Call off the promotes of these topics, with all of their sets; the names of all that go back.

        Returns when they are as they were before, or their records say that they will be. `validate_only`: changes
        nothing.

        Raises:
            BadRequest, NotFound: no topic, or no such link or mirror.
            Conflict: one of them is not being promoted, or has cut over. TargetUnreachable: it could not be stored.
        """

    def waiting_for(self, link: str, topic: str) -> str:
        """What a running promote of the topic waits for; '' when none runs or it does not wait."""

    def records_after_cutover(self, link: str, topic: str) -> Mapping[int, int] | None:
        """Partition -> records that came to the source after the cutover, as far as the source was last seen.

        None of a topic that is written on the target, and whose source was not looked at since this process leads.
        """

    def late_writes_known(self, link: str, topic: str) -> bool:
        """Whether `records_after_cutover` tells what is there: the source was looked at since this process leads, or
        need not be."""

    async def require_no_late_writes(self, link: str, topics: Sequence[str], *, keep: bool = False) -> None:
        """Of those that are mirrored back: the logs are asked whether somebody else wrote to the source.

        `keep`: what can be kept where it is refuses nothing.

        Raises:
            NotFound: no such link or topic. Conflict: somebody did, with how many records, where, and the ways out.
            SourceUnreachable: it is not known.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What a promote or a demote of a group would meet now.

    `blocker`: what it would be refused for; '' when it would begin. `waits_for`: what it would wait for first, at most
    some 30 s, and then give up. `offsets`: what would be carried over; known when nothing is in the way. `note`: what
    to know of them.
    """

    record: GroupRecord
    blocker: str = ""
    waits_for: str = ""
    note: str = ""
    offsets: Sequence[CarriedOffset] = ()


class GroupPromoter(Protocol):
    """Promotes and demotes mirror groups."""

    async def promote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        """Carry the group's offsets to the target and open its gate; returns when it is PROMOTED.

        Raises with a message for the operator when it cannot be; the group then stays gated.
        """

    async def demote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        """The failback: close the gate; the group may go on on the source from where it was on the target."""

    async def promote_plan(self, link: str, group: str, *, force: bool = False) -> GroupPlan:
        """What `promote` would meet; changes nothing, and waits for nobody."""

    async def demote_plan(self, link: str, group: str) -> GroupPlan:
        """What `demote` would meet; changes nothing, the gate least of all."""

    def waits_for(self, link: str, group: str) -> str:
        """Why the group is not promoted yet; '' when nothing is known."""
