"""The audit trail: one JSON line for every change that somebody asked for, by the gateway that carried it out.

Each line says who asked, how that was proved and from where, through which gateway, what was asked, what the objects
that it names were before and after, and how it ended. Secrets are not in it: of a link's properties only those show
that are known to be none. Lines go to the logger `lockgate.audit`; where that writes is set up in `telemetry/logs.py`.

A request that was refused a login leaves a line where it came in. Strangers must not fill the disk by that:
`_REFUSED_PER_S` lines a second, and how many were left out.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl

from gateway.api.access.roles import Caller, MatchedRoute
from gateway.kafka.connection.properties import PROPERTIES
from gateway.operations.secrets.rules.references import REDACTED, shown
from gateway.state.link_config import OPTION_NAMES
from gateway.state.records import GroupRecord, LinkRecord, MirrorRecord
from gateway.state.schemas.registry_properties import REGISTRY_PROPERTIES
from gateway.state.views import StateViews

LOGGER: Final = "lockgate.audit"

_READS: Final = ("GET", "HEAD", "OPTIONS")
_REFUSED_PER_S: Final = 10
_NAMES: Final = 100  # objects of one request that are shown
_BODY: Final = 8_192  # characters of a request that are shown
_DEEPEST: Final = 8  # no body that is any good has lists in lists for longer
_REPORTS: Final = 1_000  # jobs whose last report is remembered
_log = logging.getLogger(LOGGER)


class AuditTrail:
    """Args.

    gateway: this one's name.
    views: the state, for what objects were before and after.
    wall_ms: milliseconds since the epoch.
    """

    def __init__(self, gateway: Callable[[], str], views: StateViews | None, wall_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._views = views
        self._wall_ms = wall_ms
        self._second = 0
        self._refused = 0
        self._left_out = 0
        self._reports: OrderedDict[str, tuple[str, object, int]] = OrderedDict()

    def wants(self, method: str) -> bool:
        """Whether a request of this method leaves a line."""
        return method not in _READS and _log.isEnabledFor(logging.INFO)

    def state_of(self, asked: MatchedRoute | None, body: Any) -> dict[str, Any]:
        """What the objects that a request names are now; without those that do not exist."""
        if asked is None or self._views is None:
            return {}
        return dict(_objects(self._views, asked.names, body if isinstance(body, dict) else {}))

    def carried_out(
        self,
        caller: Caller,
        through: str,
        asked: MatchedRoute | None,
        request: Mapping[str, Any],
        before: Mapping[str, Any],
        status: int,
        reason: str,
    ) -> None:
        """A change was done, or refused by the operation itself.

        Args:
            through: the gateway that was asked.
            request: `method`, `path`, `query` and `body` (decoded JSON).
            reason: the answer's message when it is no success.
        """
        body = request.get("body")
        if self._repeats(str(request["path"]), caller.name, body, status):
            return
        line = {
            **self._head(caller, caller.address, status, reason),
            "through": through,
            "method": request["method"],
            "path": request["path"],
            "query": request.get("query", ""),
            "request": hide_secrets(body, "" if asked is None else asked.config),
            "before": before,
            "after": self.state_of(asked, body),
        }
        _log.info(json.dumps(line, default=str))

    def refused(self, caller: Caller, address: str, method: str, path: str, status: int, reason: str) -> None:
        """A change was refused a login."""
        if not self.wants(method):
            return
        second = self._wall_ms() // 1000
        if second != self._second:
            self._second, self._refused = second, 0
        self._refused += 1
        if self._refused > _REFUSED_PER_S:
            self._left_out += 1
            return
        line = {**self._head(caller, address, status, reason), "method": method, "path": path[:1_000]}
        if self._left_out:
            line["left_out"], self._left_out = self._left_out, 0
        _log.info(json.dumps(line))

    def _head(self, caller: Caller, address: str, status: int, reason: str) -> dict[str, Any]:
        at = datetime.fromtimestamp(self._wall_ms() / 1000, UTC)
        return {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "principal": caller.name,
            "role": str(caller.role),
            "proof": caller.proof,
            "from": address,
            "gateway": self._gateway(),
            "status": status,
            "result": "done" if status < 400 else "refused" if status < 500 else "failed",
            "reason": reason,
        }

    def _repeats(self, path: str, name: str, body: Any, status: int) -> bool:
        """Whether a job says again what it said: it reports every few seconds, and changes nothing by that."""
        if "/catch-up/" not in path or not isinstance(body, dict) or status >= 400:
            return False
        said = name, body.get("state"), status
        if self._reports.get(path) == said:
            return True
        self._reports[path] = said
        if len(self._reports) > _REPORTS:
            self._reports.popitem(last=False)
        return False


def named_by(asked: MatchedRoute | None, query: str) -> MatchedRoute | None:
    """Confluent's create names its link behind the question mark."""
    name = dict(parse_qsl(query)).get("link_name", "")
    return asked if asked is None or not name else asked._replace(names={"link": name, **asked.names})


def hide_secrets(body: Any, config: str = "") -> Any:
    """A request's body as it may be written down. `config`: whose value it is, as the table of routes says."""
    if config and body is not None:
        given = body if isinstance(body, dict) else {"": body}
        shown: Any = {key: _property(config, value) for key, value in given.items()}
    else:
        shown = _hidden(body)
    text = json.dumps(shown, default=str)
    return shown if len(text) <= _BODY else f"{text[:_BODY]}… ({len(text)} characters)"


def _hidden(value: Any, deep: int = 0) -> Any:
    if not isinstance(value, list | dict):
        return value
    if deep == _DEEPEST:
        return "…"
    if isinstance(value, list):
        return [_hidden(each, deep + 1) for each in value]
    if {"name", "value"} <= value.keys():
        value = {**value, "value": _property(str(value["name"]), value["value"])}
    return {key: _named(str(key), _hidden(inner, deep + 1)) for key, inner in value.items()}


def _property(name: str, value: Any) -> Any:
    """Of a link: what is misspelt may be a password, too."""
    if name in OPTION_NAMES:
        return value
    return shown({name: value})[name] if name in PROPERTIES or name in REGISTRY_PROPERTIES else REDACTED


def _named(key: str, value: Any) -> Any:
    return REDACTED if any(word in key.lower() for word in ("password", "secret", "token", "jaas")) else value


def _objects(views: StateViews, names: Mapping[str, str], body: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    link = names.get("link") or str(body.get("link_name", ""))
    topics = {str(each) for each in (names.get("topic"), *_texts(body)) if each}
    group = names.get("group") or body.get("group")
    if not topics and not group and link in views.links and "job" not in names:
        yield f"link {link}", _link(views.links[link])
    if topics:
        for key, mirror in views.mirrors.items():
            if key[0] == link and (mirror.mirror_topic in topics or mirror.source_topic in topics):
                yield f"mirror topic {link}/{mirror.mirror_topic}", _mirror(mirror)
    if group:
        for key, record in views.groups.items():
            if key[0] == link and group in (record.group, record.source_group):
                yield f"mirror group {link}/{record.group}", _group(record)
    migration = views.migrations.get(names.get("migration", ""))
    if migration is not None:
        yield f"migration {migration.name}", {"state": migration.state.value, "applied_by": migration.applied_by}
    name = names.get("name", "")
    if name in views.gateways:
        yield f"gateway {name}", {"role": views.gateways[name].role, "peer": views.gateways[name].peer}


def _texts(body: Mapping[str, Any]) -> Iterable[Any]:
    for key in ("source_topic_name", "mirror_topic_name"):
        yield body.get(key)
    several = body.get("mirror_topic_names")
    yield from several[:_NAMES] if isinstance(several, list) else ()


def _link(link: LinkRecord) -> dict[str, Any]:
    client = {**shown(link.client), **shown(link.registries)}
    return {"client": client, "configs": dict(link.configs), "cluster_id": link.source_cluster_id}


def _mirror(mirror: MirrorRecord) -> dict[str, Any]:
    return {
        "state": mirror.state.value,
        "direction": mirror.failback.direction.value,
        "mode": mirror.mode.value,
        "failback_epoch": mirror.failback.epoch,
        "error": mirror.error.value,
    }


def _group(group: GroupRecord) -> dict[str, Any]:
    return {"state": group.state.value, "demoted": group.demoted, "error": group.error_message}
