"""TLS to a link's source and to the target: what is wrong with a certificate is one line, and it is tried again.

How the gateway's own client logs in (PLAIN, SCRAM, with and without TLS, by certificate) is in
`tests/integration/net/test_security.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.tls_terminator import terminator_before
from tests.support.gateways.gateway import GatewayProcess
from tests.support.identities.certificates import Certificates
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]
FAULTS = {
    "expired": r"certificate has expired",
    "elsewhere": r"IP address mismatch|Hostname mismatch",
    "stranger": r"unable to get local issuer certificate|self-signed certificate",
}


class Pki(NamedTuple):
    """A certificate that is good, and one for each fault."""

    ours: Certificates
    shown: dict[str, tuple[Path, Path]]

    @property
    def tls(self) -> dict[str, str]:
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.ours.ca)}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder = tmp_path_factory.mktemp("pki")
    ours, others = Certificates(folder), Certificates(folder, "others")
    shown = {
        "good": ours.server("good"),
        "expired": ours.server("expired", expired=True),
        "elsewhere": ours.server("elsewhere", host="kafka.example.org"),
        "stranger": others.server("stranger"),
    }
    return Pki(ours, shown)


@pytest.fixture
def gateway(target: DevCluster, pki: Pki, tmp_path: Path) -> Iterator[GatewayProcess]:
    made = GatewayProcess(tmp_path, target.bootstrap, links={"files": str(pki.ours.folder)})
    try:
        made.start()
        yield made
    finally:
        made.close()


def shown(gateway: GatewayProcess, link: str) -> tuple[str, str]:
    found: dict[str, Any] = gateway.api.get(f"/v3/links/{link}").json()
    return found["link_state"], found["link_error"]


def test_a_source_whose_certificate_goes_bad_and_is_mended(
    source: DevCluster, gateway: GatewayProcess, pki: Pki
) -> None:
    """Told by `describe`, as one line; a link to it is refused meanwhile; tried again until it is good."""
    with terminator_before(source).running() as terminator:
        terminator.show(pki.shown["good"])
        gateway.create_link("tls", source.proxied_bootstrap, **pki.tls)
        try:
            assert shown(gateway, "tls") == ("ACTIVE", "")
            client = {"bootstrap.servers": source.proxied_bootstrap, **pki.tls}
            configs = [{"name": name, "value": value} for name, value in client.items()]
            for fault, said in FAULTS.items():
                terminator.show(pki.shown[fault])
                wait_until(partial(tells, gateway, said), 60.0, what=f"the link tells of a certificate that is {fault}")
                state, error = shown(gateway, "tls")
                assert state == "UNAVAILABLE"
                assert "the broker's certificate is not trusted" in error
                assert "\n" not in error
                refused = gateway.api.post("/v3/links", json={"link_name": "new", "configs": configs})
                assert not refused.is_success
                assert re_found(said, refused.json()["message"])
            terminator.show(pki.shown["good"])
            wait_until(lambda: shown(gateway, "tls") == ("ACTIVE", ""), 120.0, what="the link is there again")
        finally:
            gateway.delete_link("tls")


def tells(gateway: GatewayProcess, pattern: str) -> bool:
    return re_found(pattern, shown(gateway, "tls")[1])


def re_found(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def test_a_source_that_knows_the_link_by_its_certificate(source: DevCluster, gateway: GatewayProcess, pki: Pki) -> None:
    secrets = pki.ours.folder / "mutual"  # a link's own: `links.files` is the folder above
    secrets.mkdir()
    certificate, key = (file.rename(secrets / file.name) for file in pki.ours.client("mover"))
    own = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
    opted = {"link.allow.unauthorized.target": "true"}
    with terminator_before(source).running() as terminator:
        terminator.show(pki.shown["good"], pki.ours.ca)
        configs = {"bootstrap.servers": source.proxied_bootstrap, **pki.tls}
        for more, taken in (({}, False), (own, False), (own | opted, True)):
            entries = [{"name": k, "value": v} for k, v in {**configs, **more}.items()]
            made = gateway.api.post("/v3/links", json={"link_name": "mutual", "configs": entries})
            assert made.is_success is taken, made.text
            if more == own:
                assert "the target has no authorizer" in made.text
        others = [{"name": name, "value": value} for name, value in (configs | own).items()]
        refused = gateway.api.post("/v3/links", json={"link_name": "other", "configs": others})
        assert "the folder of this link's secrets in links.files" in refused.text
        assert shown(gateway, "mutual") == ("ACTIVE", "")
        assert "mover" in terminator.client_names
        gateway.delete_link("mutual")


def test_a_target_by_tls(target: DevCluster, pki: Pki, tmp_path: Path) -> None:
    """A gateway does not start with what is wrong, and says it in one line; else it and its clients go by TLS."""
    impatient = {"default.api.timeout.ms": "5000"}
    gateway = GatewayProcess(tmp_path, target.proxied_bootstrap, target={**pki.tls, **impatient})
    with terminator_before(target).running() as terminator:
        try:
            terminator.show(pki.shown["expired"])
            ended = gateway.run_again()
            assert ended.returncode != 0
            (why,) = [line for line in ended.stderr.splitlines() if "cannot start" in line]
            assert re_found(FAULTS["expired"], why), ended.stderr
            terminator.show(pki.shown["good"])
            gateway.start()
            assert gateway.stop() == 0
        finally:
            gateway.close()
