"""Who may do what: every route and the least role that it takes, in one table.

A route that is not in `ROUTES` does not exist for anybody: `required` knows no role for it, and the front of the server
answers 404. So a new route is reachable only once somebody has said who may use it.

* **viewer** reads: states, lags, metrics. Secrets are shown to nobody.
* **operator** carries a migration out: mirrors, groups, promotes, failbacks, failovers, jobs. What it does keeps the
  records of both clusters.
* **admin** names clusters and the secrets to reach them (links), gives users logins and quotas, deletes records
  (truncate-and-restore, recreate) and mirrors, and vouches for what no gateway can see (a lost gateway has stopped).

A role may do what the ones before it may.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from starlette.requests import HTTPConnection
from starlette.routing import compile_path


class Role(IntEnum):
    """In order: each may do what the ones before it may. ANYONE: without any proof of who asks."""

    ANYONE = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @classmethod
    def named(cls, name: str) -> Role:
        """From its name in lower case. Raises ValueError for another word."""
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValueError(f"{name!r} is not a role: viewer, operator or admin") from None

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the name under which the settings know it, its role, how it was proved (`token`, `certificate`,
    `socket`; '' of nobody) and its address."""

    name: str
    role: Role
    proof: str
    address: str = ""

    def to_wire(self) -> dict[str, str]:
        """For the gateway that leads."""
        return {"name": self.name, "role": str(self.role), "proof": self.proof, "address": self.address}

    @classmethod
    def from_wire(cls, said: Any) -> Caller:
        """What another gateway of the fleet has proved. Raises ValueError when it does not say who asks."""
        if not isinstance(said, Mapping) or not all(isinstance(said.get(key), str) for key in cls.__slots__):
            raise ValueError("the gateway that passes the request on does not say who asks: it is of an older version")
        return cls(said["name"], Role.named(said["role"]), said["proof"], said["address"])


NOBODY: Final = Caller("", Role.ANYONE, "")

CALLER: Final = "lockgate.caller"
"""Key of an ASGI scope: the `Caller`. Only the front of the server sets it; nothing a client sends ends up there."""


def caller_name(request: HTTPConnection) -> str:
    """The name of who asks, as the front of the server has proved it."""
    caller: Caller = request.scope.get(CALLER, NOBODY)
    return caller.name


class Route(NamedTuple):
    """A row. `path` as the application has it. `config`: which name in it is that of a link's config. `reads`: nothing
    is changed, whatever the method.

    The body of a request with a config in its path is the value of that config, and so it may be a secret: the audit
    trail goes by this. It has no line of what only reads.
    """

    method: str
    path: str
    role: Role
    config: str = ""
    reads: bool = False


_LINK: Final = "/v3/links/{link}"
_MIRROR: Final = _LINK + "/mirrors/{topic}"
_GROUP: Final = _LINK + "/groups/{group:path}"
_MIGRATION: Final = "/v3/migrations/{migration}"

_CONFLUENT: Final = "/kafka/v3/clusters/{cluster_id}/links"
_CONFLUENT_LINK: Final = _CONFLUENT + "/{link}"
_CONFLUENT_MIRRORS: Final = _CONFLUENT_LINK + "/mirrors"

# In the order of the application: of rows that fit, the first one counts there, too.
ROUTES: Final = (
    Route("GET", "/health", Role.ANYONE),
    Route("GET", "/ready", Role.ANYONE),
    Route("GET", "/metrics", Role.VIEWER),
    Route("GET", "/docs", Role.ANYONE),  # the page without what it shows
    Route("GET", "/docs/{file}", Role.ANYONE),
    Route("GET", "/console", Role.ANYONE),  # likewise
    Route("GET", "/console/caller", Role.ANYONE),  # its own role
    Route("GET", "/console/feed", Role.VIEWER),
    Route("GET", "/console/{file}", Role.ANYONE),
    Route("GET", "/openapi.json", Role.VIEWER),
    Route("GET", "/v3/status", Role.VIEWER),
    Route("GET", "/v3/links", Role.VIEWER),
    Route("POST", "/v3/links", Role.ADMIN),
    Route("GET", _LINK, Role.VIEWER),
    Route("DELETE", _LINK, Role.ADMIN),
    Route("GET", _LINK + "/configs", Role.VIEWER),
    Route("PUT", _LINK + "/configs:alter", Role.ADMIN),
    Route("GET", _LINK + "/configs/{config:path}", Role.VIEWER, config="config"),
    Route("PUT", _LINK + "/configs/{config:path}", Role.ADMIN, config="config"),
    Route("DELETE", _LINK + "/configs/{config:path}", Role.ADMIN, config="config"),
    Route("GET", _LINK + "/tasks", Role.VIEWER),
    Route("POST", _LINK + ":pause", Role.OPERATOR),
    Route("POST", _LINK + ":resume", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:pause", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:resume", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:promote", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:rehearse-promote", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:cancel-promote", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:reverse-and-start-mirror", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:reverse-and-pause-mirror", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:undo", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:failover", Role.OPERATOR),
    Route("POST", _LINK + "/mirrors:truncate-and-restore", Role.ADMIN),
    Route("GET", _LINK + "/mirrors", Role.VIEWER),
    Route("POST", _LINK + "/mirrors", Role.OPERATOR),
    Route("GET", _MIRROR, Role.VIEWER),
    Route("GET", _MIRROR + "/partitions/{partition}:translate", Role.VIEWER),
    Route("POST", _MIRROR + ":pause", Role.OPERATOR),
    Route("POST", _MIRROR + ":resume", Role.OPERATOR),
    Route("POST", _MIRROR + ":promote", Role.OPERATOR),
    Route("POST", _MIRROR + ":reverse-and-start-mirror", Role.OPERATOR),
    Route("POST", _MIRROR + ":reverse-and-pause-mirror", Role.OPERATOR),
    Route("POST", _MIRROR + ":failover", Role.OPERATOR),
    Route("POST", _MIRROR + ":truncate-and-restore", Role.ADMIN),
    Route("DELETE", _MIRROR, Role.ADMIN),
    Route("POST", _MIRROR + ":repair", Role.OPERATOR),
    Route("POST", _MIRROR + ":recreate", Role.ADMIN),
    Route("GET", _MIRROR + "/state-transition-errors", Role.VIEWER),
    Route("GET", _LINK + "/catch-up", Role.VIEWER),
    Route("GET", _LINK + "/job-plan", Role.VIEWER),
    Route("PUT", _LINK + "/catch-up/{job}", Role.OPERATOR),
    Route("GET", _LINK + "/candidates", Role.VIEWER),
    Route("GET", _LINK + "/transactions", Role.VIEWER),
    Route("GET", _LINK + "/acl-plan", Role.VIEWER),
    Route("GET", _LINK + "/access", Role.VIEWER),
    Route("GET", _LINK + "/user-plan", Role.VIEWER),
    Route("POST", _LINK + "/users:apply", Role.ADMIN),
    Route("GET", _LINK + "/quota-plan", Role.VIEWER),
    Route("POST", _LINK + "/quotas:apply", Role.ADMIN),
    Route("GET", _LINK + "/schema-plan", Role.VIEWER),
    Route("GET", _LINK + "/schema-check", Role.VIEWER),
    Route("GET", _LINK + "/schemas", Role.VIEWER),
    Route("POST", _LINK + "/schemas:sync", Role.OPERATOR),
    Route("POST", _LINK + "/schemas:promote", Role.OPERATOR),
    Route("GET", _LINK + "/groups", Role.VIEWER),
    Route("POST", _LINK + "/groups", Role.OPERATOR),
    Route("POST", _GROUP + ":promote", Role.OPERATOR),
    Route("POST", _GROUP + ":demote", Role.OPERATOR),
    Route("POST", _GROUP + ":remove-members", Role.OPERATOR),
    Route("GET", _GROUP, Role.VIEWER),
    Route("GET", _LINK + "/migration-discovery", Role.VIEWER),
    Route("GET", _LINK + "/readiness", Role.VIEWER),
    Route("GET", "/v3/migrations", Role.VIEWER),
    Route("POST", "/v3/migrations:check", Role.VIEWER, reads=True),
    Route("GET", _MIGRATION + "/readiness", Role.VIEWER),
    Route("GET", _MIGRATION + "/report", Role.VIEWER),
    Route("GET", _MIGRATION, Role.VIEWER),
    Route("PUT", _MIGRATION, Role.OPERATOR),
    Route("POST", _MIGRATION + ":pause", Role.OPERATOR),
    Route("POST", _MIGRATION + ":resume", Role.OPERATOR),
    Route("POST", _MIGRATION + ":abort", Role.OPERATOR),
    Route("POST", _MIGRATION + ":rehearse", Role.OPERATOR),
    Route("POST", _MIGRATION + ":undo", Role.OPERATOR),
    Route("DELETE", _MIGRATION, Role.OPERATOR),
    Route("GET", _CONFLUENT, Role.VIEWER),
    Route("POST", _CONFLUENT, Role.ADMIN),
    Route("GET", _CONFLUENT_LINK, Role.VIEWER),
    Route("DELETE", _CONFLUENT_LINK, Role.ADMIN),
    Route("GET", _CONFLUENT_LINK + "/configs", Role.VIEWER),
    Route("GET", _CONFLUENT_LINK + "/configs/{config_name}", Role.VIEWER, config="config_name"),
    Route("PUT", _CONFLUENT_LINK + "/configs:alter", Role.ADMIN),
    Route("PUT", _CONFLUENT_LINK + "/configs/{config_name}", Role.ADMIN, config="config_name"),
    Route("DELETE", _CONFLUENT_LINK + "/configs/{config_name}", Role.ADMIN, config="config_name"),
    Route("GET", _CONFLUENT + "/-/mirrors", Role.VIEWER),
    Route("GET", _CONFLUENT_MIRRORS, Role.VIEWER),
    Route("POST", _CONFLUENT_MIRRORS, Role.OPERATOR),
    Route("GET", _CONFLUENT_MIRRORS + "/{topic}", Role.VIEWER),
    Route("POST", _CONFLUENT_MIRRORS + ":promote", Role.OPERATOR),
    Route("POST", _CONFLUENT_MIRRORS + ":failover", Role.OPERATOR),
    Route("POST", _CONFLUENT_MIRRORS + ":pause", Role.OPERATOR),
    Route("POST", _CONFLUENT_MIRRORS + ":resume", Role.OPERATOR),
    Route("POST", _CONFLUENT_MIRRORS + ":reverse-and-start-mirror", Role.OPERATOR),
    Route("POST", _CONFLUENT_MIRRORS + ":reverse-and-pause-mirror", Role.OPERATOR),
    Route("POST", _CONFLUENT_MIRRORS + ":truncate-and-restore", Role.ADMIN),
    Route("GET", "/v3/console", Role.VIEWER),
    Route("GET", "/v3/console/partitions", Role.VIEWER),
    Route("GET", "/v3/console/levels", Role.VIEWER),
    Route("GET", "/v3/console/trends", Role.VIEWER),
    Route("GET", "/v3/gateways", Role.VIEWER),
    Route("GET", "/v3/gateways/{name:path}", Role.VIEWER),
    Route("DELETE", "/v3/gateways/{name:path}", Role.ADMIN),
)

_COMPILED: Final[tuple[tuple[Route, re.Pattern[str]], ...]] = tuple((row, compile_path(row.path)[0]) for row in ROUTES)


class Asked(NamedTuple):
    """A request's row, and the names in its path."""

    route: Route
    names: Mapping[str, str]

    @property
    def config(self) -> str:
        """The config of a link whose value the body is; '' where it is none."""
        return self.names.get(self.route.config, "")


def find(method: str, path: str) -> Asked | None:
    """The row of a request; None when nobody may ask this. `path`: decoded, without the query."""
    for row, pattern in _COMPILED:
        if row.method == method:
            match = pattern.match(path)
            if match is not None:
                return Asked(row, match.groupdict())
    return None


def refusal(caller: Caller, method: str, path: str) -> tuple[int, str] | None:
    """HTTP status and one line when this caller may not ask this; None when it may."""
    asked = find(method, path)
    if asked is None:
        others = sorted({row.method for row, pattern in _COMPILED if pattern.match(path)})
        if caller.role is Role.ANYONE:
            return 401, "not authenticated: a bearer token is required"
        return (405, f"{method} is not served here, {', '.join(others)} is") if others else (404, "Not Found")
    if caller.role >= asked.route.role:
        return None
    if caller.role is Role.ANYONE:
        return 401, "not authenticated: a bearer token is required"
    return 403, f"{method} {asked.route.path} takes the role {asked.route.role}; '{caller.name}' is {caller.role}"
