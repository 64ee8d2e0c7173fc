"""What is synced from a source topic, over Kafka's versions."""

from __future__ import annotations

import pytest

from gateway.kafka.rules.topic_configs import (
    AFTER_MAX,
    ALWAYS_SYNCED,
    BEFORE_MAX,
    DEFAULT_SYNCED,
    DIFFERENCE_MAX,
    LIFTED,
    LONG_MAX,
    OWN,
    RETENTION,
    config_changes,
    configs_at_cutover,
    follows_log_starts,
    given_back,
    set_back,
    synced_configs,
    unmirrorable,
)

BASE = {
    "max.message.bytes": "2000000",
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.bytes": "-1",
    "retention.ms": "1000",
    "delete.retention.ms": "5",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": LONG_MAX,
    "segment.bytes": "77",
    "compression.type": "producer",
}
OLD = BASE | {DIFFERENCE_MAX: LONG_MAX}  # before 3.6
BOTH = OLD | {BEFORE_MAX: LONG_MAX, AFTER_MAX: LONG_MAX}  # 3.6 to 3.9
NEW = BASE | {BEFORE_MAX: LONG_MAX, AFTER_MAX: "3600000"}  # 4.0 on


def test_the_lists_are_confluents():
    assert set(ALWAYS_SYNCED) == {
        "max.message.bytes",
        "cleanup.policy",
        "message.timestamp.type",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    }
    assert set(DEFAULT_SYNCED) == {
        "retention.bytes",
        "retention.ms",
        "delete.retention.ms",
        "min.compaction.lag.ms",
        "max.compaction.lag.ms",
    }


def test_effective_values_are_taken_over_and_limits_lifted():
    synced = synced_configs(NEW, NEW, DEFAULT_SYNCED)

    assert synced.apply == {
        **{name: NEW[name] for name in (*ALWAYS_SYNCED, *DEFAULT_SYNCED) if name in NEW},
        **LIFTED,
        BEFORE_MAX: LONG_MAX,
        AFTER_MAX: LONG_MAX,
    }
    assert synced.restore == {
        BEFORE_MAX: LONG_MAX,
        AFTER_MAX: "3600000",
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": "2000000",
        "retention.bytes": "-1",
        "retention.ms": "1000",
        "compression.type": OWN,
    }


def test_what_is_not_included_is_the_targets_own():
    synced = synced_configs(NEW, NEW, (*RETENTION,), {"compression.type": "zstd"})

    assert (synced.restore["retention.ms"], synced.restore["compression.type"]) == ("1000", "zstd")
    assert synced.restore["max.message.bytes"] == "2000000"
    assert {"segment.bytes", "delete.retention.ms"}.isdisjoint(synced.apply)


def test_timestamps_are_the_sources_while_mirrored_and_the_topics_again_afterwards():
    synced = synced_configs(NEW | {"message.timestamp.type": "LogAppendTime"}, NEW, ())

    assert synced.apply["message.timestamp.type"] == "CreateTime"
    assert synced.restore["message.timestamp.type"] == "LogAppendTime"


def test_batches_stay_compressed_as_they_are_until_promote():
    synced = synced_configs(NEW | {"compression.type": "zstd"}, NEW, ("compression.type",))
    assert (synced.apply["compression.type"], synced.restore["compression.type"]) == ("producer", "zstd")

    left_out = synced_configs(NEW | {"compression.type": "zstd"}, NEW, ())
    assert (left_out.apply["compression.type"], left_out.restore["compression.type"]) == ("producer", OWN)


def test_what_a_topic_had_no_value_of_its_own_for_goes_back_to_the_default():
    assert set_back({"a": "1", "b": OWN}) == ({"a": "1"}, ("b",))


def test_optional_ones_can_be_included():
    assert synced_configs(NEW, NEW, ("segment.bytes",)).apply["segment.bytes"] == "77"


@pytest.mark.parametrize(
    ("source", "target", "restore"),
    [
        (OLD | {DIFFERENCE_MAX: "500"}, NEW, {BEFORE_MAX: "500", AFTER_MAX: "500"}),
        (OLD, NEW, {BEFORE_MAX: LONG_MAX, AFTER_MAX: LONG_MAX}),
        (BOTH | {BEFORE_MAX: "7", AFTER_MAX: "9"}, NEW, {BEFORE_MAX: "7", AFTER_MAX: "9"}),
        (BOTH | {DIFFERENCE_MAX: "500", BEFORE_MAX: "7"}, NEW, {BEFORE_MAX: "500", AFTER_MAX: "500"}),
        (BOTH | {BEFORE_MAX: "7"}, BOTH, {BEFORE_MAX: "7", AFTER_MAX: LONG_MAX}),
        (NEW | {AFTER_MAX: "9"}, OLD, {DIFFERENCE_MAX: "9"}),
    ],
)
def test_timestamp_limits_between_versions(source, target, restore):
    synced = synced_configs(source, target, ())

    assert {name: synced.restore[name] for name in synced.restore if name not in LIFTED} == restore
    assert {name: synced.apply[name] for name in restore} == dict.fromkeys(restore, LONG_MAX)
    assert synced.apply.keys() <= target.keys()


def test_changes_are_only_what_differs():
    assert config_changes({"a": "1", "b": "2"}, {"a": "1", "b": "3"}) == {"b": "2"}
    assert config_changes({"a": "1"}, {}) == {"a": "1"}
    assert config_changes({"cleanup.policy": "compact,delete"}, {"cleanup.policy": "delete,compact"}) == {}


def test_applying_the_changes_leaves_none():
    wanted = synced_configs(BOTH, NEW, DEFAULT_SYNCED).apply
    changed = NEW | config_changes(wanted, NEW)

    assert config_changes(wanted, changed) == {}


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete, compact"])
def test_compacted_topics_are_refused(policy):
    assert "compact" in unmirrorable(BASE | {"cleanup.policy": policy})


@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
def test_others_are_not(stamps):
    assert unmirrorable(BASE | {"message.timestamp.type": stamps}) == ""


def test_retention_is_lifted_only_where_all_of_it_is_synced():
    assert follows_log_starts(DEFAULT_SYNCED)
    for include in ((), ("retention.ms",), ("retention.bytes", "segment.ms")):
        synced = synced_configs(NEW, NEW, include, {"retention.ms": "9"})
        assert not follows_log_starts(include)
        assert not set(RETENTION) & set(synced.restore)
        assert {name: synced.apply[name] for name in RETENTION if name in synced.apply} == {
            name: NEW[name] for name in RETENTION if name in include
        }


def test_what_is_given_back_is_what_nothing_else_sets():
    lifted = {"retention.ms": "5", "retention.bytes": OWN, "compression.type": "zstd"}
    assert given_back(lifted, synced_configs(NEW, NEW, ())) == {"retention.ms": "5", "retention.bytes": OWN}
    assert given_back(lifted, synced_configs(NEW, NEW, ("retention.ms",))) == {"retention.bytes": OWN}
    assert given_back(lifted, synced_configs(NEW, NEW, RETENTION)) == {}


def test_at_the_cutover_everything_that_differs_is_set():
    """What was lifted, with the origin's newest values, and what the last sync has not seen."""
    copy = {**NEW, **LIFTED, "delete.retention.ms": "1"}
    origin = {**NEW, "retention.ms": "77", "delete.retention.ms": "2"}
    found = configs_at_cutover(origin, copy, DEFAULT_SYNCED, {"compression.type": "zstd"})
    assert found == {
        "delete.retention.ms": "2",
        BEFORE_MAX: LONG_MAX,
        AFTER_MAX: "3600000",
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": "2000000",
        "retention.bytes": "-1",
        "retention.ms": "77",
        "compression.type": "zstd",
    }
