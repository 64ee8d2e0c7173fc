"""`acl.filters`: Confluent's JSON, and one line for each mistake in it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.state.acls.acl_options import parse_acl_filters
from gateway.state.link_config import LinkConfigError, as_stored, parse

ANY = {"resourceFilter": {"resourceType": "any", "patternType": "any"}, "accessFilter": {"operation": "any"}}
ACL = Acl(
    ResourceType.TOPIC, PatternType.PREFIXED, "app-", "User:alice", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW
)


def text(*filters: Any) -> str:
    return json.dumps({"aclFilters": list(filters)})


def passes(acl: Acl, resource: dict[str, str] | None = None, access: dict[str, str] | None = None) -> bool:
    return parse_acl_filters(text({"resourceFilter": resource or {}, "accessFilter": access or {}})).passes(acl)


def test_any():
    assert parse_acl_filters(text(ANY)).passes(ACL)
    assert not parse_acl_filters("").passes(ACL)
    assert parse_acl_filters(text(ANY)).resource_types() == set(ResourceType)
    topics = parse_acl_filters(text({"resourceFilter": {"resourceType": "topic"}}))
    assert topics.resource_types() == {ResourceType.TOPIC}


@pytest.mark.parametrize(
    ("resource", "access", "fits"),
    [
        ({"resourceType": "TOPIC"}, {}, True),
        ({"resourceType": "group"}, {}, False),
        ({"patternType": "prefixed", "name": "app-"}, {}, True),
        ({"patternType": "literal"}, {}, False),
        ({"name": "app-x"}, {}, False),
        ({"patternType": "match", "name": "app-x"}, {}, True),
        ({"patternType": "match", "name": "other"}, {}, False),
        ({}, {"principal": "User:alice", "host": "*", "permissionType": "allow"}, True),
        ({}, {"principal": "User:bob"}, False),
        ({}, {"operation": "describe-configs"}, True),
        ({}, {"operation": "READ"}, False),
        ({}, {"permissionType": "deny"}, False),
        ({}, {"host": "10.0.0.1"}, False),
    ],
)
def test_each_field(resource, access, fits):
    assert passes(ACL, resource, access) is fits


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "not JSON"),
        ('{"filters": []}', 'must be a JSON object with one array, as in {"aclFilters": [...]}'),
        (text({}), "aclFilters[0]: must have resourceFilter and accessFilter and nothing else"),
        (text({"resourceFilter": []}), "aclFilters[0].resourceFilter: must be an object"),
        (text(ANY, {"resourceFilter": {"type": "topic"}}), "aclFilters[1].resourceFilter: 'type' is not one of name"),
        (text({"resourceFilter": {"resourceType": "disk"}}), "resourceType 'disk' is not one of any, topic, group"),
        (text({"resourceFilter": {"patternType": "match"}}), "patternType match needs a name"),
        (text({"resourceFilter": {"patternType": "glob"}}), "'glob' is not one of any, match, literal, prefixed"),
        (text({"accessFilter": {"principal": "alice"}}), "principal 'alice' is not of the form User:NAME"),
        (text({"accessFilter": {"host": 1}}), "aclFilters[0].accessFilter: host must be a non-empty string"),
        (text(*[ANY] * 1001), "aclFilters has 1001 entries, 1000 are possible"),
    ],
)
def test_mistakes(value, words):
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        parse_acl_filters(value)
    assert "\n" not in str(raised.value)


def test_options_of_a_link():
    on = {"acl.sync.enable": "true", "acl.filters": text(ANY), "acl.sync.write.hosts": "10.0.0.1, ::1"}

    assert parse(on).acl_write_hosts == ("10.0.0.1", "0:0:0:0:0:0:0:1")
    assert parse(on).acl_sync_ms == 5000
    assert as_stored({**on, "acl.sync.enable": "false"}).keys() == {"acl.sync.enable", "acl.sync.write.hosts"}
    for configs, words in (
        ({"acl.sync.enable": "true"}, "acl.sync.enable: needs acl.filters with at least one filter"),
        ({"acl.filters": text(ANY)}, "acl.filters: needs acl.sync.enable=true"),
        ({"acl.sync.write.hosts": "gw-1"}, "acl.sync.write.hosts: 'gw-1' is not an IP address"),
        ({"acl.sync.principal.mapping.rules": "RULE:x"}, "acl.sync.principal.mapping.rules: 'RULE:x' does not begin"),
        ({"acl.sync.ms": "10"}, "acl.sync.ms: '10' is not a whole number from 1000"),
    ):
        with pytest.raises(LinkConfigError) as raised:
            parse(configs)
        assert str(raised.value).startswith(words)
