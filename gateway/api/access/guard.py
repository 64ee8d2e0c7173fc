"""The front of the HTTP server: what every request must show before anything of it is read or passed on.

In this order, so that each refusal tells as little as it can: where the request thinks that it goes (Host), where it
comes from (Origin), who asks, whether the path is what it seems, whether that role may, and only then the body: JSON,
and no longer than allowed while it arrives.

Host and Origin are there for browsers. A page of a foreign site can send requests here, and by a name of its own that
turns to this address (DNS rebinding) even read answers. It has no token; but a mistake in one check should not be
enough. There are no CORS headers: no other site is ever given anything.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.responses import JSONResponse

from gateway.api.access.audit import AuditTrail
from gateway.api.access.credentials import BadCredentials, Credentials, Peer
from gateway.api.access.roles import CALLER, NOBODY, Caller, Role, RouteTable

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PEER: Final = "peer"
"""Key of an ASGI scope's `state`: the `Peer`, from the connection."""

PROVE: Final = "prove"
"""Key of an ASGI scope's `state`: told who asks on the connection, and answers whether it may have the connection."""

_LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost."})
_CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_BY_TLS_ONLY: Final = (b"strict-transport-security", b"max-age=31536000")
"""RFC 6797: for a year browsers ask this host by TLS alone, also where somebody types its name without a scheme."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPolicy:
    """What is taken.

    Attributes:
        hosts: names in Host besides the address that the connection came to, in lower case, without ports.
        max_body_bytes: of one request.
        public_metrics: /metrics is shown to anybody.
    """

    hosts: frozenset[str] = frozenset()
    max_body_bytes: int = 4_194_304
    public_metrics: bool = False


class _Refused(Exception):
    def __init__(self, status: int, message: str, caller: Caller = NOBODY) -> None:
        super().__init__(message)
        self.status = status
        self.caller = caller


class Guard:
    """An ASGI application before another one. `credentials`: of now, asked at each request."""

    def __init__(
        self,
        app: App,
        credentials: Callable[[], Credentials],
        policy: GuardPolicy,
        audit: AuditTrail,
        table: RouteTable,
    ) -> None:
        self._app = app
        self._table = table
        self._credentials = credentials
        self._policy = policy
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Only `http`: there are no web sockets here."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        answer = _Answer(send, is_tls=scope.get("scheme") == "https")
        peer: Peer = scope.get("state", {}).get(PEER, Peer())
        try:
            headers = _by_name(scope["headers"])
            if not peer.owner:
                _require_host(headers, scope, self._policy.hosts)
            _require_origin(headers, scope)
            caller = self._authenticated(headers, peer)
            _require_place(scope, caller)
            _require_path(scope["raw_path"], caller)
            self._require_role(caller, scope)
            _require_json(headers, caller)
            body = _Body(receive, headers, self._policy.max_body_bytes, caller)
            kept = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
            await self._app({**scope, "headers": kept, CALLER: caller}, body, answer)
        except _Refused as exc:
            if answer.begun:
                raise
            self._audit.refused(exc.caller, peer.address, scope["method"], scope["path"], exc.status, str(exc))
            said = JSONResponse({"error_code": exc.status, "message": str(exc)}, exc.status)
            if exc.status == 401:
                said.headers["WWW-Authenticate"] = 'Bearer realm="lockgate"'
            await said(scope, receive, answer)

    def _authenticated(self, headers: Mapping[bytes, list[bytes]], peer: Peer) -> Caller:
        said = headers.get(b"authorization", [])
        try:
            if len(said) > 1:
                raise BadCredentials("more than one Authorization header")
            return self._credentials().who(said[0] if said else b"", peer)
        except BadCredentials as exc:
            raise _Refused(401, str(exc)) from None

    def _require_role(self, caller: Caller, scope: Scope) -> None:
        method, path = scope["method"], scope["path"]
        if self._policy.public_metrics and (method, path) == ("GET", "/metrics"):
            return
        no = self._table.refusal(caller, method, path)
        if no is not None:
            raise _Refused(*no, caller)


class _Answer:
    """Sends on, with the headers that every answer has. `begun`: a status line has been sent."""

    def __init__(self, send: Send, *, is_tls: bool) -> None:
        self._send = send
        self._headers = (*_HEADERS, _BY_TLS_ONLY) if is_tls else _HEADERS
        self.begun = False

    async def __call__(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            self.begun = True
            ours = {name for name, _ in self._headers}
            rest = [pair for pair in event.get("headers", ()) if pair[0].lower() not in ours]
            event = {**event, "headers": [*rest, *self._headers]}
        await self._send(event)


class _Body:
    """A request's body on its way: counted as it arrives, so that no more than allowed is ever held."""

    def __init__(self, receive: Receive, headers: Mapping[bytes, list[bytes]], limit: int, caller: Caller) -> None:
        self._receive = receive
        self._limit = limit
        self._caller = caller
        self._seen = 0
        self._require(max((int(each) for each in headers.get(b"content-length", []) if each.isdigit()), default=0))

    async def __call__(self) -> Any:
        event = await self._receive()
        if event["type"] == "http.request":
            self._seen += len(event.get("body", b""))
            self._require(self._seen)
        return event

    def _require(self, length: int) -> None:
        if length > self._limit:
            raise _Refused(413, f"a body has {self._limit} bytes at most (api.max_body_bytes)", self._caller)


def _require_host(headers: Mapping[bytes, list[bytes]], scope: Scope, allowed: frozenset[str]) -> None:
    """A name that we are known by, or the address itself: what a foreign name resolves to is not asked by that name."""
    said = headers.get(b"host", [])
    text = said[0].decode("latin-1") if len(said) == 1 else ""
    name = _host_of(text)
    here = str((scope.get("server") or ("", 0))[0])
    if name and (name in allowed or _same_address(name, here) or (_is_loopback(here) and name in _LOOPBACK_NAMES)):
        return
    raise _Refused(421, f"Host {text[:200]!r} is not served here; its name must be in api.allowed_hosts")


def _require_origin(headers: Mapping[bytes, list[bytes]], scope: Scope) -> None:
    """A browser says from which site a request comes: only our own pages may ask. Command lines say nothing."""
    host = headers.get(b"host", [b""])[0].decode("latin-1").lower()
    own = f"{scope.get('scheme', 'http')}://{host}"
    for said in headers.get(b"origin", []):
        text = said.decode("latin-1")
        if text.lower() != own:
            raise _Refused(403, f"requests of pages of another site are refused (Origin {text[:200]!r})")
    for said in headers.get(b"sec-fetch-site", []):
        navigates = headers.get(b"sec-fetch-mode") == [b"navigate"] and scope["method"] == "GET"
        if said not in (b"same-origin", b"none") and not navigates:
            raise _Refused(403, "requests of pages of another site are refused (Sec-Fetch-Site)")


def _require_place(scope: Scope, caller: Caller) -> None:
    """Who proves nothing has no connection for keeps (`places.py`), and needs none."""
    prove: Callable[[Caller], bool] | None = scope.get("state", {}).get(PROVE)
    if caller.role is not Role.ANYONE and prove is not None and not prove(caller):
        raise _Refused(503, "too many connections have been proved to be of callers like this one: close some", caller)


def _require_path(raw: bytes, caller: Caller) -> None:
    """What would lead elsewhere than it says: whoever takes dots or a fragment away sees another path than we have.

    A name may have anything in it, with its slashes encoded; but none is a dot or two and nothing else.
    """
    if b"#" in raw or any(unquote_to_bytes(part) in (b".", b"..") for part in raw.split(b"/")):
        raise _Refused(400, "a part that is '.' or '..', and a '#' that is not encoded, may not be in a path", caller)


def _require_json(headers: Mapping[bytes, list[bytes]], caller: Caller) -> None:
    """A form or a text, which a foreign page may send unasked, is not taken for JSON."""
    length = headers.get(b"content-length", [])
    if b"transfer-encoding" not in headers and all(each == b"0" for each in length):
        return
    kinds = headers.get(b"content-type", [])
    if len(kinds) != 1 or kinds[0].partition(b";")[0].strip().lower() != b"application/json":
        raise _Refused(415, "a body must have Content-Type: application/json", caller)


def _by_name(headers: list[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value.strip())
    return found


def _host_of(text: str) -> str:
    try:
        return (urlsplit(f"//{text}").hostname or "") if not set(text) & set("/?#@\\ ") else ""
    except ValueError:
        return ""


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _same_address(name: str, here: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(here)
    except ValueError:
        return False
