"""A link, topic, group, migration or gateway that is not there: which one may have been meant.

Looked up only after a refusal, with the rights of whoever asks: the gateway suggests nothing to anybody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import unquote

from gateway.close_names import did_you_mean

Names = Callable[[str, str], Sequence[str]]
"""The names that a list of the API has: its path, and the field."""

_PLACES: Final = (
    (re.compile(r"/v3/links/([^/:?]+)/mirrors/(?P<name>[^/:?]+)"), "/v3/links/{}/mirrors", "mirror_topic_name"),
    (re.compile(r"/v3/links/([^/:?]+)/groups/(?P<name>[^/:?]+)"), "/v3/links/{}/groups", "group"),
    (re.compile(r"/links/(?P<name>[^/:?]+)"), "/v3/links", "link_name"),
    (re.compile(r"/v3/migrations/(?P<name>[^/:?]+)"), "/v3/migrations", "migration"),
    (re.compile(r"/v3/gateways/(?P<name>[^/:?]+)"), "/v3/gateways", "name"),
)
"""Where a path has a name, the innermost first."""
_MIRRORS: Final = re.compile(r"/v3/links/([^/:?]+)/mirrors(\?|$)")


def hint(names: Names, path: str, body: Any, message: str) -> str:
    """To be said behind a refusal, '' where no name is near."""
    if (found := _MIRRORS.match(path)) and isinstance(body, dict) and "mirror_topic_name" in body:
        wanted = str(body.get("source_topic_name") or body["mirror_topic_name"])
        if f"'{wanted}'" in message:
            return did_you_mean(wanted, names(f"/v3/links/{found[1]}/candidates", "source_topic_name"))
    for pattern, listed, field in _PLACES:
        found = pattern.search(path)
        if found is not None and f"'{(name := unquote(found['name']))}'" in message:
            return did_you_mean(name, names(listed.format(found[1]), field))
    return ""
