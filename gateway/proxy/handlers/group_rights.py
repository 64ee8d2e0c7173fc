"""What a client may do with groups: asked of the target, on the client's own connection.

DescribeGroups v3 with authorised operations (KIP-430). It needs Describe on the group, which whoever may read it has.
A target without an authoriser answers with every operation. Answers are kept per connection for
`Limits.rights_kept_s`, errors of the group's coordinator (it is another broker, it loads) are not kept at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntFlag
from typing import TYPE_CHECKING

from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode
from protocol.header import response_body_offset
from protocol.messages import DescribeGroupsRequest

if TYPE_CHECKING:
    from gateway.proxy.session.session import Session

_KEY, _VERSION = int(ApiKey.DESCRIBE_GROUPS), 3
_KEPT = 4_096


class Right(IntFlag):
    """Operations on a group, as in `authorized_operations`."""

    NONE = 0
    READ = 1 << 3
    DELETE = 1 << 6
    DESCRIBE = 1 << 8


_ALL = Right.READ | Right.DELETE | Right.DESCRIBE


def group_rights(session: Session, groups: Sequence[str], then: Callable[[Mapping[str, Right | int]], None]) -> None:
    """Call `then` with what the client may do with each group, or the error code of its coordinator.

    At once if it is known; else the session is stalled while the target is asked.
    """
    known, asked_since = session.group_rights, session.context.clock() - session.context.limits.rights_kept_s
    missing = [group for group in dict.fromkeys(groups) if group not in known or known[group][0] < asked_since]
    found: dict[str, Right | int] = {group: Right(known[group][1]) for group in groups if group in known}
    if not missing:
        then(found)
        return
    session.stall()

    def answered(frame: memoryview) -> None:
        at = response_body_offset(_KEY, _VERSION, frame)
        found.update(dict.fromkeys(missing, int(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
        if len(known) + len(missing) > _KEPT:
            known.clear()
        for group in decode_response(_KEY, _VERSION, frame[at:]).groups:
            found[group.group_id] = group.error_code or Right(group.authorized_operations & _ALL)
            if not group.error_code:
                known[group.group_id] = (session.context.clock(), int(found[group.group_id]))
        session.again(lambda: then(found))

    request = DescribeGroupsRequest(groups=missing, include_authorized_operations=True)
    session.ask(_KEY, _VERSION, encode_body(request, _VERSION), answered)
