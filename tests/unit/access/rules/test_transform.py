"""What the target is to have of the source's ACLs: names, principals, and what is held back of mirror topics."""

from __future__ import annotations

import pytest

from gateway.access.rules import transform
from gateway.access.rules.transform import (
    AclReason,
    TooManyAcls,
    Topics,
    desired_acls,
    granted,
    passing,
    principal_on_target,
)
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.state.link_config import LinkConfig, parse

TOPIC, GROUP, USER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.USER
READ, WRITE, ALL, DESCRIBE = Operation.READ, Operation.WRITE, Operation.ALL, Operation.DESCRIBE
FILTERS = '{"aclFilters": [{"resourceFilter": {"resourceType": "any"}}]}'
GATEWAY = "10.0.0.1"


def acl(
    operation: Operation = WRITE,
    name: str = "orders",
    *,
    kind: ResourceType = TOPIC,
    prefixed: bool = False,
    principal: str = "User:alice",
    host: str = "*",
    deny: bool = False,
) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(kind, pattern, name, principal, host, operation, Permission.DENY if deny else Permission.ALLOW)


def config(**more: str) -> LinkConfig:
    on = {"acl.sync.enable": "true", "acl.filters": FILTERS}
    return parse({**on, **{key.replace("_", "."): value for key, value in more.items()}})


def reasons(source: Acl, **more: str) -> list[AclReason]:
    return [one.reason for one in granted([source], config(**more)).left_out]


def test_writes_of_a_mirror_topic_are_held_back():
    found = desired_acls({acl(WRITE)}, Topics(["orders"]), ())

    assert found.acls == {acl(DESCRIBE)}
    assert found.held == {acl(WRITE)}


def test_writes_of_a_mirror_topic_are_for_the_gateways_hosts():
    found = desired_acls({acl(WRITE)}, Topics(["orders"]), (GATEWAY, "10.0.0.2"))

    assert found.acls == {acl(DESCRIBE), acl(WRITE, host=GATEWAY), acl(WRITE, host="10.0.0.2")}
    assert found.held == {acl(WRITE)}


def test_all_leaves_what_changes_nothing():
    found = desired_acls({acl(ALL)}, Topics(["orders"]), (GATEWAY,))

    left = {acl(each) for each in (READ, Operation.CREATE, DESCRIBE, Operation.DESCRIBE_CONFIGS)}
    assert found.acls == left | {acl(ALL, host=GATEWAY)}


@pytest.mark.parametrize(("host", "kept"), [(GATEWAY, True), ("10.9.9.9", False)])
def test_an_acl_for_one_host_is_never_for_more(host, kept):
    found = desired_acls({acl(WRITE, host=host)}, Topics(["orders"]), (GATEWAY,))

    assert (acl(WRITE, host=host) in found.acls) is kept
    assert all(each.host == host for each in found.acls)
    assert (acl(WRITE, host=host) in found.held) is not kept


@pytest.mark.parametrize("operation", list(Operation))
def test_nothing_that_changes_a_mirror_topic_is_for_all_hosts(operation):
    changing = {WRITE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS, ALL}
    found = desired_acls({acl(operation)}, Topics(["orders"]), (GATEWAY,))

    assert not {each for each in found.acls if each.operation in changing and each.host == "*"}
    assert (acl(operation) in found.acls) is (operation not in changing)


def test_a_promoted_topic_has_all_its_rights():
    assert desired_acls({acl(WRITE)}, Topics([], ["orders"]), ()).acls == {acl(WRITE)}
    assert desired_acls({acl(WRITE)}, Topics(["orders"]), ("*",)).acls == {acl(WRITE)}
    assert desired_acls({acl(WRITE)}, Topics(), ()).held == {acl(WRITE)}  # it may be mirrored any moment


def test_what_denies_is_copied_as_it_is():
    assert desired_acls({acl(WRITE, deny=True)}, Topics(["orders"]), ()).acls == {acl(WRITE, deny=True)}


def test_other_resources_are_copied_as_they_are():
    source = {acl(READ, "app", kind=GROUP), acl(WRITE, "tx", kind=ResourceType.TRANSACTIONAL_ID)}

    assert desired_acls(source, Topics(["app", "tx"]), ()).acls == source


@pytest.mark.parametrize("pattern", [acl(WRITE, "app-", prefixed=True), acl(WRITE, "*")])
def test_a_pattern_waits_for_all_of_its_mirror_topics(pattern):
    literal = pattern._replace(pattern_type=PatternType.LITERAL)
    free = desired_acls({pattern}, Topics([], ["app-a", "app-b"]), ())
    mixed = desired_acls({pattern}, Topics(["app-c"], ["app-a", "app-b"]), ())

    assert free.acls == {pattern}
    assert not free.held
    assert mixed.acls == {pattern._replace(operation=DESCRIBE)} | {
        literal._replace(name=name) for name in ("app-a", "app-b")
    }
    assert mixed.held == {pattern}
    assert desired_acls({pattern}, Topics(), ()).held == {pattern}


def test_a_prefix_is_about_what_begins_so():
    topics = Topics(["app", "apq", "b"], ["app-a", "app-b", "aq"])

    assert list(topics.promoted_of(acl(WRITE, "app-", prefixed=True))) == ["app-a", "app-b"]
    assert topics.are_free(acl(WRITE, "app-", prefixed=True))
    assert not topics.are_free(acl(WRITE, "app", prefixed=True))


def test_names_get_the_links_prefix():
    one = {"link_prefix": "w."}
    both = {**one, "consumer_group_prefix_enable": "true"}

    assert granted([acl(READ)], config(**one)).acls == {acl(READ, "w.orders")}
    assert granted([acl(READ, "*")], config(**one)).acls == {acl(READ, "w.", prefixed=True)}
    assert granted([acl(READ, "a", prefixed=True)], config(**one)).acls == {acl(READ, "w.a", prefixed=True)}
    assert granted([acl(READ, "g", kind=GROUP)], config(**one)).acls == {acl(READ, "g", kind=GROUP)}
    assert granted([acl(READ, "g", kind=GROUP)], config(**both)).acls == {acl(READ, "w.g", kind=GROUP)}
    assert reasons(acl(READ, "o" * 249), **one) == [AclReason.BAD_NAME]


def test_principals_are_mapped():
    rules = "RULE:User:CN=([a-z]+),.*/User:$1/,RULE:User:(team-.*)/$1/"

    assert principal_on_target("User:CN=alice,OU=x", rules) == "User:alice"
    assert principal_on_target("User:team-a", rules) == "User:team-a"
    assert principal_on_target("User:bob", rules) is None
    assert principal_on_target("User:*", rules) == "User:*"
    assert reasons(acl(principal="User:bob"), acl_sync_principal_mapping_rules=rules) == [
        AclReason.PRINCIPAL_NOT_MAPPED
    ]


def test_the_user_of_a_user_acl_is_mapped_as_well():
    about = acl(Operation.CREATE_TOKENS, "User:alice", kind=USER, principal="User:gw")
    found = granted([about], config(acl_sync_principal_mapping_rules="RULE:User:(.*)/User:new-$1/"))

    assert found.acls == {about._replace(name="User:new-alice", principal="User:new-gw")}


def test_the_gateways_own_are_left_out():
    assert reasons(acl(READ, "__lockgate_state")) == [AclReason.OWN_NAME]
    assert reasons(acl(READ, "__lockgate", kind=GROUP, prefixed=True)) == [AclReason.OWN_NAME]
    for pattern in (acl(READ, "*"), acl(READ, "__", prefixed=True)):
        assert reasons(pattern) == [AclReason.OWN_TOPICS]
        assert reasons(pattern, acl_sync_own_topics_enable="true") == []
        assert reasons(pattern._replace(permission=Permission.DENY)) == []
    assert reasons(acl(READ, "*", kind=GROUP)) == []
    assert reasons(acl(READ, "t", kind=ResourceType.DELEGATION_TOKEN)) == [AclReason.NOT_TRANSFERABLE]


def test_there_is_a_most(monkeypatch):
    monkeypatch.setattr(transform, "AT_MOST", 3)
    source = [acl(READ, f"t{index}") for index in range(4)]

    with pytest.raises(TooManyAcls, match="the source has 4 ACLs that acl.filters include, 3 are possible"):
        passing(source, config())
    with pytest.raises(TooManyAcls, match="more than 3 ACLs"):
        desired_acls({acl(WRITE, "t", prefixed=True)}, Topics(["t"], ["t1", "t2", "t3", "t4"]), ())
