"""One run of the secure demo: the same migration, with a principal for everybody."""

from __future__ import annotations

import secrets
from functools import cached_property, partial

from demo.lockgate import Lockgate
from demo.run import Run
from demo.secure.brokers import secure_cluster
from demo.secure.certificates import HOST, MAPPING_RULE, Certificates
from demo.secure.intruder import Told, try_everything
from demo.secure.principals import (
    ADMIN,
    BROKER,
    GATEWAY,
    INTRUDER,
    clients,
    give,
    rights_of_clients,
    rights_on_the_source,
    rights_on_the_target,
)
from demo.settings import COMMAND_S, Settings
from demo.view import View
from gateway.devcluster import DevCluster

_SERVER = "gateway"  # whose certificate clients see
_ATTEMPTS_S = 120.0


class SecureRun(Run):
    """A migration under `identity: token` and `link.identity=client`.

    Attributes:
        told: where and when -> what the intruder was told there.
    """

    def __init__(self, settings: Settings, view: View) -> None:
        self._passwords = {name: secrets.token_urlsafe(16) for name in ("source", "target")}
        super().__init__(settings, view)
        self.access = self.certificates.client(ADMIN)
        self.told: dict[str, Told] = {}

    @cached_property
    def certificates(self) -> Certificates:
        """Made once the folder is this process's own."""
        assert self.settings.tls is not None
        made = Certificates(self.settings.tls)
        made.issue((BROKER, ADMIN, _SERVER, INTRUDER, *clients(self.settings)))
        return made

    def describe_cluster(self, name: str, kafka: str) -> DevCluster:
        """Three brokers."""
        return secure_cluster(name, kafka, self.settings.folder, self.certificates, self._passwords[name])

    def clusters_are_up(self) -> None:
        """Everybody gets their rights."""
        both = rights_of_clients(self.settings)
        given = (
            (self.source, [*both, *rights_on_the_source(self.settings)]),
            (self.target, [*both, *rights_on_the_target(self.settings)]),
        )
        works = [partial(give, cluster.bootstrap, self.access, rights) for cluster, rights in given]
        self.at_once(works, "the ACLs", COMMAND_S)

    def describe_gateway(self) -> Lockgate:
        """Clients come to it by certificate; it comes to the target by SASL_SSL."""
        folder = self.certificates.folder
        tls = {
            "certificate": str(folder / f"{_SERVER}.crt"),
            "key": str(folder / f"{_SERVER}.key"),
            "client_ca": str(self.certificates.ca),
            "client_auth": "required",
            "principal_mapping_rules": MAPPING_RULE,
        }
        login = {**self._login(), "sasl.password": "${TARGET_PASSWORD}"}
        return Lockgate(
            self.target.proxied_bootstrap,
            self.logs,
            env={"TARGET_PASSWORD": self._passwords["target"], "LOCKGATE_LINK_OLD_PASSWORD": self._passwords["source"]},
            target=login,
            listener={"host": HOST, "tls": tls, "identity": "token"},
            links={"files": str(folder)},
        )

    def link_options(self) -> tuple[str, ...]:
        """To the source by SASL_SSL; what clients write goes there under their own names."""
        config = {**self._login(), "sasl.password": "${env:LOCKGATE_LINK_OLD_PASSWORD}", "link.identity": "client"}
        sets = [part for key, value in config.items() for part in ("--set", f"{key}={value}")]
        return "--bootstrap", self.source.proxied_bootstrap, *sets

    def intrude(self, where: str, bootstrap: str, group: str) -> None:
        """Let the intruder try everything there, and remember what it was told."""
        settings = self.settings
        own = self.certificates.client(INTRUDER)
        with self.view.step(f"{INTRUDER} tries everything {where}") as step:
            self.told[where] = self.in_background(
                lambda: try_everything(bootstrap, own, settings.topic, group), "the attempts", _ATTEMPTS_S
            )
            step.note = ", ".join(sorted(set(self.told[where].values())))

    def _login(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificates.ca),
            "sasl.mechanism": "PLAIN",
            "sasl.username": GATEWAY,
        }
