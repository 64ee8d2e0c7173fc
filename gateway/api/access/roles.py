"""Who may do what: every route and the least role that it takes.

A route says its role where it is declared (`api/routes.py`), and the table is read from there. One that is not in the
table does not exist for anybody: the front of the server answers 404. So a new route is reachable only once somebody
has said who may use it.

* **viewer** reads: states, lags, metrics. Secrets are shown to nobody.
* **operator** carries a migration out: mirrors, groups, promotes, failbacks, failovers, jobs. What it does keeps the
  records of both clusters.
* **admin** names clusters and the secrets to reach them (links), gives users logins and quotas, deletes records
  (truncate-and-restore, recreate) and mirrors, sees what is in records, and vouches for what no gateway can see (a lost
  gateway has stopped).

A role may do what the ones before it may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


class MatchedRoute(NamedTuple):
    """A request's row, and the names in its path."""

    route: Route
    names: Mapping[str, str]

    @property
    def config(self) -> str:
        """The config of a link whose value the body is; '' where it is none."""
        return self.names.get(self.route.config, "")


class RouteTable:
    """Every route that a gateway serves, in the order in which paths are looked up: of rows that fit, the first one
    counts. A route that two applications have is one row."""

    def __init__(self, rows: Iterable[Route]) -> None:
        self.rows: Final = tuple(dict.fromkeys(rows))
        self._compiled = tuple((row, compile_path(row.path)[0]) for row in self.rows)

    def find(self, method: str, path: str) -> MatchedRoute | None:
        """The row of a request; None when nobody may ask this. `path`: decoded, without the query."""
        for row, pattern in self._compiled:
            if row.method == method:
                match = pattern.match(path)
                if match is not None:
                    return MatchedRoute(row, match.groupdict())
        return None

    def refusal(self, caller: Caller, method: str, path: str) -> tuple[int, str] | None:
        """HTTP status and one line when this caller may not ask this; None when it may."""
        matched = self.find(method, path)
        if matched is None:
            others = sorted({row.method for row, pattern in self._compiled if pattern.match(path)})
            if caller.role is Role.ANYONE:
                return 401, "not authenticated: a bearer token is required"
            return (405, f"{method} is not served here, {', '.join(others)} is") if others else (404, "Not Found")
        if caller.role >= matched.route.role:
            return None
        if caller.role is Role.ANYONE:
            return 401, "not authenticated: a bearer token is required"
        route = matched.route
        return 403, f"{method} {route.path} takes the role {route.role}; '{caller.name}' is {caller.role}"
