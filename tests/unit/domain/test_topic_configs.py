"""What is synced from a source topic, over Kafka's versions."""

from __future__ import annotations

import pytest

from gateway.domain.topic_configs import (
    AFTER_MAX,
    ALWAYS_SYNCED,
    BEFORE_MAX,
    DEFAULT_SYNCED,
    DIFFERENCE_MAX,
    LONG_MAX,
    config_changes,
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
        BEFORE_MAX: LONG_MAX,
        AFTER_MAX: LONG_MAX,
    }
    assert synced.restore == {BEFORE_MAX: LONG_MAX, AFTER_MAX: "3600000"}


def test_what_is_not_included_is_the_targets_own():
    synced = synced_configs(NEW, NEW, ("retention.ms",))

    assert "retention.ms" in synced.apply
    assert "retention.bytes" not in synced.apply
    assert "max.message.bytes" in synced.apply
    assert "segment.bytes" not in synced.apply


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

    assert synced.restore == restore
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


def test_log_append_time_is_refused_and_plain_topics_are_not():
    assert "LogAppendTime" in unmirrorable(BASE | {"message.timestamp.type": "LogAppendTime"})
    assert unmirrorable(BASE) == ""
