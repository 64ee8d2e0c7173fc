"""`identity: token` on a real broker: who comes in by certificate or bearer token goes out as the same principal."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tests.support.brokers.logs import create_topic
from tests.support.brokers.secured_cluster import CREATE_TOKENS, TOPIC, USER, WRITE, inside
from tests.support.gateways.identity_scene import LIFETIME_MS, QUIET, Scene, produce
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def bear(scene: Scene, name: str, topic: str, timeout_s: float = 20.0, **claims: Any) -> tuple[list[Any], str]:
    """A record of somebody with a token. Returns the delivery's error, and what the client was told of its login."""
    told: list[str] = []
    settings = {
        "bootstrap.servers": scene.oauth,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(scene.certificates.ca),
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (scene.issuer.token(name, **claims), time.time() + 600),
        "error_cb": lambda error: told.append(str(error)),
    }
    return produce(settings, name, topic, timeout_s), " ".join(told)


def write(scene: Scene, name: str, topic: str, timeout_s: float = 20.0) -> list[KafkaError | None]:
    """A record of somebody with a certificate."""
    return produce(scene.certificates.client_of_a_gateway(scene.gateway.bootstrap, name), name, topic, timeout_s)


def test_a_certificate_comes_out_as_its_principal(scene: Scene, topic: str) -> None:
    """The broker decides by what it allows alice, whatever the gateway's own principal may do."""
    create_topic(inside(scene.target), topic, partitions=1)
    (refused,) = write(scene, "alice", topic)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    scene.acls.allow("alice", (TOPIC, topic, WRITE))
    assert write(scene, "alice", topic) == [None]


def test_who_was_not_allowed_is_told_of_by_the_missing_acl(scene: Scene, topic: str) -> None:
    (error,) = write(scene, "bob", topic, timeout_s=5.0)
    assert error is not None
    assert error.code() == KafkaError._MSG_TIMED_OUT
    assert "lacks the ACL CreateTokens on User:bob" in scene.logged()
    closed = scene.gateway.api.get("/metrics").text
    assert 'lockgate_connections_closed_total{reason="authentication failed"}' in closed


def test_nobody_comes_as_the_gateway_itself(scene: Scene, topic: str) -> None:
    """Kafka lets everybody make tokens for themselves, without an ACL."""
    (error,) = write(scene, "gateway", topic, timeout_s=5.0)
    assert error is not None
    assert "User:gateway is this gateway's own principal" in scene.logged()


def test_a_right_that_was_given_counts_soon(scene: Scene, topic: str) -> None:
    scene.acls.allow("gateway", (USER, "User:carol", CREATE_TOKENS))
    scene.acls.allow("carol", (TOPIC, topic, WRITE))
    create_topic(inside(scene.target), topic, partitions=1)
    wait_until(lambda: write(scene, "carol", topic) == [None], 60.0, what="a write of carol's")


def sum_of(scene: Scene, metric: str) -> float:
    text = scene.gateway.api.get("/metrics").text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(metric))


def test_a_connection_outlives_its_login_at_the_broker(scene: Scene, topic: str) -> None:
    """The broker would end it: the gateway logs in again, and again, while the client goes on as if nothing were."""
    create_topic(inside(scene.target), topic, partitions=1)
    scene.acls.allow("alice", (TOPIC, topic, WRITE))
    settings = scene.certificates.client_of_a_gateway(scene.gateway.bootstrap, "alice")
    lost: list[str] = []
    errors: list[KafkaError | None] = []
    producer = Producer({**settings, **QUIET, "error_cb": lambda error: lost.append(str(error)), "retries": 0})
    until = time.monotonic() + 2.5 * LIFETIME_MS / 1000
    while time.monotonic() < until:
        producer.produce(topic, value=b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
        producer.flush(30)
    assert set(errors) == {None}
    assert lost == []


def test_a_bearer_comes_out_as_its_principal(scene: Scene, topic: str) -> None:
    create_topic(inside(scene.target), topic, partitions=1)
    (refused,), _ = bear(scene, "alice", topic)
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    scene.acls.allow("alice", (TOPIC, topic, WRITE))
    assert bear(scene, "alice", topic)[0] == [None]


def test_a_bearer_is_told_why_it_is_refused(scene: Scene, topic: str) -> None:
    _, told = bear(scene, "alice", topic, timeout_s=3.0, aud="others")
    assert "the token is not valid" in told
    _, told = bear(scene, "dave", topic, timeout_s=3.0)
    assert "lacks the ACL CreateTokens on User:dave" in told


def test_tokens_end_when_the_gateway_stops(scene: Scene) -> None:
    """Who finds a token later gets nothing for it."""
    write(scene, "alice", "any", timeout_s=3.0)
    assert sum_of(scene, 'lockgate_delegation_tokens{link=""}') >= 1
    assert "alice" in scene.acls.tokens("gateway")
    assert scene.gateway.stop() == 0
    try:
        wait_until(lambda: not scene.acls.tokens("gateway"), what="no token is left")
    finally:
        scene.gateway.start()
