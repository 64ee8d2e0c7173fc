"""Link options: defaults, values, and one line per mistake."""

from __future__ import annotations

import pytest

from gateway.domain.link_config import EARLIEST, LATEST, OPTION_NAMES, LinkConfig, LinkConfigError, parse, with_defaults
from gateway.domain.routing import Ack


def test_no_option_is_all_defaults():
    assert parse({}) == LinkConfig()
    assert parse({}).start_timestamp == EARLIEST


def test_the_shown_defaults_are_the_real_ones():
    shown = with_defaults({})

    assert parse({name: value for name, value in shown.items() if value}) == LinkConfig()
    assert shown.keys() == OPTION_NAMES - {"link.prefix"}


def test_all_options():
    config = parse(
        {
            "ack": "both",
            "mirror.start.offset.spec": "latest",
            "topic.config.sync.include": "retention.ms, segment.bytes",
            "topic.config.sync.ms": "5000",
            "throttle.bytes.per.second": "1000000",
            "replication.factor": "3",
            "link.prefix": "",
            "groups.auto.promote": "false",
        }
    )

    assert config == LinkConfig(
        ack=Ack.BOTH,
        start_timestamp=LATEST,
        sync_include=("retention.ms", "segment.bytes"),
        sync_ms=5000,
        throttle_bytes_per_second=1_000_000,
        replication_factor=3,
        groups_auto_promote=False,
    )


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
        ("mirror.start.offset.spec", "yesterday"),
        ("mirror.start.offset.spec", "-1"),
        ("mirror.start.offset.spec", "1900-01-01T00:00:00Z"),
        ("topic.config.sync.include", "retention.ms,no.such.config"),
        ("topic.config.sync.ms", "10"),
        ("throttle.bytes.per.second", "-1"),
        ("throttle.bytes.per.second", "1MB"),
        ("replication.factor", "0"),
        ("groups.auto.promote", "yes"),
        ("link.prefix", "usa_"),
        ("no.such.option", "1"),
    ],
)
def test_mistakes_are_one_line_that_names_the_option(name, value):
    with pytest.raises(LinkConfigError) as error:
        parse({name: value})

    assert str(error.value).startswith(f"{name}: ")
    assert "\n" not in str(error.value)
