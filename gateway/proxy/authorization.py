"""Who may write: asked of the target, on the client's own connection, before a write leaves under the link's name.

Metadata v8 with topic authorised operations (KIP-430): bit 4 is WRITE. A target without an authoriser answers
with every operation. Answers are kept per connection for `CACHE_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body
from protocol.header import response_body_offset
from protocol.messages import MetadataRequest

if TYPE_CHECKING:
    from gateway.proxy.session import Session

CACHE_S = 30.0
_VERSION = 8
_WRITE = 1 << 4
_METADATA = int(ApiKey.METADATA)


def may_write(session: Session, topics: Iterable[str], then: Callable[[], None]) -> frozenset[str] | None:
    """Of `topics`, those this client may write; or None when the target must be asked first.

    In that case the session is stalled and `then` is called with the answers at hand.
    """
    now, rights = session.context.clock(), session.context.rights
    if session.stand_in is not None:
        return frozenset(topic for topic in topics if rights.get((session.principal, topic), False))
    known = session.authorized
    missing = [topic for topic in topics if topic not in known or known[topic][0] + CACHE_S < now]
    if not missing:
        return frozenset(topic for topic in topics if known[topic][1])
    session.stall()

    def answered(frame: memoryview) -> None:
        body = frame[response_body_offset(_METADATA, _VERSION, frame) :]
        at = session.context.clock()
        for topic in decode_response(_METADATA, _VERSION, body).topics:
            known[topic.name] = (at, not topic.error_code and bool(topic.topic_authorized_operations & _WRITE))
        for topic in missing:
            known.setdefault(topic, (at, False))
            rights[session.principal, topic] = known[topic][1]
        then()

    session.ask(_METADATA, _VERSION, encode_body(_request(missing), _VERSION), answered)
    return None


def _request(topics: list[str]) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
