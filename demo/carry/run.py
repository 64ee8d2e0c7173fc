"""One run of the demo of what comes along: two clusters that ask who somebody is, two registries, an application."""

from __future__ import annotations

import re
import secrets
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from demo.access import Access
from demo.carry.brokers import carry_cluster, login
from demo.carry.cast import cast, config_of
from demo.carry.clients.common import ClientConfig, write_config
from demo.carry.registries import Registries
from demo.carry.registry import Registry
from demo.carry.rights import ADMIN, GATEWAY, USERS
from demo.carry.settings import LINK, TOPIC, CarrySettings
from demo.errors import DemoError
from demo.fleet import Client
from demo.history import Side
from demo.lockgate import Lockgate
from demo.settings import COMMAND_S
from demo.stage import Stage
from demo.view import View
from gateway.devcluster import DevCluster

_AGAIN = re.compile(r"(\d+) records behind them were done with")
_LINK_PASSWORD = "LOCKGATE_LINK_OLD_PASSWORD"  # noqa: S105 - the name of a variable


class CarryRun(Stage):
    """Attributes.

    access: how the administrator logs in, by side.
    passwords: of the application's users, by side and name. The target's are new, and in files for the gateway.
    secrets: the folder of those files.
    promoted_ms: when the topic's promote was asked for; wall clock, milliseconds.
    """

    def __init__(self, settings: CarrySettings, view: View) -> None:
        super().__init__(settings.folder, view, keep_data=settings.keep_data)
        self.settings = settings
        own = {side: {name: secrets.token_urlsafe(16) for name in (ADMIN, GATEWAY)} for side in Side}
        self.access: dict[Side, Access] = {side: login(ADMIN, own[side][ADMIN], "PLAIN") for side in Side}
        self.passwords = {side: {name: secrets.token_urlsafe(16) for name in USERS} for side in Side}
        self.secrets = self._private("secrets") / LINK
        self.secrets.mkdir(mode=0o700, exist_ok=True)
        for name, password in self.passwords[Side.TARGET].items():
            path = self.secrets / name
            path.touch(mode=0o600)
            path.write_text(password, encoding="utf-8")
        self._own, self._configs = own, self._private("configs")
        source, target = (carry_cluster(side, settings.kafka, settings.folder, own[side]) for side in Side)
        self.cast(cast(settings, self._configs), source, target)
        self.registries: Registries | None = None
        self.promoted_ms = 0

    def cluster(self, side: Side) -> DevCluster:
        """One of the two."""
        return self.source if side is Side.SOURCE else self.target

    def registry(self, side: Side) -> Registry:
        """One of the two."""
        assert self.registries is not None
        return self.registries.source if side is Side.SOURCE else self.registries.target

    def start_client(self, client: Client, side: Side, *, version: int = 0) -> None:
        """With the address, the password and the registry of a side; `version`: of the schema that it writes by."""
        name, bootstrap = client.part.name, self.bootstrap_of(side)
        kafka = {"bootstrap.servers": bootstrap, **login(name, self.passwords[side][name])}
        write_config(config_of(self._configs, name), ClientConfig(kafka, self.registry(side).url, version))
        client.start(bootstrap, side)

    def bootstrap_of(self, side: Side) -> str:
        """What clients connect to: the source itself, or the gateway."""
        if side is Side.SOURCE:
            return self.source.bootstrap
        assert self.gateway is not None
        return self.gateway.bootstrap

    def describe_gateway(self) -> Lockgate:
        """It logs in at the target by PLAIN; links may have secrets in the folder of the new passwords."""
        own = login(GATEWAY, "${TARGET_PASSWORD}", "PLAIN")
        passwords = {side: self._own[side][GATEWAY] for side in Side}
        return Lockgate(
            self.target.bootstrap,
            self.logs,
            env={"TARGET_PASSWORD": passwords[Side.TARGET], _LINK_PASSWORD: passwords[Side.SOURCE]},
            target=own,
            links={"files": str(self.secrets.parent)},
        )

    def link_options(self) -> list[str]:
        """How the source is reached, and that ACLs and schemas follow it."""
        every = '{"aclFilters":[{"resourceFilter":{"resourceType":"any"},"accessFilter":{"operation":"any"}}]}'
        options = {
            **login(GATEWAY, f"${{env:{_LINK_PASSWORD}}}", "PLAIN"),
            "acl.sync.enable": "true",
            "acl.filters": every,
            "acl.sync.ms": "1000",
            "acl.sync.write.hosts": "127.0.0.1",
            "schema.sync.enable": "true",
            "schema.sync.ms": "1000",
            "schema.source.registry.url": self.registry(Side.SOURCE).url,
            "schema.target.registry.url": self.registry(Side.TARGET).url,
        }
        sets = [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
        return ["--bootstrap", self.source.bootstrap, *sets]

    def command(self, *arguments: str, timeout_s: float = COMMAND_S) -> str:
        """Run a `lockgate` command while the clients are followed; returns its output."""
        gateway = self.gateway
        assert gateway is not None
        return self.in_background(
            partial(gateway.run, *arguments, timeout_s=timeout_s), "lockgate " + " ".join(arguments), timeout_s + 5
        )

    def told(self, path: str, **params: str) -> Any:
        """What the gateway answers under a path of the link.

        Raises:
            DemoError: nothing, or a refusal.
        """
        assert self.gateway is not None
        url = f"{self.gateway.url}/v3/links/{LINK}{path}"
        try:
            return httpx.get(url, params=params, timeout=20.0, auth=self.gateway.auth).raise_for_status().json()
        except httpx.HTTPError as error:
            raise DemoError(f"GET {url}: {error}") from error

    def mirror(self) -> tuple[str, int | None]:
        """The state of the mirror, and its largest lag; None while one is not known."""
        found = self.told(f"/mirrors/{TOPIC}")
        lags = [partition["lag"] for partition in found["mirror_lags"]]
        return found["mirror_status"], None if None in lags else max(lags, default=0)

    def group(self, group: str) -> tuple[str, int]:
        """The state of a mirror group, and how many of its records are delivered again, as its note says."""
        found = self.told(f"/groups/{group}")
        again = _AGAIN.search(found["note"])
        return found["state"], 0 if again is None else int(again[1])

    def clean_up(self) -> None:
        """Stop whatever still runs, by process id. Never raises."""
        super().clean_up()
        if self.registries is not None:
            self.registries.stop()

    def _private(self, name: str) -> Path:
        """A folder, made anew, for this user alone. It has passwords in it."""
        folder = self.logs / name
        folder.mkdir(mode=0o700)
        return folder

    def _turn(self) -> None:
        if self.registries is not None:
            self.registries.check()
        super()._turn()
