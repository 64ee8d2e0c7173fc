import math

import pytest

from gateway.jobs.plan.assess import Fate, catch_up_s, duration, make_plan, plan_group, plan_topic
from gateway.jobs.plan.facts import BatchSample, CopyRates, GroupFacts, Inventory, PlanFacts, TargetFacts

GB = 10**9


def topic(name: str = "orders", **changes: object) -> PlanFacts:
    plain: dict[str, object] = {
        "name": name,
        "partitions": 3,
        "replication_factor": 3,
        "bytes": GB,
        "offsets": 1_000_000,
        "offsets_per_s": 0.0,
        "configs": {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "min.insync.replicas": "2"},
    }
    return PlanFacts(**{**plain, **changes})  # type: ignore[arg-type]


def target(**changes: object) -> TargetFacts:
    plain: dict[str, object] = {
        "cluster_id": "t",
        "brokers": 3,
        "topics": {},
        "config_names": frozenset({"retention.ms"}),
    }
    return TargetFacts(**{**plain, **changes})  # type: ignore[arg-type]


def group(**changes: object) -> GroupFacts:
    plain: dict[str, object] = {"name": "g", "type": "classic", "protocol_type": "consumer", "state": "Stable"}
    return GroupFacts(**{**plain, **changes})  # type: ignore[arg-type]


def test_a_plain_topic_is_preserved() -> None:
    found = plan_topic(topic(sample=BatchSample(batches=5, idempotent=5)), target())
    assert (found.fate, found.reasons, found.blockers) == (Fate.PRESERVED, (), ())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"configs": {"cleanup.policy": "compact"}}, "compact"),
        ({"sample": BatchSample(transactional=1)}, "transactional producers"),
        ({"sample": BatchSample(control=1)}, "transactional producers"),
        ({"sample": BatchSample(with_gaps=1)}, "gaps"),
    ],
)
def test_what_cannot_be_preserved(changes: dict[str, object], reason: str) -> None:
    found = plan_topic(topic("odd", **changes), None)
    assert (found.fate, found.blockers) == (Fate.TRANSLATED, ())
    assert any(reason in text for text in found.reasons)


def test_what_is_changed_on_the_way() -> None:
    found = plan_topic(topic("odd", configs={"message.timestamp.type": "LogAppendTime"}), None)
    assert (found.fate, found.reasons) == (Fate.PRESERVED, ())
    assert "LogAppendTime" in found.notes[0]


def test_what_the_target_has_against_it() -> None:
    found = plan_topic(topic(), target(topics={"orders": 7}, brokers=1))
    assert found.blockers == (
        "the target has a topic orders with 7 records",
        "min.insync.replicas is 2, the target has 1 broker(s)",
    )
    assert plan_topic(topic(), target(topics={"orders": 0})).blockers == ()


def test_configs_that_stay_behind() -> None:
    own = frozenset({"retention.ms", "confluent.tier.enable", "segment.bytes"})
    assert plan_topic(topic(own=own), None).left_behind == ("confluent.tier.enable",)
    assert plan_topic(topic(own=own), target()).left_behind == ("confluent.tier.enable", "segment.bytes")


def test_groups() -> None:
    assert plan_group(group(topics=("orders",)), {"orders"}).moves
    assert plan_group(group(topics=("orders", "other")), {"orders"}).reason == "offsets stay behind of: other"
    assert not plan_group(group(topics=("other",)), {"orders"}).moves
    assert not plan_group(group(protocol_type="connect"), {"orders"}).moves
    shared = plan_group(group(type="share", protocol_type="share"), {"orders"})
    assert (shared.moves, shared.reason) == (True, "records that it acknowledged out of order are delivered again")
    streams = plan_group(group(type="streams", protocol_type="streams", topics=("orders", "other")), {"orders"})
    assert streams.reason.endswith("are mirrored, too; offsets stay behind of: other")


def test_catch_up() -> None:
    assert catch_up_s([topic()], CopyRates(total=10.0**8)) == 10
    # 1,000 bytes an offset, 50,000 offsets a second: half of the rate is needed for what is new
    assert catch_up_s([topic(offsets_per_s=50_000.0)], CopyRates(total=10.0**8)) == 20
    assert catch_up_s([topic(offsets_per_s=100_000.0)], CopyRates(total=10.0**8)) == math.inf
    assert catch_up_s([topic(bytes=-1)], CopyRates(total=10.0**8)) is None
    assert catch_up_s([topic()], CopyRates(total=0)) is None
    assert catch_up_s([], CopyRates(total=1.0)) == 0
    assert [duration(at) for at in (None, math.inf, 3, 7200, 3 * 86_400)] == [
        "not known",
        "never",
        "3 s",
        "2.0 h",
        "3.0 d",
    ]


def test_a_plan_names_its_blockers() -> None:
    busy = topic("busy", offsets_per_s=1e6)
    found = make_plan(
        Inventory(cluster_id="s", brokers=3, topics=(topic("a"), busy), target=target(topics={"a": 1})),
        CopyRates(total=1e6, asked_for=True),
    )
    assert found.blockers == (
        "a: the target has a topic a with 1 records",
        "records are written faster than they can be copied: catch-up would never end",
    )


def test_a_rate_that_was_measured_with_one_reader_blocks_nothing() -> None:
    """200 MB/s are written, one reader got 150: more readers get more."""
    busy = topic("busy", offsets_per_s=200_000.0)
    found = make_plan(Inventory(cluster_id="s", brokers=3, topics=(busy,)), CopyRates(total=150e6, one=150e6))
    assert found.blockers == ()
    assert "200.0 MB/s are written, more than the 150.0 MB/s that were measured" in found.notes[0]
    assert "how fast the target is written is not known" in found.notes[1]


def test_the_largest_partition_takes_its_time() -> None:
    skewed = topic(bytes=10 * GB, largest_bytes=9 * GB)
    assert catch_up_s([skewed], CopyRates(total=1e9, one=1e8)) == 90
    assert catch_up_s([topic(bytes=10 * GB, largest_bytes=GB)], CopyRates(total=1e9, one=1e8)) == 10


def test_room_on_the_target_with_replicas() -> None:
    inventory = Inventory(cluster_id="s", brokers=3, topics=(topic(),), target=target(brokers=2))
    assert make_plan(inventory, CopyRates(total=1e8, asked_for=True)).notes == (
        "the copy takes 2.0 GB on the target, with its replicas",
    )


def test_what_is_not_copied_takes_no_room_and_no_time() -> None:
    unread = topic("secret", bytes=-1, offsets_per_s=1e9, sample=BatchSample(unread="secret-0: no"))
    inventory = Inventory(cluster_id="s", brokers=3, topics=(topic(), unread), target=target(brokers=2))
    found = make_plan(inventory, CopyRates(total=1e8, read=1e8, written=1e8))
    assert (found.catch_up_s, found.notes[-1]) == (10, "the copy takes 2.0 GB on the target, with its replicas")
    too_fast = Inventory(cluster_id="s", brokers=3, topics=(topic(offsets_per_s=2e5), unread), target=None)
    assert make_plan(too_fast, CopyRates(total=1e8)).notes[0].startswith("200.0 MB/s are written")


def test_a_topic_that_cannot_be_read_is_not_preserved() -> None:
    found = plan_topic(
        topic(sample=BatchSample(unread="orders-0: TOPIC_AUTHORIZATION_FAILED") + BatchSample(batches=1)), None
    )
    assert found.fate is Fate.REFUSED
    assert found.blockers == (
        "it cannot be read, so nothing is known of its records: orders-0: TOPIC_AUTHORIZATION_FAILED",
    )


def test_records_of_an_old_format_are_said() -> None:
    found = plan_topic(topic(sample=BatchSample(old_format=1)), None)
    assert (found.fate, found.blockers) == (Fate.PRESERVED, ())
    assert "format v0 or v1" in found.notes[0]


def test_what_the_target_would_not_create() -> None:
    found = plan_topic(topic(), target(prefix="west.", refused={"orders": "this user may not create it"}))
    assert found.blockers == ("the target's topic west.orders: this user may not create it",)


def test_the_slower_side_counts() -> None:
    inventory = Inventory(cluster_id="s", brokers=3, topics=(topic(),))
    notes = make_plan(inventory, CopyRates(total=5e7, one=5e7, read=1e8, written=5e7)).notes
    assert notes == ("read at 100.0 MB/s, written at 50.0 MB/s: the slower one counts",)


def test_tiered_storage_is_said() -> None:
    (note,) = plan_topic(topic(configs={"remote.storage.enable": "true"}), None).notes
    assert "never taken for the end of the log" in note


def test_rights_on_the_target() -> None:
    describe_only = target(operations={"orders": 1 << 8}, on_cluster=0, prefix="w.")
    found = plan_topic(topic(), describe_only)
    assert found.fate is Fate.PRESERVED
    assert found.blockers[1] == "the target's topic w.orders: this user lacks WRITE on it: records are appended to it"
    assert "lacks ALTER on the target's topic w.orders" in found.notes[0]
    assert plan_topic(topic(), target()).blockers == (), "a target that does not tell is no blocker"

    inventory = Inventory(cluster_id="s", brokers=1, topics=(topic(),), target=describe_only)
    assert any(
        "lacks DESCRIBE on the target's cluster" in text for text in make_plan(inventory, CopyRates(total=1e6)).notes
    )
