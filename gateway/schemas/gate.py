"""The schema gate: a promote waits, or is refused, while ids that mirrored records have do not resolve on the target.

The leader samples the copies on the target: of each partition that has grown the first record of its last batch, of a
new one of its first batch too. So the mirror does nothing for it, and what other gateways mirror is seen as well. What
was seen of a topic is kept (`rules/gate.py` has the bound). An id that the target's registry knows, or that
neither registry knows, is asked for once in a while; what is missing on the target alone at each look, and it goes to
the schema sync, which looks for its versions at once.

Of links with `schema.sync.enable` and fixed ids only: with translated ones an id says nothing about the target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from gateway.errors import Conflict, ControlError
from gateway.kafka.connection.errors import NetError
from gateway.operations.records import Records
from gateway.schemas.check import MAX_PARTITIONS, Ranges, SchemaCheck
from gateway.schemas.rules.gate import SeenIds, ids_by_topic, list_ids
from gateway.schemas.schema_sync import SchemaSync
from gateway.state.link_config import LinkConfig, parse
from gateway.state.records import LinkRecord
from gateway.state.schemas.schema_options import SchemaGateMode, SchemaIds

ASKED_S: Final = 5.0
"""How often a link is looked at of which a promote waits; others as often as `schema.sync.ms` says."""

FRESH_S: Final = 20.0
"""How old a look may be for a promote to go by it."""

_FORGET_S: Final = 300.0  # when all ids are asked for again
_LOOK_S: Final = 30.0  # the most that one look takes

_log = structlog.get_logger("lockgate.control")


@dataclass(slots=True)
class _LinkGate:
    """`looked`: by mirror topic, when the last look at it began; `asked`: when a promote asked last.

    `resolved`: ids that the target's registry knows; `nowhere`: that neither knows; `unknown`: by mirror topic those
    that only the source's knows. Times: monotonic seconds.
    """

    link: LinkRecord
    forget_at: float
    last: float = float("-inf")
    asked: float = float("-inf")
    asked_topics: frozenset[str] = frozenset()
    seen: SeenIds = field(default_factory=SeenIds)
    ranges: Ranges = field(default_factory=dict)
    looked: dict[str, float] = field(default_factory=dict)
    resolved: set[int] = field(default_factory=set)
    nowhere: set[int] = field(default_factory=set)
    unknown: dict[str, tuple[int, ...]] = field(default_factory=dict)
    error: str = ""


class LinkSchemaGates:
    """Of all links, while this gateway leads. Attributes: checks: asks for the ends of the copies, as they are now."""

    def __init__(self, *, records: Records, check: SchemaCheck, sync: SchemaSync, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self.checks = check
        self._records = records
        self._sync = sync
        self._clock = clock
        self._links: dict[str, _LinkGate] = {}

    # -- told -------------------------------------------------------------------------------------------------------

    def waits(self, link: str, topics: Sequence[str]) -> str:
        """Why a promote of these mirror topics must wait, '' when it need not. Asks nobody: the next look does."""
        record = self._records.store.links.get(link)
        if record is None or not is_gated(parse(record.configs)):
            return ""
        one, now = self._of(record), self._clock()
        one.asked, one.asked_topics = now, frozenset(topics)
        for topic in topics:
            if unknown := one.unknown.get(topic):
                return f"the target's registry to know {list_ids(unknown)}, which records of {topic} have"
        if any(now - one.looked.get(topic, float("-inf")) > FRESH_S for topic in topics):
            return f"a look at the schema ids of its records{': ' if one.error else ''}{one.error}"
        return ""

    def unknown(self, link: str, topic: str) -> tuple[int, ...]:
        """Ids that records of the mirror topic have, and that of both registries only the source's knows."""
        one = self._links.get(link)
        return () if one is None else one.unknown.get(topic, ())

    def counted(self, link: str) -> int:
        """How many ids of the link are so."""
        one = self._links.get(link)
        return 0 if one is None else len({found for ids in one.unknown.values() for found in ids})

    async def check(self, link: str, topics: Sequence[str]) -> None:
        """Refuse a promote of a link with `schema.gate=refuse`, after a look.

        Raises:
            Conflict: it names the ids.
            BadRequest, SourceUnreachable, TargetUnreachable: it cannot be told.
        """
        record = self._records.link(link)
        config = parse(record.configs)
        if not is_gated(config) or config.schema_gate is not SchemaGateMode.REFUSE:
            return
        one = self._of(record)
        await self._look(one, topics)
        for topic in topics:
            if unknown := one.unknown.get(topic):
                raise Conflict(
                    f"mirror topic '{topic}' cannot be promoted: the target's registry does not know "
                    f"{list_ids(unknown)}, which its records have; "
                    f"lockgate link schemas sync {link} --id {unknown[0]}, "
                    "or use force"
                )

    # -- the loop ---------------------------------------------------------------------------------------------------

    async def run_due(self) -> None:
        """Look at the links whose time has come, one after the other."""
        links = self._records.store.links
        gated = {name: link for name, link in links.items() if is_gated(parse(link.configs))}
        for name in self._links.keys() - gated.keys():
            del self._links[name]
        for link in gated.values():
            config = parse(link.configs)
            one, now = self._of(link), self._clock()
            every_s = config.schema_sync_ms / 1000
            if now - one.asked < 2 * ASKED_S:
                every_s = min(every_s, ASKED_S)
            if now - one.last >= every_s and not config.paused:
                await self._try(one)

    async def _try(self, one: _LinkGate) -> None:
        one.last = self._clock()
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._look(one, self._turn(one))
        except (ControlError, NetError, TimeoutError, ValueError, OSError) as exc:
            one.error = str(exc) or "no answer in time"
            _log.warning("schema gate: the look broke off", link=one.link.name, error=one.error)
        else:
            one.error = ""

    def _of(self, link: LinkRecord) -> _LinkGate:
        """What is known of it; nothing once its record is another one."""
        one = self._links.get(link.name)
        if one is None or one.link != link:
            one = self._links[link.name] = _LinkGate(link, self._clock() + _FORGET_S)
        return one

    def _turn(self, one: _LinkGate) -> list[str]:
        """The mirror topics of the next look: those that a promote waits for, then those not looked at for longest."""
        topics = {mirror.mirror_topic: len(mirror.starts) for mirror in self.checks.mirrored(one.link.name)}
        for kept in (one.seen.by_topic, one.looked, one.unknown):
            for gone in kept.keys() - topics.keys():
                del kept[gone]
        one.ranges = {key: found for key, found in one.ranges.items() if key[0] in topics}
        order = sorted(topics, key=lambda topic: (topic not in one.asked_topics, one.looked.get(topic, 0.0), topic))
        turn: list[str] = []
        left = MAX_PARTITIONS
        for topic in order:
            left -= topics[topic]
            if left >= 0 or not turn:
                turn.append(topic)
        return turn

    async def _look(self, one: _LinkGate, topics: Sequence[str]) -> None:
        """Sample these mirror topics, and ask the registries for what is not known to resolve."""
        name, began = one.link.name, self._clock()
        if began >= one.forget_at:
            one.resolved.clear()
            one.nowhere.clear()
            one.forget_at = began + _FORGET_S
        partitions = {topic: len(self._records.mirror(name, topic).starts) for topic in topics}
        await self.checks.sample(partitions, one.seen, one.ranges)
        if asked := one.seen.all() - one.resolved - one.nowhere:
            known, of_source = await self._sync.known(name, asked)
            one.resolved |= known
            one.nowhere |= {schema_id for schema_id, there in of_source.items() if not there}
        judgements = ids_by_topic(one.seen, one.resolved, dict.fromkeys(one.nowhere, False))
        one.unknown = {found.topic: found.unknown for found in judgements if found.unknown}
        one.looked.update(dict.fromkeys(topics, began))
        self._sync.wanted(name, (schema_id for found in judgements for schema_id in found.unknown))


def is_gated(config: LinkConfig) -> bool:
    """Whether promotes of the link's topics ask for ids of schemas."""
    fixed = config.schema_ids is SchemaIds.FIXED
    return config.schema_sync and fixed and config.schema_gate is not SchemaGateMode.OFF
