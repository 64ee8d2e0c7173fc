"""The judgement: was each client itself on both clusters, and did anybody gain a right?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from demo.checker import Window
from demo.secure.authorizer_log import Decision
from demo.secure.intruder import DONE, Told
from demo.secure.principals import ADMIN, BROKER, GATEWAY, INTRUDER

_EXAMPLES = 5


@dataclass(slots=True)
class Seen:
    """What the authorizers of one cluster allowed.

    Attributes:
        writers: Produce requests to the topic by principal; `forwarded`: those between the move and the promote.
        readers: OffsetCommit requests by principal.
        wrong: writes to the topic by whoever should not have made them, a line each.
        gained: what the intruder was allowed, a line each.
        gateway: what the gateway's principal used, by operation and resource.
    """

    writers: Counter[str] = field(default_factory=Counter)
    forwarded: Counter[str] = field(default_factory=Counter)
    readers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    gained: list[str] = field(default_factory=list)
    gateway: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """`missing`: clients that were not seen where they should have been. `wrong`, `gained`: see `Seen`; attempts of
    the intruder that ended otherwise than at a broker are among the latter."""

    missing: tuple[str, ...]
    wrong: tuple[str, ...]
    gained: tuple[str, ...]
    gateway: Mapping[str, Mapping[str, int]]

    @property
    def kept(self) -> bool:
        """Each request was made by its client's principal."""
        return not self.missing and not self.wrong

    def faults(self) -> list[str]:
        """Why this is not a pass, one line each."""
        return [*self.missing, *self.wrong[:_EXAMPLES], *self.gained[:_EXAMPLES]]


def look(decisions: Iterable[Decision], topic: str, forwarding: Window, is_wrong: Callable[[Decision], bool]) -> Seen:
    """Sort what a cluster's authorizers wrote down. `is_wrong`: of a write to the topic by a client or the gateway."""
    seen = Seen()
    for decision in decisions:
        if not decision.allowed:
            continue
        did = f"{decision.operation} {decision.resource}"
        if decision.who == INTRUDER:
            seen.gained.append(f"{INTRUDER} was allowed {did} for {decision.request}")
        elif decision.who == GATEWAY:
            seen.gateway[did] += 1
        if decision.request == "Produce" and did == f"WRITE Topic {topic}":
            seen.writers[decision.who] += 1
            if forwarding.start_ms <= decision.at_ms <= forwarding.end_ms:
                seen.forwarded[decision.who] += 1
            if decision.who in (ADMIN, BROKER) or is_wrong(decision):
                seen.wrong.append(f"{decision.who} wrote to {topic} at {decision.at_ms}")
        elif decision.request == "OffsetCommit" and did.startswith("READ Group "):
            seen.readers[decision.who] += 1
    return seen


def look_at_source(decisions: Iterable[Decision], topic: str, forwarding: Window) -> Seen:
    """Nobody but clients writes there, the link's principal never."""
    return look(decisions, topic, forwarding, lambda decision: decision.who == GATEWAY)


def look_at_target(decisions: Iterable[Decision], topic: str, forwarding: Window, promote: Window) -> Seen:
    """The gateway writes its copy until the end of the promote, clients from the promote on."""

    def is_wrong(decision: Decision) -> bool:
        if decision.who == GATEWAY:
            return decision.at_ms > promote.end_ms
        return decision.at_ms < promote.start_ms

    return look(decisions, topic, forwarding, is_wrong)


def judge_identities(
    source: Seen,
    target: Seen,
    told: Mapping[str, Told],
    reference: str,
    *,
    producers: Sequence[str],
    members: Sequence[str],
) -> Identities:
    """Put together.

    Args:
        told: where -> what the intruder was told there. reference: where a broker itself had told it.
        producers, members: the clients that were moved; each must be seen on both clusters.
    """
    through = "was not seen to write to the source through the gateway"
    missing = [f"{name} {through}" for name in producers if not source.forwarded[name]]
    for cluster, seen in (("source", source), ("target", target)):
        missing += [f"{name} was not seen to write to the {cluster}" for name in producers if not seen.writers[name]]
        missing += [f"{name} was not seen to commit on the {cluster}" for name in members if not seen.readers[name]]
    gained = [*source.gained, *target.gained]
    for where, answers in told.items():
        for what, answer in answers.items():
            expected = told[reference][what]
            if answer == DONE:
                gained.append(f"{INTRUDER} {where}: {what}: {answer}")
            elif answer != expected:
                gained.append(f"{INTRUDER} {where}: {what}: {answer}, a broker says {expected}")
    return Identities(
        missing=tuple(missing),
        wrong=(*source.wrong, *target.wrong),
        gained=tuple(gained),
        gateway={"source": dict(source.gateway), "target": dict(target.gateway)},
    )
