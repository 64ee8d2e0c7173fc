"""Link options: defaults, values, and one line per mistake."""

from __future__ import annotations

import pytest

from gateway.state.ack import Ack
from gateway.state.link_config import (
    EARLIEST,
    LATEST,
    OPTION_NAMES,
    LinkConfig,
    LinkConfigError,
    LinkIdentity,
    as_stored,
    parse,
    with_defaults,
)
from gateway.state.name_filters import NameFilter, NameFilters

FILTERS = '{"groupFilters": [{"name": "app-", "patternType": "PREFIXED", "filterType": "INCLUDE"}]}'


def test_no_option_is_all_defaults():
    assert parse({}) == LinkConfig()
    assert parse({}).start_timestamp == EARLIEST


def test_the_shown_defaults_are_the_real_ones():
    shown = with_defaults({})

    assert parse({name: value for name, value in shown.items() if value}) == LinkConfig()
    assert shown.keys() < OPTION_NAMES  # the others are second names


def test_all_options():
    config = parse(
        {
            "ack": "both",
            "client.rack": "eu-1b",
            "mirror.start.offset.spec": "latest",
            "topic.config.sync.include": "retention.ms, segment.bytes",
            "topic.config.sync.ms": "5000",
            "throttle.bytes.per.second": "1000000",
            "replication.factor": "3",
            "link.prefix": "usa_",
            "consumer.group.prefix.enable": "true",
            "consumer.offset.sync.enable": "true",
            "consumer.offset.sync.ms": "1000",
            "consumer.offset.group.filters": FILTERS,
            "link.client.topic.filters": FILTERS.replace("group", "topic"),
            "link.allow.unauthorized.target": "true",
            "link.identity": "client",
            "groups.auto.promote": "false",
        }
    )

    assert config == LinkConfig(
        ack=Ack.BOTH,
        client_rack="eu-1b",
        start_timestamp=LATEST,
        sync_include=("retention.ms", "segment.bytes"),
        sync_ms=5000,
        throttle_bytes_per_second=1_000_000,
        replication_factor=3,
        groups_auto_promote=False,
        prefix="usa_",
        prefix_groups=True,
        offset_sync=True,
        offset_sync_ms=1000,
        offset_sync_groups=NameFilters((NameFilter("app-", prefixed=True, exclude=False),)),
        client_topics=NameFilters((NameFilter("app-", prefixed=True, exclude=False),)),
        allow_unauthorized_target=True,
        identity=LinkIdentity.CLIENT,
    )


def test_second_names_are_shown_under_the_first():
    configs = {"cluster.link.prefix": "eu-", "offset.sync.enable": "true", "offset.sync.interval.ms": "2000"}

    config, shown = parse(configs), with_defaults(configs)

    assert (config.prefix, config.offset_sync, config.offset_sync_ms) == ("eu-", True, 2000)
    assert shown["link.prefix"] == "eu-"
    assert "offset.sync.enable" not in shown


@pytest.mark.parametrize("groups", [True, False])
def test_names_through_a_prefix_and_back(groups):
    config = parse({"link.prefix": "usa_", "consumer.group.prefix.enable": str(groups)})

    assert config.mirror_topic("clicks") == "usa_clicks"
    assert [config.source_topic(name) for name in ("usa_clicks", "clicks", "usa_")] == ["clicks", None, None]
    assert config.target_group("g") == ("usa_g" if groups else "g")
    assert config.source_group("g") == (None if groups else "g")
    assert config.source_group(config.target_group("g")) == "g"


def test_without_a_prefix_names_are_the_same():
    config = parse({})

    assert config.mirror_topic("clicks") == config.source_topic("clicks") == "clicks"
    assert config.target_group("g") == config.source_group("g") == "g"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", -2),
        ("latest", -1),
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
    ],
)
def test_start_offsets(text, expected):
    assert parse({"mirror.start.offset.spec": text}).start_timestamp == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ack", "all"),
        ("client.rack", "x" * 256),
        ("mirror.start.offset.spec", "yesterday"),
        ("mirror.start.offset.spec", "-1"),
        ("mirror.start.offset.spec", "1900-01-01T00:00:00Z"),
        ("topic.config.sync.include", "retention.ms,no.such.config"),
        ("topic.config.sync.ms", "10"),
        ("throttle.bytes.per.second", "-1"),
        ("throttle.bytes.per.second", "1MB"),
        ("replication.factor", "0"),
        ("groups.auto.promote", "yes"),
        ("link.prefix", "thirteen_char"),
        ("link.prefix", "a/b"),
        ("link.prefix", "__x"),
        ("consumer.group.prefix.enable", "true"),
        ("consumer.offset.sync.ms", "10"),
        ("consumer.offset.group.filters", "g1,g2"),
        ("no.such.option", "1"),
    ],
)
def test_mistakes_are_one_line_that_names_the_option(name, value):
    with pytest.raises(LinkConfigError) as error:
        parse({name: value})

    assert str(error.value).startswith(f"{name}: ")
    assert "\n" not in str(error.value)


def test_an_option_under_both_its_names_is_a_mistake():
    with pytest.raises(LinkConfigError, match="the same as link.prefix"):
        parse({"link.prefix": "a", "cluster.link.prefix": "b"})


TOPICS = FILTERS.replace("group", "topic")
AUTO = "auto.create.mirror.topics."


def test_auto_create():
    config = parse({f"{AUTO}enable": "true", f"{AUTO}filters": TOPICS, f"{AUTO}limit": "7"})
    assert (config.auto_create, config.auto_create_limit) == (True, 7)
    assert config.auto_create_filters == NameFilters((NameFilter("app-", prefixed=True, exclude=False),))


@pytest.mark.parametrize("filters", ["", '{"topicFilters": []}'])
def test_auto_create_needs_a_filter(filters):
    with pytest.raises(LinkConfigError, match="filters with at least one filter"):
        parse({f"{AUTO}enable": "true", f"{AUTO}filters": filters})


def test_filters_without_auto_create_are_a_mistake():
    with pytest.raises(LinkConfigError, match="enable=true"):
        parse({f"{AUTO}filters": TOPICS})


def test_switching_auto_create_off_clears_its_filters():
    configs = {f"{AUTO}enable": "False", f"{AUTO}filters": TOPICS}
    assert as_stored(configs) == {f"{AUTO}enable": "False"}
    assert not parse(configs).auto_create_filters.filters
    assert with_defaults(configs)[f"{AUTO}filters"] == ""


@pytest.mark.parametrize("limit", ["0", "10001", "many"])
def test_a_limit_is_a_number_of_topics(limit):
    with pytest.raises(LinkConfigError, match="limit"):
        parse({f"{AUTO}limit": limit})
