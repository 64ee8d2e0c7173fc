"""Which source topics become mirror topics by themselves, and why every other one does not. Pure.

A link with `auto.create.mirror.topics.enable` looks at the source's topics every `metadata.max.age.ms`: a *round*. A
mirror topic is created for a source topic when

* a filter of `auto.create.mirror.topics.filters` includes it and none excludes it;
* it is neither internal to a cluster, nor excluded by default (the topic of a schema registry, audit logs), unless a
  LITERAL filter names it;
* the link may read it;
* with a prefix, it is no mirror topic on the source: two clusters that mirror each other under prefixes would go on
  for ever. Without one the name ends the loop: it is on the target already;
* nobody mirrors to its name, and there is no topic of that name on the target.

Nothing is remembered of what was created: a mirror topic that is deleted, with its record, while the filters include
its source topic is created again in the next round (`why_created_again`).

A round creates at most so many, in the order in which topics came to be due; those of one moment by name. What was
refused comes to be due again later and later (`Memory`), and so keeps no other topic from its turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from gateway.kafka.rules.names import bad_name, is_internal
from gateway.kafka.view import ListedTopic
from gateway.operations.rules.backoff import pause_after
from gateway.state.link_config import AUTO_CREATE, AUTO_CREATE_FILTERS, AUTO_CREATE_LIMIT, LinkConfig

CADENCE: Final = "metadata.max.age.ms"
_DEFAULT_CADENCE_S: Final = 300.0  # Confluent's
_SHORTEST_S: Final = 1.0
_BY_HAND: Final = "with a prefix such topics are created by hand only"
_NOT_BY_DEFAULT: Final = ("_schemas", "confluent-audit-log-events")


class Reason(StrEnum):
    """Why a source topic is not mirrored (yet)."""

    NEXT_ROUND = "NEXT_ROUND"
    LATER_ROUND = "LATER_ROUND"
    REFUSED = "REFUSED"
    AUTO_CREATE_OFF = "AUTO_CREATE_OFF"
    NOT_INCLUDED = "NOT_INCLUDED"
    EXCLUDED = "EXCLUDED"
    EXCLUDED_BY_DEFAULT = "EXCLUDED_BY_DEFAULT"
    INTERNAL = "INTERNAL"
    BAD_NAME = "BAD_NAME"
    NOT_READABLE = "NOT_READABLE"
    MIRROR_TOPIC_ON_SOURCE = "MIRROR_TOPIC_ON_SOURCE"
    NAME_IS_MIRRORED = "NAME_IS_MIRRORED"
    EXISTS_ON_TARGET = "EXISTS_ON_TARGET"

    @property
    def waits(self) -> bool:
        """Nothing is against it but that its turn has not come."""
        return self in (Reason.NEXT_ROUND, Reason.LATER_ROUND)


class Candidate(NamedTuple):
    """A source topic that the link does not mirror, and why. `detail`: the reason in words, with what decided it."""

    source_topic: str
    mirror_topic: str
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A create that was refused: how often in a row, the last error, and when it is due again (monotonic seconds)."""

    count: int
    error: str
    again_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What one round is decided on.

    `source`: its topics, by name. `mirrored`: every mirror topic's link, by mirror topic. `mirrors_there`: the mirror
    topics on the source; None when that cannot be known. `on_target`: topics of the target. `due`: since when each
    topic waits, and `refused`: see `Memory`; topics of which nothing is known wait since now. Times: monotonic seconds.
    """

    link: str
    config: LinkConfig
    source: Sequence[ListedTopic]
    mirrored: Mapping[str, str]
    mirrors_there: AbstractSet[str] | None = frozenset()
    on_target: AbstractSet[str] = frozenset()
    due: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    now: float = 0.0


class Round(NamedTuple):
    """What is to be done: `create` in this order. `candidates`: all that the link does not mirror, by name."""

    create: tuple[str, ...]
    candidates: tuple[Candidate, ...]


def cadence_s(client: Mapping[str, str]) -> float:
    """Seconds from one round of a link to the next, from its client properties."""
    text = client.get(CADENCE, "").strip()
    return max(_SHORTEST_S, int(text) / 1000) if text.isdigit() else _DEFAULT_CADENCE_S


def asked_for(scene: Scene) -> list[str]:
    """The source topics that only the target can keep from being created: what it is to be asked about."""
    return [topic.name for topic in scene.source if not _is_mirrored(topic, scene) and _why_not(topic, scene) is None]


def plan_round(scene: Scene) -> Round:
    """Every source topic that the link does not mirror, with its reason, and those that are created now."""
    found: dict[str, Candidate] = {}
    ready: list[str] = []
    for topic in scene.source:
        if _is_mirrored(topic, scene):
            continue
        name, mirror = topic.name, scene.config.mirror_topic(topic.name)
        why = _why_not(topic, scene) or _taken(mirror, scene) or _off(scene) or _refused(name, scene)
        if why is None:
            ready.append(name)
        else:
            found[name] = Candidate(name, mirror, *why)
    ready.sort(key=lambda name: (scene.due.get(name, scene.now), name))
    limit = scene.config.auto_create_limit
    for place, name in enumerate(ready):
        found[name] = Candidate(name, scene.config.mirror_topic(name), *_turn(place, limit))
    by_name = tuple(found[topic.name] for topic in scene.source if topic.name in found)
    return Round(tuple(ready[:limit]), by_name)


def why_created_again(config: LinkConfig, source_topic: str) -> str:
    """Why it is futile to delete a mirror topic whose source topic is still there; '' when it is not.

    The message has the three ways out.
    """
    if not config.auto_create or is_internal(source_topic) or _filtered(source_topic, config) is not None:
        return ""
    return (
        f"it would be created again: the link creates a mirror topic for '{source_topic}' by itself; exclude the name "
        f"from {AUTO_CREATE_FILTERS}, set {AUTO_CREATE}=false, or delete the source topic first"
    )


class Memory:
    """What the rounds of one link have seen. It holds no more names than the source has topics."""

    def __init__(self) -> None:
        self.due: dict[str, float] = {}
        self.refused: dict[str, Refusal] = {}

    def saw(self, waiting: Iterable[str], there: Collection[str], now: float) -> None:
        """The source has the topics `there`; `waiting` ones lack nothing but their turn."""
        self.due = {name: self.due.get(name, now) for name in waiting}
        self.refused = {name: refusal for name, refusal in self.refused.items() if name in there}

    def was_refused(self, name: str, error: str, now: float, cadence: float) -> None:
        """Asked for again after one round, then two, four, eight and so on, an hour at the most."""
        count = self.refused[name].count + 1 if name in self.refused else 1
        pause_s = pause_after(count, cadence)
        self.refused[name] = Refusal(count, error, now + pause_s)
        self.due[name] = now + pause_s

    def was_created(self, name: str) -> None:
        """It is mirrored, by whomever."""
        self.due.pop(name, None)
        self.refused.pop(name, None)


_Why = tuple[Reason, str] | None


def _is_mirrored(topic: ListedTopic, scene: Scene) -> bool:
    return scene.mirrored.get(scene.config.mirror_topic(topic.name)) == scene.link


def _why_not(topic: ListedTopic, scene: Scene) -> _Why:
    """What the source, the filters and the records say against it, without the target."""
    name, config = topic.name, scene.config
    if topic.internal or is_internal(name):
        return Reason.INTERNAL, "it belongs to a cluster or to one of its components"
    if problem := bad_name(config.mirror_topic(name)):
        return Reason.BAD_NAME, f"its name with the prefix: {problem}"
    if config.auto_create and (why := _filtered(name, config)) is not None:
        return why
    if topic.readable is False:
        return Reason.NOT_READABLE, "the link's principal may not read it on the source"
    if config.auto_create and (why := _chained(name, scene)) is not None:
        return why
    other = scene.mirrored.get(config.mirror_topic(name))
    if other is not None:
        return Reason.NAME_IS_MIRRORED, f"'{config.mirror_topic(name)}' is a mirror topic of link '{other}'"
    return None


def _filtered(name: str, config: LinkConfig) -> _Why:
    filters = config.auto_create_filters
    decisive = filters.decisive(name)
    if decisive is None:
        return Reason.NOT_INCLUDED, f"no filter of {AUTO_CREATE_FILTERS} includes it"
    if decisive.exclude:
        return Reason.EXCLUDED, f"excluded by the filter {decisive}"
    if name.startswith(_NOT_BY_DEFAULT) and not filters.names(name):
        return (
            Reason.EXCLUDED_BY_DEFAULT,
            "the topics of schema registries and audit logs are created only when a LITERAL filter names them",
        )
    return None


def _chained(name: str, scene: Scene) -> _Why:
    """With a prefix, mirror topics of the source are left out: each round trip would make another name."""
    prefix, there = scene.config.prefix, scene.mirrors_there
    if not prefix:
        return None
    if there is None:
        if prefix not in name:
            return None
        unknown = f"its name has the link's prefix '{prefix}' in it, and whether it is a mirror topic on the source"
        return (
            Reason.MIRROR_TOPIC_ON_SOURCE,
            f"{unknown} is not known: the link cannot read __lockgate_state; {_BY_HAND}",
        )
    if name in there:
        return Reason.MIRROR_TOPIC_ON_SOURCE, f"it is a mirror topic on the source; {_BY_HAND}"
    return None


def _taken(mirror_topic: str, scene: Scene) -> _Why:
    if mirror_topic not in scene.on_target:
        return None
    return Reason.EXISTS_ON_TARGET, f"the target has a topic '{mirror_topic}' that is no mirror topic"


def _off(scene: Scene) -> _Why:
    if scene.config.auto_create:
        return None
    return Reason.AUTO_CREATE_OFF, f"{AUTO_CREATE} is false; create it with `lockgate mirror create`"


def _refused(name: str, scene: Scene) -> _Why:
    refusal = scene.refused.get(name)
    if refusal is None or refusal.again_at <= scene.now:
        return None
    times = "once" if refusal.count == 1 else f"{refusal.count} times"
    in_s = round(refusal.again_at - scene.now)
    return Reason.REFUSED, f"refused {times}, and asked for again in {in_s} s: {refusal.error}"


def _turn(place: int, limit: int) -> tuple[Reason, str]:
    if place < limit:
        return Reason.NEXT_ROUND, "it is created in the next round"
    return Reason.LATER_ROUND, f"{place} topics come before it; a round creates {limit} ({AUTO_CREATE_LIMIT})"
