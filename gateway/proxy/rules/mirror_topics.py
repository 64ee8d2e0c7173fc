"""What clients may not do to a mirror topic while its mirror appends to it.

It cannot be deleted, lose records or get partitions, and configs that the mirror relies on, or copies from the source,
stay what they are: with compaction or a retention of its own the copy would lose what the source has. AlterConfigs sets
every config that it does not name back, so all of it is refused. Reassignments pass: they change nothing of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from gateway.kafka.rules.topic_configs import ALWAYS_SYNCED, DEFAULT_SYNCED, LIFTED
from gateway.proxy.rules.refusals import Refusal, class_of, parts_of, taken
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES

CONFIGS = frozenset({*ALWAYS_SYNCED, *DEFAULT_SYNCED, *LIFTED})
"""Configs of a mirror topic that are not its own."""

DELETE, ALTER, ALTER_CONFIGS = 1 << 6, 1 << 7, 1 << 11
OPERATIONS: Mapping[int, int] = {
    ApiKey.DELETE_TOPICS: DELETE,
    ApiKey.DELETE_RECORDS: DELETE,
    ApiKey.CREATE_PARTITIONS: ALTER,
    ApiKey.ALTER_CONFIGS: ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ALTER_CONFIGS,
}
"""By API: the right on the topic that a broker asks for, as a bit of its authorised operations (KIP-430)."""

_DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_POLICY = int(ErrorCode.POLICY_VIOLATION)
_TOPIC_TYPE = 2
NameOf = Callable[[Any], str]
"""The topic of a request's entry; '' when it names none."""


def entries_of(key: int, request: Any) -> list[Any]:
    """A request's list of entries, to be changed."""
    if key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        found: list[Any] = request.resources
    elif key == ApiKey.DELETE_TOPICS and request.version < 6:
        found = request.topic_names
    else:
        found = request.topics
    return found


def name_of(key: int, entry: Any, names: Mapping[bytes, str]) -> str:
    """The topic that an entry of a request would change; '' when it changes nothing that a mirror relies on.

    Args:
        names: of mirror topics, by id.
    """
    if isinstance(entry, str):
        return entry
    if key == ApiKey.DELETE_TOPICS:
        return entry.name or names.get(entry.topic_id.bytes if entry.topic_id else b"", "")
    if key not in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        return str(entry.name)
    if entry.resource_type != _TOPIC_TYPE:
        return ""
    touched = key == ApiKey.ALTER_CONFIGS or any(config.name in CONFIGS for config in entry.configs)
    return str(entry.resource_name) if touched else ""


def refuse(key: int, request: Any, name: NameOf, why: Mapping[str, str], allowed: Collection[str]) -> Refusal:
    """Take the entries of mirror topics out of a request.

    Args:
        name: of an entry.
        why: mirror topic -> what to tell who has the right to change it.
        allowed: those that the client has the right to change; it is told nothing of others.
    """
    entries = entries_of(key, request)
    found, places = taken(entries, lambda entry: name(entry) in why)
    response, part = RESPONSES[key], _PARTS[ApiKey(key)]
    kind = class_of(response, part)

    def answer(entry: Any) -> Any:
        topic = name(entry)
        code, message = (_POLICY, why[topic]) if topic in allowed else (_DENIED, None)
        if key == ApiKey.DELETE_RECORDS:
            return parts_of(code)(kind, entry)
        if key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
            return kind(resource_type=_TOPIC_TYPE, resource_name=topic, error_code=code, error_message=message)
        if key == ApiKey.DELETE_TOPICS and not isinstance(entry, str):
            shown = topic if entry.name or topic in allowed else None
            return kind(name=shown, topic_id=entry.topic_id, error_code=code, error_message=message)
        return kind(name=topic, error_code=code, error_message=message)

    return Refusal(response(**{part: [answer(entry) for entry in found]}), part, places, bool(entries))


_PARTS: Mapping[ApiKey, str] = {
    ApiKey.DELETE_TOPICS: "responses",
    ApiKey.DELETE_RECORDS: "topics",
    ApiKey.CREATE_PARTITIONS: "results",
    ApiKey.ALTER_CONFIGS: "responses",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "responses",
}
