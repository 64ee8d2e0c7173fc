"""Asks the target, on the client's own connection, whether the client may write or read, before the gateway does
anything under the link's name.

Metadata v8 with topic authorised operations (KIP-430): bit 3 is READ, bit 4 is WRITE. A target without an authoriser
answers with every operation. Answers are kept per connection for `Limits.rights_kept_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body
from protocol.header import response_body_offset
from protocol.messages import MetadataRequest

if TYPE_CHECKING:
    from gateway.proxy.session.session import Session

Question = str | tuple[str] | tuple[str, str | None] | tuple[str, int]
"""A right in question: topic: WRITE; (topic,): READ; (topic, right): that right on the topic; (transactional id,
group): the use of both."""

MayAsk = Callable[["Session", Iterable[str], Callable[[], None]], "frozenset[str] | None"]

_VERSION = 8
_READ, _WRITE = 1 << 3, 1 << 4
DESCRIBE: Final = 1 << 8
_OTHERS = (1 << 6, 1 << 7, 1 << 11, DESCRIBE)  # DELETE, ALTER, ALTER_CONFIGS before it
_KEPT = 4_096  # answers of one connection
_METADATA = int(ApiKey.METADATA)


def may_write(session: Session, topics: Iterable[str], then: Callable[[], None]) -> frozenset[str] | None:
    """Those of `topics` that this client may write, or None when the target must be asked first.

    Then the session is stalled, and `then` is called once the answers are known.
    """
    now, rights = session.context.clock(), session.context.rights
    if session.target_down is not None:
        return frozenset(topic for topic in topics if rights.may_write(session.principal, topic))
    known = session.authorized
    asked_since = now - session.context.limits.rights_kept_s
    missing = [topic for topic in topics if topic not in known or known[topic][0] < asked_since]
    if not missing:
        return frozenset(topic for topic in topics if known[topic][1])
    _ask(session, missing, then)
    return None


def is_known_to_write(session: Session, topic: str) -> bool:
    """The target has recently said that this client may write the topic, so `may_write` would not ask."""
    known = session.authorized.get(topic)
    if known is None or session.target_down is not None:
        return False
    return known[1] and known[0] >= session.context.clock() - session.context.limits.rights_kept_s


def may_read(session: Session, topics: Iterable[str], then: Callable[[], None]) -> frozenset[str] | None:
    """Same as `may_write`, for READ. Not for a client that is served without its target."""
    known, asked_since = session.authorized, session.context.clock() - session.context.limits.rights_kept_s
    missing = [topic for topic in topics if (found := known.get((topic,))) is None or found[0] < asked_since]
    if not missing:
        return frozenset(topic for topic in topics if known[topic,][1])
    _ask(session, missing, then)
    return None


def may_change(session: Session, topics: Iterable[str], right: int, then: Callable[[], None]) -> frozenset[str] | None:
    """Same as `may_write`, for a right to describe, delete or alter (`proxy/rules/mirror_topics.py`)."""
    known, asked_since = session.authorized, session.context.clock() - session.context.limits.rights_kept_s
    missing = [topic for topic in topics if (found := known.get((topic, right))) is None or found[0] < asked_since]
    if not missing:
        return frozenset(topic for topic in topics if known[topic, right][1])
    _ask(session, missing, then)
    return None


def remember(session: Session, rights: Mapping[Question, bool]) -> None:
    """Keep answers of the target; drops all earlier ones when there are too many."""
    known, now = session.authorized, session.context.clock()
    if len(known) + len(rights) > _KEPT:
        known.clear()
    known.update((question, (now, allowed)) for question, allowed in rights.items())


def _ask(session: Session, topics: list[str], then: Callable[[], None]) -> None:
    session.stall()
    rights = session.context.rights

    def answered(frame: memoryview) -> None:
        body = frame[response_body_offset(_METADATA, _VERSION, frame) :]
        found: dict[Question, bool] = {}
        for topic in topics:
            found[topic] = found[topic,] = False
            found.update(dict.fromkeys(((topic, right) for right in _OTHERS), False))
        for topic in decode_response(_METADATA, _VERSION, body).topics:
            operations = 0 if topic.error_code else topic.topic_authorized_operations
            found[topic.name], found[topic.name,] = bool(operations & _WRITE), bool(operations & _READ)
            found.update({(topic.name, right): bool(operations & right) for right in _OTHERS})
        remember(session, found)
        for topic in topics:
            rights.remember(session.principal, topic, found[topic], session.context.clock())
        then()

    session.ask(_METADATA, _VERSION, encode_body(_request(topics), _VERSION), answered)


def _request(topics: list[str]) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
