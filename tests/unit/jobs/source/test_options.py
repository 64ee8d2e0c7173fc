"""Options have the names, the defaults and the meaning of Spark's own Kafka source; what cannot be had says so."""

from __future__ import annotations

import logging

import pytest

from gateway.jobs.schemas import BATCHES
from gateway.jobs.source.batches import KafkaBatches
from gateway.jobs.source.options import parse
from gateway.jobs.source.records import KafkaRecords, micros

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


def test_names_and_defaults_of_sparks_own() -> None:
    plain = parse(BASE)
    assert (plain.fail_on_data_loss, plain.starting, plain.or_latest) == (True, None, False)
    more = parse(
        {
            **BASE,
            "failOnDataLoss": "false",
            "maxOffsetsPerTrigger": "7",
            "maxRecordsPerPartition": "9",
            "startingOffsetsByTimestamp": '{"t": {"1": 5}}',
            "startingTimestamp": "6",
            "endingTimestamp": "8",
            "endingOffsetsByTimestamp": '{"t": {"0": 4}}',
            "startingOffsetsByTimestampStrategy": "latest",
        }
    )
    assert not more.fail_on_data_loss
    assert (more.max_offsets_per_trigger, more.max_records_per_partition, more.or_latest) == (7, 9, True)
    assert more.starting_times is not None
    assert [more.starting_times.of(("t", index)) for index in (0, 1)] == [None, 5]
    assert [times.of(("t", 3)) for times in (more.starting_time, more.ending_time) if times] == [6, 8]


@pytest.mark.parametrize("name", ["groupIdPrefix", "kafka.group.id", "kafka.fetch.max.bytes", "fetchOffset.numRetries"])
def test_what_has_no_effect_is_passed_over_with_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert parse({**BASE, name: "1"}) == parse(BASE)
    assert f"option {name.lower()} has no effect" in caplog.text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kafka.ssl.truststore.location", "Java key stores are not read; give PEM"),
        ("kafka.auto.offset.reset", "startingOffsets says where to begin"),
        ("endingOffset", "unknown option"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse({**BASE, name: "1"})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("failOnDataLoss", "perhaps", "failOnDataLoss: 'perhaps' is not true or false"),
        ("startingOffsetsByTimestamp", '{"t": 5}', "startingOffsetsByTimestamp: .* is not"),
        ("startingOffsetsByTimestampStrategy", "first", "'first' is not error or latest"),
        ("maxOffsetsPerTrigger", "0", "maxOffsetsPerTrigger: 0 is too small"),
        ("maxTriggerDelay", "soon", "maxTriggerDelay: 'soon' is no time such as 15m"),
    ],
)
def test_bad_values(name: str, value: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse({**BASE, name: value})


def test_headers_can_be_left_out() -> None:
    assert "headers" in KafkaRecords(BASE).schema().names
    assert "headers" not in KafkaRecords({**BASE, "includeHeaders": "false"}).schema().names


def test_overwrite_is_refused() -> None:
    with pytest.raises(ValueError, match="can only be appended"):
        KafkaBatches(BASE).writer(BATCHES, overwrite=True)


@pytest.mark.parametrize("timestamp", [-1, 0, 1_700_000_000_000, 1_700_000_000_000_000_000, 2**63 - 1, -(2**63)])
def test_timestamps_of_any_size(timestamp: int) -> None:
    assert -(2**63) <= micros(timestamp) < 2**63
    if abs(timestamp) < 10**14:
        assert micros(timestamp) == timestamp * 1000
