"""What names alone tell: topics and transactional ids of Kafka Streams, topics and groups of Kafka Connect.

Streams names all that it makes after its `application.id`, which is its group too: changelogs and repartition topics
`APP-...-changelog` and `APP-...-repartition` (documented under *internal topics*), the transactional ids of
exactly_once_v2 `APP-PROCESS_ID-THREAD` with a UUID in the middle, and those of the older exactly_once `APP-0_1`.

Connect lets its operator name everything. Its worker group is known by its protocol type, the group of a sink
connector is `connect-NAME` unless a connector says otherwise, and the three topics of a cluster have the names of the
examples, or the group's name in front, or they are not known.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_SUFFIXES: Final = ("-changelog", "-repartition")
_THREAD_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")
_TASK_ID: Final = re.compile(r"\d+_\d+")
_CONNECT_ROLES: Final = ("configs", "config", "offsets", "offset", "status")
SINK_PREFIX: Final = "connect-"
"""Of the group of a sink connector (`connect-NAME`)."""


def is_streams_internal(topic: str) -> bool:
    """Whether it is named as Streams names its own topics."""
    return topic.endswith(_SUFFIXES)


def streams_application(topic: str, applications: Collection[str]) -> str:
    """The application whose internal topic it is, '' for none of these. Of names that begin alike, the longest."""
    if not is_streams_internal(topic):
        return ""
    return max((app for app in applications if topic.startswith(f"{app}-")), key=len, default="")


def streams_transactional_id(name: str, applications: Collection[str]) -> str:
    """The application whose transactional id it is, '' for none of these."""
    found = ""
    for app in applications:
        rest = name.removeprefix(f"{app}-")
        if rest != name and (_THREAD_ID.fullmatch(rest) or _TASK_ID.fullmatch(rest)) and len(app) > len(found):
            found = app
    return found


def connect_topics(group: str, topics: Collection[str], *, alone: bool) -> list[str]:
    """Topics that are named as a Connect cluster's own. `alone`: the source has no other cluster."""
    named = {f"{group}{sign}{role}" for sign in "-._" for role in _CONNECT_ROLES}
    if alone:
        named |= {f"connect{sign}{role}" for sign in "-._" for role in _CONNECT_ROLES}
    return sorted(named & set(topics))
