"""Whether a group without a record may read: from what the sources of all links have said of it. Pure;
`groups/monitor.py` asks.

Theory of operation
-------------------
A group has nothing to do with a link when the link's source has said so since a mirror of that link was stored last.
What one source says is good for its link alone: a mirror more on link B says nothing of link A, so only B's source is
asked anew, and A's need not be there. Once no link is left the group is let in, as of all that is stored by then; what
the gates keep of that (`GroupGates.last_let_in`) is where the next asking begins.

A source that does not tell keeps the group waiting, since nobody else knows whether its members read there: let in, it
would read from the wrong place. But for one that is gone (`source_gone.py`), of a link whose mirror topics are all
STOPPED: nothing is mirrored from it any more, and nobody will ever tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gateway.groups.rules.source_gone import GONE_S, SourceSeen


class LinkSeen(NamedTuple):
    """A link that has mirrors. `grown_at`: the offset of the state topic at which one of them was stored last that was
    not there before. `stopped`: all are STOPPED. `source`: how its source is."""

    grown_at: int
    stopped: bool
    source: SourceSeen


def to_ask(links: Mapping[str, LinkSeen], not_its: Mapping[str, int], before: int) -> list[str]:
    """The links whose sources have to be asked about the group.

    Args:
        not_its: link -> the offset of the state topic as of which its source has said that it has nothing to do with
            the group.
        before: the offset as of which it was let in last; -1 if it never was.
    """
    return [name for name, link in links.items() if max(before, not_its.get(name, -1)) < link.grown_at]


def waits_for(
    links: Mapping[str, LinkSeen], not_its: Mapping[str, int], before: int, unanswered: Mapping[str, str]
) -> dict[str, str]:
    """Link -> why the group waits for it; empty when it may be let in, as of all that is stored now.

    Args:
        unanswered: link -> why its source has not told just now.
    """
    return {
        name: _why(name, links[name], unanswered.get(name, "it was not asked yet"))
        for name in to_ask(links, not_its, before)
        if not (links[name].stopped and links[name].source.is_gone)
    }


def _why(name: str, link: LinkSeen, reason: str) -> str:
    if link.stopped:
        return (
            f"{reason}; all mirror topics of the link are STOPPED: the group goes on once the source has answered, or "
            f"has not answered at all for {GONE_S:g} s"
        )
    return (
        f"{reason}; the source has to answer, or, when it is gone for good, its topics to fail over (lockgate mirror "
        f"failover TOPIC --link {name})"
    )
