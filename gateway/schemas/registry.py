"""A client of one schema registry, by Confluent's REST API (v1, as other registries speak it, too).

Each method is one request. Nothing is followed to another address and no proxy of the environment is asked, since
logins are sent; what is answered has a largest size and a deadline (`transport/http_answer.py`). Secrets and PEM files
are read when the client is opened, so a round of its own sees new ones.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar
from urllib.parse import quote

import httpx

from gateway.errors import Conflict, ControlError, SourceUnreachable, TargetUnreachable
from gateway.kafka.acts import require_permit
from gateway.operations.link_tasks import TaskErrorCode
from gateway.schemas.rules import model
from gateway.schemas.rules.model import Schema, Version, VersionKey
from gateway.state.schemas.registry_properties import RegistryConfig, RegistrySide
from gateway.transport.http_answer import AnswerError, bounded_answer

TIMEOUT_S: Final = 10.0
MAX_ANSWER: Final = 16 << 20
"""Bytes of one answer: the longest list of subjects, or the longest schema."""

NO_SUBJECT: Final = 40401
NO_VERSION: Final = 40402
NO_SCHEMA: Final = 40403
NO_OWN_LEVEL: Final = 40408
NO_OWN_MODE: Final = 40409
_ABSENT: Final = (NO_SUBJECT, NO_VERSION, NO_SCHEMA, NO_OWN_LEVEL, NO_OWN_MODE)

_SAID: Final = 300
_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_LISTED: Final = {"deleted": "true"}
_NORMALIZED: Final = {"normalize": "true"}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Question(Generic[_T]):
    """A request to a registry, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], _T]
    body: dict[str, Any] | None = None
    params: dict[str, str] | None = None


class RegistryError(Exception):
    """A registry did not do what it was asked for. One line, which names the registry."""

    def __init__(self, words: str, side: RegistrySide) -> None:
        super().__init__(words)
        self.side = side


class RegistryUnreachable(RegistryError):
    """It does not answer, or says that it cannot for now."""


class RegistryRefused(RegistryError):
    """It refuses. `status`: of HTTP; `code`: the registry's own, 0 for none."""

    def __init__(self, words: str, side: RegistrySide, status: int, code: int) -> None:
        super().__init__(words, side)
        self.status = status
        self.code = code

    @property
    def is_absent(self) -> bool:
        """What was asked for is not there. (A path that the registry does not serve has none of these codes.)"""
        return self.status == httpx.codes.NOT_FOUND and self.code in _ABSENT


def task_code(error: RegistryError) -> TaskErrorCode:
    """What a task of a link says of it."""
    if isinstance(error, RegistryRefused):
        if error.status == httpx.codes.UNAUTHORIZED:
            return TaskErrorCode.AUTHENTICATION_ERROR
        if error.status == httpx.codes.FORBIDDEN:
            return TaskErrorCode.AUTHORIZATION_ERROR
        return TaskErrorCode.POLICY_VIOLATION_ERROR
    return TaskErrorCode.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR


class Registry:
    """One registry, as a context. Every method raises RegistryUnreachable or RegistryRefused."""

    def __init__(self, side: RegistrySide, config: RegistryConfig) -> None:
        """`config`: resolved. Raises ValueError, which names the property, for a file that is of no use."""
        self.side = side
        self.url = config.url
        try:
            is_tls = config.url.startswith("https:")
            verify = config.tls.context() if is_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        except ValueError as exc:
            raise ValueError(f"{config.prefix}{exc}") from None
        headers = {"accept": f"{_TYPE}, application/json"}
        if config.token:
            headers["authorization"] = f"Bearer {config.token}"
        self._http = httpx.AsyncClient(
            verify=verify,
            timeout=TIMEOUT_S,
            trust_env=False,
            headers=headers,
            auth=httpx.BasicAuth(config.username.encode(), config.password.encode()) if config.username else None,
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, exc, trace)

    # -- reading ----------------------------------------------------------------------------------------------------

    async def subjects(self) -> list[str]:
        """All, also soft-deleted ones."""
        return await self._asked(_Question("GET", "/subjects", model.read_subjects, params=_LISTED))

    async def numbers(self, subject: str, *, deleted: bool) -> frozenset[int]:
        """Of the subject's versions; none when there is no such subject. `deleted`: soft-deleted ones, too."""
        params = _LISTED if deleted else {}
        path = f"/subjects/{_name(subject)}/versions"
        found = await self._or_absent(_Question("GET", path, model.read_numbers, params=params))
        return frozenset() if found is None else found

    async def version(self, subject: str, number: int) -> Version | None:
        """A version, soft-deleted or not; None when it is not there."""
        path = f"/subjects/{_name(subject)}/versions/{number}"
        return await self._or_absent(_Question("GET", path, model.read_version, params=_LISTED))

    async def schema(self, schema_id: int) -> Schema | None:
        """What an id means; None when it means nothing."""
        return await self._or_absent(_Question("GET", f"/schemas/ids/{schema_id}", model.read_schema))

    async def uses(self, schema_id: int) -> list[VersionKey]:
        """Where an id is used, soft-deleted versions among them; empty when it means nothing."""
        path = f"/schemas/ids/{schema_id}/versions"
        return await self._or_absent(_Question("GET", path, model.read_uses, params=_LISTED)) or []

    async def lookup(
        self, subject: str, body: dict[str, Any], *, normalize: bool, deleted: bool = False
    ) -> Version | None:
        """The version of the subject that has this schema; None when none has. `normalize`: as it was registered."""
        params = (_NORMALIZED if normalize else {}) | (_LISTED if deleted else {})
        path = f"/subjects/{_name(subject)}"
        return await self._or_absent(_Question("POST", path, model.read_version, body, params))

    async def level(self, subject: str = "") -> str:
        """The subject's compatibility level, '' when it has none of its own; without a subject the one of all."""
        path = f"/config/{_name(subject)}" if subject else "/config"
        return await self._or_absent(_Question("GET", path, model.read_level)) or ""

    async def mode(self, subject: str = "") -> str:
        """The mode, as `level`; '' also where the registry has no modes."""
        path = f"/mode/{_name(subject)}" if subject else "/mode"
        try:
            return await self._asked(_Question("GET", path, model.read_mode))
        except RegistryRefused as exc:
            if exc.status == httpx.codes.NOT_FOUND:
                return ""
            raise

    # -- changing ---------------------------------------------------------------------------------------------------

    async def register(
        self, subject: str, body: dict[str, Any], *, schema_id: int | None, number: int, normalize: bool
    ) -> int:
        """Register a version; returns its id. `schema_id`: the one that it is to have as version `number`."""
        body = body if schema_id is None else {**body, "id": schema_id, "version": number}
        params = _NORMALIZED if normalize else {}
        path = f"/subjects/{_name(subject)}/versions"
        return await self._changed(_Question("POST", path, model.read_id, body, params))

    async def set_level(self, subject: str, level: str) -> None:
        """'': the subject has none of its own any more."""
        path = f"/config/{_name(subject)}"
        if level:
            await self._changed(_Question("PUT", path, model.read_level, {"compatibility": level}))
        else:
            await self._removed(path)

    async def set_mode(self, subject: str, mode: str, *, force: bool = False) -> None:
        """'': the subject has none of its own any more. `force`: IMPORT though it has versions."""
        path = f"/mode/{_name(subject)}"
        if mode:
            params = {"force": "true"} if force else {}
            await self._changed(_Question("PUT", path, model.read_mode, {"mode": mode}, params=params))
            return
        try:
            await self._removed(path)
        except RegistryRefused as exc:
            if exc.status != httpx.codes.METHOD_NOT_ALLOWED:  # registries that cannot take it away
                raise
            await self._changed(_Question("PUT", path, model.read_mode, {"mode": model.READWRITE}))

    async def delete(self, subject: str, number: int, *, permanent: bool = False) -> None:
        """Delete a version, so that it can be taken back; `permanent`: one that was deleted before, for good."""
        params = {"permanent": "true"} if permanent else {}
        path = f"/subjects/{_name(subject)}/versions/{number}"
        await self._changed(_Question("DELETE", path, _anything, params=params))

    async def _removed(self, path: str) -> None:
        """What is not there is gone already."""
        try:
            await self._changed(_Question("DELETE", path, _anything))
        except RegistryRefused as exc:
            if not exc.is_absent:
                raise

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _changed(self, question: _Question[_T]) -> _T:
        """Of one that changes the registry: it needs a permit (`kafka/acts.py`). Raises ActRefused as well."""
        require_permit(f"{question.method} {question.path} at {self._who}")
        return await self._asked(question)

    async def _or_absent(self, question: _Question[_T]) -> _T | None:
        try:
            return await self._asked(question)
        except RegistryRefused as exc:
            if exc.is_absent:
                return None
            raise

    async def _asked(self, question: _Question[_T]) -> _T:
        path, body = question.path, question.body
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"content-type": _TYPE}
        try:
            status, data = await bounded_answer(
                self._http,
                question.method,
                self.url + path,
                most=MAX_ANSWER,
                within_s=TIMEOUT_S,
                params=question.params,
                content=content,
                headers=headers,
            )
        except AnswerError as exc:
            raise RegistryUnreachable(f"{self._who}: {path}: {exc}", self.side) from exc
        except OSError as exc:  # of TLS 1.3, after the handshake
            raise RegistryUnreachable(f"{self._who}: {str(exc) or type(exc).__name__}", self.side) from exc
        if not httpx.codes.is_success(status):
            raise self._refusal(status, path, data)
        try:
            return question.read(json.loads(data))
        except (ValueError, RecursionError) as exc:
            words = f"{self._who}: {path}: not an answer of a schema registry: {exc}"
            raise RegistryUnreachable(words, self.side) from None

    @property
    def _who(self) -> str:
        return f"the {self.side} registry {self.url}"

    def _refusal(self, status: int, path: str, data: bytes) -> RegistryError:
        try:
            found = json.loads(data)
            code, said = int(found["error_code"]), str(found["message"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            code, said = 0, ""
        said = " ".join(said.split())[:_SAID]
        words = f"{self._who}: {path}: {said or 'refused'} (HTTP {status}{f', {code}' if code else ''})"
        if status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.TOO_MANY_REQUESTS:
            return RegistryUnreachable(words, self.side)
        return RegistryRefused(words, self.side, status, code)


def as_control_error(error: RegistryError) -> ControlError:
    """As the operator sees it."""
    if isinstance(error, RegistryRefused) and error.status not in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return Conflict(str(error))
    return SourceUnreachable(str(error)) if error.side is RegistrySide.SOURCE else TargetUnreachable(str(error))


def _name(subject: str) -> str:
    return quote(subject, safe="")


def _anything(body: Any) -> Any:
    return body
