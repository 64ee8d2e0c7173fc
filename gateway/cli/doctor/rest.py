"""What one gateway's REST API says of itself and of its links, asked with a short deadline for each question."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx
import typer

from gateway.cli.api import next_token, segment
from gateway.cli.connection import UNREACHABLE, client
from gateway.doctor.rules.facts import GatewayFacts

_TIMEOUT: Final = httpx.Timeout(10.0, connect=5.0)
_PAGES: Final = 10
_LINKS: Final = 20
"""Whose topics and groups are asked for at the most."""
_STOPPED, _PROMOTED = "STOPPED", "PROMOTED"
"""What is mirrored no more takes no right."""
_OPEN, _MOST = "process_open_fds", "process_max_fds"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLink:
    """A link. `client`: its properties, secrets hidden. `topics`, `groups`: (name on the source, on the
    target) of those that are still to be promoted."""

    name: str
    client: Mapping[str, str]
    identity: str
    topics: tuple[tuple[str, str], ...] = ()
    groups: tuple[tuple[str, str], ...] = ()


class _Untold(Exception):
    """The gateway refuses to say."""


def look_at_gateway(url: str, only: str = "") -> tuple[GatewayFacts, tuple[SourceLink, ...]]:
    """Ask it. An answer that does not come, or is refused, is a fact, too; a --url that cannot be ends the command.

    Args:
        only: the link whose topics and groups are wanted; '' for all.
    """
    try:
        with client(url) as connection:
            connection.timeout = _TIMEOUT
            return _RestQuestions(connection, url).all(only)
    except typer.Exit as exc:  # it has said why
        if exc.exit_code != UNREACHABLE:
            raise
        return GatewayFacts(url=url, error="there is no such socket"), ()
    except (KeyError, TypeError, AttributeError):  # JSON of another form
        return GatewayFacts(url=url, error=f"what answers at {url} is no gateway of lockgate"), ()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as exc:
        return GatewayFacts(url=url, error=str(exc) or type(exc).__name__), ()


class _RestQuestions:
    """At one gateway. Raises httpx.HTTPError when it goes away; ValueError, KeyError, TypeError or AttributeError when
    what answers is none."""

    def __init__(self, connection: httpx.Client, url: str) -> None:
        self._connection = connection
        self._facts = GatewayFacts(url=url)
        self._untold: dict[str, str] = {}

    def all(self, only: str) -> tuple[GatewayFacts, tuple[SourceLink, ...]]:
        self._ready()
        status = self._told("its status", "/v3/status", {})
        gateways = self._told("its fleet", "/v3/gateways", {"data": []})["data"]
        links = self._told("its links", "/v3/links", {"data": []})["data"]
        workers = next((one["workers"] for one in gateways if one["name"] == status.get("gateway")), 1)
        facts = replace(
            self._facts,
            version=status.get("version", ""),
            target_cluster_id=status.get("target_cluster_id", ""),
            leader=status.get("leader", ""),
            trouble=status.get("fleet_trouble", ""),
            listeners=status.get("listeners", {}),
            gateways={one["name"]: one["state"] for one in gateways},
            links={one["link_name"]: (one["link_state"], one["link_error"]) for one in links},
            files=self._files(workers),
        )
        wanted = [one for one in links if one["link_name"] == only or not only]
        seen = tuple(self._link(one) for one in wanted[:_LINKS])
        return replace(facts, untold=self._untold), seen

    def _ready(self) -> None:
        """Its checks, and its clock: the time of an answer is in whole seconds, cut off."""
        before, began = time.time(), time.monotonic()
        answer = self._connection.get("/ready")
        took = time.monotonic() - began
        checks = answer.json()["checks"]
        failing = {name: why for name, why in checks.items() if why != "ok"}
        self._facts = replace(self._facts, failing=failing)
        if date := answer.headers.get("date"):
            there = parsedate_to_datetime(date).timestamp() + 0.5
            self._facts = replace(self._facts, ahead_s=there - (before + took / 2), error_s=0.5 + took / 2)

    def _told(self, question: str, path: str, otherwise: Any) -> Any:
        try:
            return self._get(path)
        except _Untold as exc:
            self._untold[question] = str(exc)
            return otherwise

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        answer = self._connection.get(path, params=params)
        if answer.is_error:
            raise _Untold(_message(answer))
        return answer.json()

    def _files(self, workers: int) -> tuple[int, int] | None:
        """Open files, and how many its processes may have together."""
        answer = self._connection.get("/metrics")
        if answer.is_error:
            self._untold["its metrics"] = _message(answer)
            return None
        found: dict[str, float] = {}
        for line in answer.text.splitlines():
            name, _, value = line.partition(" ")
            if name in (_OPEN, _MOST):
                found[name] = float(value)
        return (int(found[_OPEN]), int(found[_MOST]) * workers) if len(found) == 2 else None

    def _link(self, told: Mapping[str, Any]) -> SourceLink:
        name = told["link_name"]
        topics = self._list(f"the mirror topics of link {name}", f"/v3/links/{segment(name)}/mirrors")
        groups = self._list(f"the mirror groups of link {name}", f"/v3/links/{segment(name)}/groups")
        return SourceLink(
            name=name,
            client=told["client"],
            identity=told["configs"].get("link.identity", ""),
            topics=tuple(
                (one["source_topic_name"], one["mirror_topic_name"])
                for one in topics
                if one["mirror_status"] != _STOPPED
            ),
            groups=tuple((one["source_group"], one["group"]) for one in groups if one["state"] != _PROMOTED),
        )

    def _list(self, question: str, path: str) -> list[Any]:
        found: list[Any] = []
        token = ""
        try:
            for _ in range(_PAGES):
                page = self._get(path, {"page_token": token} if token else None)
                found += page["data"]
                if not (token := next_token(page)):
                    break
        except _Untold as exc:
            self._untold[question] = str(exc)
        return found


def _message(answer: httpx.Response) -> str:
    try:
        told = answer.json()
    except ValueError:
        return f"HTTP {answer.status_code}"
    return str(told.get("message", told)) if isinstance(told, dict) else f"HTTP {answer.status_code}"
