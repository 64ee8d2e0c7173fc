"""What a principal may do, side by side."""

from __future__ import annotations

import pytest

from gateway.access.rules import compare as rules
from gateway.access.rules.compare import AccessScene, MirrorTopic, compare
from gateway.access.rules.rights import Rights
from gateway.access.rules.transform import TooManyAcls
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.state.link_config import LinkConfig, parse

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DELETE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DELETE, Operation.DESCRIBE
MIRRORED = {"orders": MirrorTopic("orders", promoted=False)}
PROMOTED = {"orders": MirrorTopic("orders", promoted=True)}


def acl(operation, name="orders", *, kind=TOPIC, prefixed=False, host="*"):
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(kind, pattern, name, "User:alice", host, operation, Permission.ALLOW)


def found(source, target, mirrors=MIRRORED, config=None, **more):
    """(target name, operation) -> source, target, gateway."""
    scene = AccessScene(
        config=config or LinkConfig(),
        source=Rights(source, "User:alice"),
        target=Rights(target, "User:alice"),
        mirrors=mirrors,
        **more,
    )
    return {(row.target_name, row.operation): (row.source, row.target, row.gateway) for row in compare(scene)}


def reason(source, target, operation, mirrors=MIRRORED, config=None):
    scene = AccessScene(
        config=config or LinkConfig(),
        source=Rights(source, "User:alice"),
        target=Rights(target, "User:alice"),
        mirrors=mirrors,
    )
    return next(row.reason for row in compare(scene) if row.operation is operation)


def test_the_same_everywhere():
    assert found([acl(READ)], [acl(READ)]) == {("orders", READ): (True,) * 3, ("orders", DESCRIBE): (True,) * 3}


def test_a_right_that_the_target_lacks():
    assert found([acl(READ, "g", kind=GROUP)], [])["g", READ] == (True, False, False)
    assert reason([acl(WRITE)], [], WRITE) == "the target does not allow it"


def test_writes_of_a_mirror_topic():
    config = parse({"acl.sync.write.hosts": "10.0.0.1"})
    narrowed = [acl(WRITE, host="10.0.0.1")]

    assert found([acl(WRITE)], narrowed, config=config)["orders", WRITE] == (True, False, True)
    assert reason([acl(WRITE)], narrowed, WRITE, config=config) == "it is sent to the source as the link"
    assert found([], narrowed, config=config)["orders", WRITE] == (False, False, True)
    as_client = parse({"acl.sync.write.hosts": "10.0.0.1", "link.identity": "client"})
    assert ("orders", WRITE) not in found([], narrowed, config=as_client)
    assert found([acl(WRITE)], narrowed, config=as_client)["orders", WRITE] == (True, False, True)
    others = parse(
        {
            "link.client.topic.filters": '{"topicFilters": [{"name": "x", "patternType": "LITERAL", '
            '"filterType": "INCLUDE"}]}'
        }
    )
    assert found([acl(WRITE)], [acl(WRITE)], config=others)["orders", WRITE] == (True, True, False)


def test_a_mirror_topic_is_not_changed():
    assert found([acl(DELETE)], [acl(DELETE)])["orders", DELETE] == (True, True, False)
    assert found([acl(DELETE)], [acl(DELETE)], PROMOTED)["orders", DELETE] == (True, True, True)


def test_what_is_the_gateways_own():
    assert found([], [acl(READ, "__lockgate_state")])["__lockgate_state", READ] == (False, True, False)


def test_names_with_the_links_prefix():
    config = parse({"link.prefix": "w.", "consumer.group.prefix.enable": "true"})
    mirrors = {"w.orders": MirrorTopic("orders", promoted=True)}
    rights = found(
        [acl(READ), acl(READ, "g", kind=GROUP)], [acl(READ, "w.", prefixed=True)], mirrors=mirrors, config=config
    )
    assert rights["w.orders", READ] == (True, True, True)
    assert rights["w.g", READ] == (True, False, False)


def test_a_pattern_is_about_the_mirror_topics():
    rights = found([acl(READ, "ord", prefixed=True)], [])
    assert rights["orders", READ] == rights["ord", READ] == (True, False, False)
    assert set(found([acl(READ), acl(READ, "x")], [], only="orders")) == {("orders", READ), ("orders", DESCRIBE)}


def test_where_a_client_comes_from():
    here = [acl(READ, host="10.1.1.1")]
    assert found(here, here) == {}
    assert found(here, here, host="10.1.1.1")["orders", READ] == (True, True, False)  # brokers see the gateway


def test_a_cluster_without_an_authorizer():
    scene = AccessScene(config=LinkConfig(), source=Rights(None, "User:a"), target=Rights([], "User:a"), only="orders")
    assert all(row.source and not row.target for row in compare(scene))


def test_there_is_a_most(monkeypatch):
    monkeypatch.setattr(rules, "ROWS", 3)
    with pytest.raises(TooManyAcls, match="more than 3 rights"):
        found([acl(READ), acl(READ, "x")], [])
