"""The leader rewrites links whose secrets are stored as they are."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.secrets.sealing import SealingKeys
from gateway.operations.secrets.stored import StoredSecrets
from gateway.state.gateway_records import FleetRecord, GatewayRecord
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState, PartitionStart
from tests.support.control.control_plane import SOURCE, Plane
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async

KEYS = SealingKeys([bytes(32)])
LOGIN = {
    "bootstrap.servers": SOURCE,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "hush",
}
LINK = LinkRecord(name="l", link_id=1, source_cluster_id="S", client=LOGIN)


def gateway(name: str, keys: str) -> GatewayRecord:
    return GatewayRecord(name=name, incarnation="1", role="node", peer="a:1", lease_ms=1, keys=keys)


def token(count: int) -> str:
    return "n" * 2 * count


async def test_a_plain_secret_is_encrypted_and_its_link_runs_on(plane: Plane) -> None:
    plane.parts.sources.secrets = secrets = LinkSecrets(keys=KEYS)
    await plane.store.put(LINK, gateway("a", KEYS.id))
    stored = StoredSecrets(plane.store, secrets, token)
    with capture_logs() as said:
        await stored.look()
    new = plane.store.links["l"]
    assert "hush" not in str(plane.log.kept["link/l"])
    assert secrets.config_of(new).login() == ("me", "hush")
    await wait_until_async(lambda: plane.engine.links.get("l") == new and "l" in plane.parts.sources.clusters, 5.0)
    assert "change the password on the source" in str(said)
    with capture_logs() as said:
        await stored.look()
    assert plane.store.links["l"] == new
    assert not said


async def test_not_before_every_gateway_can_read_it(plane: Plane) -> None:
    stored = StoredSecrets(plane.store, LinkSecrets(keys=KEYS), token)
    await plane.store.put(LINK, gateway("a", KEYS.id), gateway("b", ""))
    with capture_logs() as said:
        await stored.look()
        await stored.look()
    assert plane.store.links["l"] == LINK
    assert str(said).count("gateways without this key: b") == 1
    await plane.store.put(gateway("b", KEYS.id))
    await stored.look()
    assert plane.store.links["l"] != LINK


async def test_not_while_a_topic_is_cut_over(plane: Plane) -> None:
    stored = StoredSecrets(plane.store, LinkSecrets(keys=KEYS), token)
    mirror = MirrorRecord(
        link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),), readable=True
    )
    await plane.store.put(LINK, changed(mirror, state=MirrorState.ACTIVE))
    await plane.store.put(changed(mirror, state=MirrorState.PENDING_STOPPED))
    await stored.look()
    assert plane.store.links["l"] == LINK


async def test_without_a_key_it_is_said(plane: Plane) -> None:
    await plane.store.put(LINK)
    with capture_logs() as said:
        await StoredSecrets(plane.store, LinkSecrets(), token).look()
    assert plane.store.links["l"] == LINK
    assert "set links.key_file at every gateway, or make the link anew with a reference" in str(said)
    assert "hush" not in str(said)


async def test_the_secret_of_the_fleet_is_a_new_one_and_encrypted(plane: Plane) -> None:
    """Who has read the old one from the topic cannot pass for a gateway any more."""
    secrets = LinkSecrets(keys=KEYS)
    stored = StoredSecrets(plane.store, secrets, token)
    await plane.store.put(FleetRecord("hush"), gateway("a", KEYS.id), gateway("b", ""))
    await stored.look()
    assert plane.store.secret == "hush"
    await plane.store.put(gateway("b", KEYS.id))
    await stored.look()
    assert secrets.fleet(plane.store.secret) == "n" * 64
    assert "hush" not in str(plane.log.kept["fleet"])
    assert "n" * 64 not in str(plane.log.kept["fleet"])
    before = plane.store.secret
    await stored.look()
    assert plane.store.secret == before
    with pytest.raises(ValueError, match="^the fleet's secret is encrypted, and this gateway has no key"):
        LinkSecrets().fleet(before)


async def test_without_a_key_the_secret_of_the_fleet_stays(plane: Plane) -> None:
    await plane.store.put(FleetRecord("hush"), gateway("a", ""))
    await StoredSecrets(plane.store, LinkSecrets(), token).look()
    assert plane.store.secret == LinkSecrets().fleet(plane.store.secret) == "hush"
