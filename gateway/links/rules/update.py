"""What a change of its configs makes of a link, or why it cannot be.

A link is what was begun with it: names of topics and groups, ways of counting offsets, ids that stand in logs. What
these hang on is fixed. Everything else may change while it runs.

A stored secret is used only for what it was given for. Who may change a link, and does not know its password, could
have it sent to a server of their own otherwise: so whoever changes where or how the link logs in gives its secrets
again, unless they are references, which tell nothing that a new link would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.errors import BadRequest, Conflict
from gateway.operations.secrets.rules.references import SECRETS, is_encrypted, is_plain
from gateway.schemas.rules.model import IMPORT
from gateway.state import link_config
from gateway.state.ack import Ack
from gateway.state.records import GroupRecord, LinkRecord, MirrorRecord, MirrorState
from gateway.state.schemas.registry_properties import REGISTRY_PROPERTIES, RegistrySide, of_side
from gateway.state.schemas.schema_options import SchemaIds

PAUSED: Final = "cluster.link.paused"

FIXED: Final[Mapping[str, str]] = {
    "link.prefix": "its mirror topics are named by it",
    "consumer.group.prefix.enable": "its groups are named by it, and clients commit under these names",
    "mirror.offsets": "its mirrors were begun with it, and their offsets count by it",
    "link.identity": "what clients have in flight was sent under the present identity",
}
"""What cannot be changed, and why: the remedy is another link."""

_ONE_BY_ONE: Final = (
    MirrorState.PENDING_STOPPED,
    MirrorState.PENDING_SYNCHRONIZE,
    MirrorState.PENDING_MIRROR,
    MirrorState.PENDING_SETUP_FOR_RESTORE,
    MirrorState.PENDING_RESTORE_MIRROR,
)


class ConfigOperation(StrEnum):
    """As in Confluent's `configs:alter`. DELETE: back to the default."""

    SET = "SET"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change: of a client property for the source, or of a link option."""

    name: str
    value: str = ""
    operation: ConfigOperation = ConfigOperation.SET


@dataclass(frozen=True, slots=True)
class Altered:
    """What the link would be: `client` and `registries` as they were given, with stored secrets as they are stored."""

    client: Mapping[str, str]
    registries: Mapping[str, str]
    configs: Mapping[str, str]
    client_changed: bool
    given: frozenset[str]

    @property
    def config(self) -> link_config.LinkConfig:
        """The options, parsed. Raises LinkConfigError."""
        return link_config.parse(self.configs)


def altered(link: LinkRecord, client: Mapping[str, str], changes: Sequence[ConfigChange]) -> Altered:
    """The link with these changes.

    Args:
        client: the link's client properties, as single ones.
        changes: likewise: without `sasl.jaas.config`.

    Raises:
        BadRequest: a name that occurs twice, is fixed or unknown, a bad value, or a secret that must be given again.
    """
    _require_once(changes)
    configs, new, registries = link_config.canonical(link.configs), dict(client), dict(link.registries)
    for change in changes:
        first = link_config.first_name(change.name)
        of_source = registries if change.name in REGISTRY_PROPERTIES else new
        into, name = (configs, first) if first in link_config.OPTION_NAMES else (of_source, change.name)
        if change.operation is ConfigOperation.DELETE:
            into.pop(name, None)
        else:
            into[name] = change.value
    configs = link_config.as_stored(configs)
    try:
        parsed = link_config.parse(configs)
    except link_config.LinkConfigError as exc:
        raise BadRequest(str(exc)) from exc
    _require_fixed(link, parsed)
    given = frozenset(change.name for change in changes if change.operation is ConfigOperation.SET)
    _require_secrets_again(client, new, given)
    for side in RegistrySide:
        _require_secrets_again(of_side(link.registries, side), of_side(registries, side), given)
    return Altered(new, registries, configs, new != dict(client), given)


def _require_once(changes: Iterable[ConfigChange]) -> None:
    seen: set[str] = set()
    for change in changes:
        name = link_config.first_name(change.name)
        if name in seen:
            raise BadRequest(f"configs: {change.name} occurs twice")
        seen.add(name)


def _require_fixed(link: LinkRecord, new: link_config.LinkConfig) -> None:
    old = link_config.parse(link.configs)
    for name, why in FIXED.items():
        attribute = link_config.attribute_of(name)
        if getattr(old, attribute) != getattr(new, attribute):
            raise BadRequest(f"{name}: cannot be changed, {why}; create another link with it")


def _require_secrets_again(old: Mapping[str, str], new: Mapping[str, str], given: frozenset[str]) -> None:
    where = sorted(
        name for name in {*old, *new} if name not in SECRETS and old.get(name) != new.get(name) and _leads(name)
    )
    for name in SECRETS if where else ():
        if name in new and name not in given and (is_plain(new[name]) or is_encrypted(new[name])):
            raise BadRequest(
                f"{name}: give it again, since {', '.join(where)} changes: a stored secret is only used for what it "
                "was given for"
            )


def _leads(name: str) -> bool:
    """Every property counts but those that are known to say nothing of where a secret goes."""
    return not name.endswith(".ms") and name != "client.id"


def why_not_paused(mirrors: Iterable[MirrorRecord]) -> str:
    """Why a link with these mirrors cannot be paused now; '' when it can."""
    for mirror in mirrors:
        if mirror.state is MirrorState.PENDING_STOPPED:
            return f"mirror topic '{mirror.mirror_topic}' is being promoted, which takes its mirror; wait for its end"
        if mirror.state in _ONE_BY_ONE or not mirror.created:
            return f"mirror topic '{mirror.mirror_topic}' is on its way ({mirror.state}); wait until it is ACTIVE"
    return ""


def why_ids_stay(mirrors: Iterable[MirrorRecord], config: link_config.LinkConfig) -> str:
    """Why a link with these mirrors cannot go by these options: one writes schema ids anew; '' when it can."""
    writing = next((one for one in mirrors if one.translates_ids and one.state is not MirrorState.STOPPED), None)
    if writing is None:
        return ""
    what = f"mirror topic '{writing.mirror_topic}' writes schema ids anew through the id map"
    if not config.schema_sync or config.schema_ids is not SchemaIds.TRANSLATE:
        return (
            f"{link_config.SCHEMA_SYNC}, {link_config.SCHEMA_IDS}: {what}, which schema sync with translated ids makes"
        )
    if config.ack is Ack.BOTH:
        return f"ack: {what}; with ack=both clients' writes would wait for schemas"
    return ""


def require_running(link: LinkRecord, topics: Sequence[str]) -> None:
    """Raises Conflict when the link is paused: what takes a running mirror waits for nothing then."""
    if topics and link_config.parse(link.configs).paused:
        raise Conflict(
            f"link '{link.name}' is paused, and mirror topic '{topics[0]}' with it; resume the link first: "
            f"lockgate link resume {link.name}"
        )


def why_schemas_stay(link: str, imported: Sequence[str]) -> str:
    """Why a link is not deleted that keeps these subjects in mode IMPORT; '' when there are none."""
    if not imported:
        return ""
    return (
        f"{len(imported)} subject(s) of the target's registry are in mode IMPORT, such as '{imported[0]}', where no "
        f"client can register; hand them over first: lockgate link schemas promote {link}; or use force"
    )


def left_behind(
    mirrors: Sequence[MirrorRecord], groups: Sequence[GroupRecord], imported: Sequence[str] = ()
) -> Sequence[Remains]:
    """What is there, and who writes or reads where, once a link with these is deleted; topics stay as they are.

    `imported`: subjects that the link keeps in mode IMPORT."""
    topics = [Remains("topic", mirror.mirror_topic, mirror.state.value, _topic_then(mirror)) for mirror in mirrors]
    subjects = [Remains("subject", name, IMPORT, _SUBJECT_THEN) for name in imported]
    of_groups = (Remains("group", group.group, group.state.value, _group_then(group)) for group in groups)
    return [*topics, *of_groups, *subjects]


@dataclass(frozen=True, slots=True)
class Remains:
    """`kind`: topic, group or subject. `then`: one sentence."""

    kind: str
    name: str
    state: str
    then: str


_SUBJECT_THEN: Final = (
    "stays in mode IMPORT on the target's registry: no client can register there until somebody takes the mode away"
)


def _topic_then(mirror: MirrorRecord) -> str:
    if mirror.state is MirrorState.STOPPED:
        return f"stays on the target, where it is written; its source topic '{mirror.source_topic}' stays as it is"
    if mirror.is_reverse:
        return (
            f"stays on the target, where it is written; '{mirror.source_topic}' on the source is not mirrored to any "
            "more"
        )
    return (
        "stays on the target and is not mirrored any more; clients of the gateway write to it there from then on, "
        f"while '{mirror.source_topic}' on the source keeps what the mirror has not copied"
    )


def _group_then(group: GroupRecord) -> str:
    if group.state.value == "PROMOTED":
        return "reads on the target, as now"
    return "is gated no more: its members read on the target, from wherever the target has its offsets"
