"""What a topic is to have beside its records: configs, log starts, stamps, rights, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, PartitionStart
from tests.simulation.judge.claims import left_on_source, wrong_claims
from tests.simulation.judge.configs import Owned, wrong_configs
from tests.simulation.judge.log_starts import wrong_log_starts
from tests.simulation.judge.logs import Pair
from tests.simulation.judge.rights import lost_or_given
from tests.simulation.judge.stamps import wrong_stamps
from tests.simulation.kafka.acls import ALLOW, DENY, DESCRIBE, LITERAL, TOPIC, WRITE, Acl
from tests.simulation.kafka.topics import TOPIC_DEFAULTS
from tests.simulation.recorder import SOURCE, TARGET
from tests.support.brokers.two_clusters import One

OWNERS = {
    **TOPIC_DEFAULTS["4.3.1"],
    "retention.ms": "1000",
    "retention.bytes": "5000",
    "max.message.bytes": "2000000",
    "message.timestamp.type": "LogAppendTime",
    "min.insync.replicas": "2",
}
LONG_MAX = str(2**63 - 1)
LIFTED = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(2**31 - 1),
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": LONG_MAX,
    "message.timestamp.after.max.ms": LONG_MAX,
}
SYNCED = {name: OWNERS[name] for name in LIFTED}
COPY = {**TOPIC_DEFAULTS["4.3.1"], **LIFTED}
OWNED = Owned.seen(OWNERS, {SOURCE: OWNERS, TARGET: COPY})


def mirror(state: MirrorState = MirrorState.ACTIVE, **more: Any) -> MirrorRecord:
    made = MirrorRecord(
        link="l",
        source_topic="t",
        mirror_topic="t",
        mirror_id=7,
        state=state,
        starts=(PartitionStart(0, 0),),
        readable=True,
    )
    return replace(made, **more)


def stopped(at: int) -> MirrorRecord:
    made = mirror(MirrorState.STOPPED)
    return replace(made, cutover=replace(made.cutover, stopped_at=(at,), stopped_copy_at=(at,)))


def reverse(at: int) -> MirrorRecord:
    made = replace(stopped(at), state=MirrorState.ACTIVE)
    return replace(made, failback=replace(made.failback, direction=MirrorDirection.REVERSE))


# -- configs -------------------------------------------------------------------------------------------------------


def test_a_copy_has_the_lifted_form_and_a_promoted_topic_its_owners() -> None:
    assert not list(wrong_configs(mirror(), OWNED, {SOURCE: OWNERS, TARGET: COPY}, at_rest=True))
    promoted = {SOURCE: OWNERS, TARGET: {**COPY, **SYNCED}}
    assert not list(wrong_configs(stopped(3), OWNED, promoted, at_rest=True))
    back = {SOURCE: {**OWNERS, **LIFTED}, TARGET: {**COPY, **SYNCED}}
    assert not list(wrong_configs(reverse(3), OWNED, back, at_rest=True))


@pytest.mark.parametrize("name", sorted(LIFTED))
def test_what_is_left_lifted_where_clients_write(name: str) -> None:
    if OWNERS[name] == LIFTED[name]:
        return
    now = {SOURCE: OWNERS, TARGET: {**COPY, **SYNCED, name: LIFTED[name]}}
    (what,) = wrong_configs(stopped(3), OWNED, now, at_rest=False)
    assert what == f"{name} is {LIFTED[name]} on the target, which clients write, and {OWNERS[name]} is its owner's"


def test_what_a_record_says_is_to_be_set_back_has_time_until_all_is_at_rest() -> None:
    late = replace(stopped(3), restore_configs={"retention.ms": "1000"})
    now = {SOURCE: OWNERS, TARGET: COPY}
    assert not list(wrong_configs(late, OWNED, now, at_rest=False))
    assert "retention.ms of a topic that clients write are not set back" in list(
        wrong_configs(late, OWNED, now, at_rest=True)
    )


def test_a_copy_with_a_retention_of_its_own() -> None:
    now = {SOURCE: OWNERS, TARGET: {**COPY, "retention.ms": "1000"}}
    (what,) = wrong_configs(mirror(), OWNED, now, at_rest=True)
    assert what.startswith("retention.ms is 1000 on the target, the copy")


def test_what_is_not_synced_stays_as_it_was_and_what_the_owner_changes_follows() -> None:
    now = {SOURCE: {**OWNERS, "min.insync.replicas": "1"}, TARGET: COPY}
    assert ["min.insync.replicas is 1" in what for what in wrong_configs(mirror(), OWNED, now, at_rest=True)] == [True]
    changed = OWNED.changed({"delete.retention.ms": "5"})
    now = {SOURCE: {**OWNERS, "delete.retention.ms": "5"}, TARGET: COPY}
    assert not list(wrong_configs(mirror(), changed, now, at_rest=False))  # the next sync brings it
    assert "delete.retention.ms is 86400000 on the target" in next(wrong_configs(mirror(), changed, now, at_rest=True))


# -- log starts ----------------------------------------------------------------------------------------------------


def logs(start: int, end: int = 10) -> Any:
    return SimpleNamespace(log_range=lambda topic, index: (start, end, end, end))


@pytest.mark.parametrize(
    ("origin", "copy", "said"),
    [(4, 4, []), (4, 0, ["it did not follow"]), (0, 4, ["records that the origin has are gone"])],
)
def test_a_copy_starts_where_its_origin_does(origin: int, copy: int, said: Sequence[str]) -> None:
    for record, source, target in ((mirror(), origin, copy), (reverse(0), copy, origin)):
        found = list(wrong_log_starts(record, logs(source), logs(target), 1))
        assert [what.rpartition(": ")[2] for what in found] == said


def test_nobody_says_where_the_logs_of_a_promoted_topic_start() -> None:
    assert not list(wrong_log_starts(stopped(3), logs(0), logs(4), 1))


# -- stamps --------------------------------------------------------------------------------------------------------


def cluster(*batches: tuple[int, bool], producer_id: int = -1) -> Any:
    """A batch of two records at each offset. The flag: stamped by the broker."""
    made = [
        SimpleNamespace(
            header=SimpleNamespace(
                base_offset=at, is_control=False, is_log_append_time=stamped, count=2, producer_id=producer_id
            )
        )
        for at, stamped in batches
    ]
    partition = SimpleNamespace(best=SimpleNamespace(log=SimpleNamespace(batches=made)))
    return SimpleNamespace(lookup=lambda topic, index: partition, partition=lambda topic, index: partition)


def test_what_is_written_behind_a_cutover_has_the_topics_stamps() -> None:
    target = cluster((0, False), (4, True), (6, True))
    assert not list(wrong_stamps(stopped(4), "LogAppendTime", cluster(), target))
    late = cluster((0, False), (4, False), (6, True))
    (what,) = wrong_stamps(stopped(4), "LogAppendTime", cluster(), late)
    assert what.startswith("2 records of partition 0 behind the cutover at 4 on the target do not have LogAppendTime")
    assert list(wrong_stamps(stopped(4), "CreateTime", cluster(), target))


def test_also_behind_the_way_home() -> None:
    home = mirror()
    home = replace(home, failback=replace(home.failback, epoch=1, handed_over_at=(4,), handed_over_from=(4,)))
    assert list(wrong_stamps(home, "LogAppendTime", cluster((0, True), (4, False)), cluster()))
    assert not list(wrong_stamps(home, "LogAppendTime", cluster((0, False), (4, True)), cluster()))


# -- rights --------------------------------------------------------------------------------------------------------


def acl(who: str = "User:a", permission: int = ALLOW, host: str = "*") -> Acl:
    return Acl(TOPIC, "t", LITERAL, who, host, WRITE, permission)


def test_a_right_is_lost_when_what_replaces_it_is_refused() -> None:
    narrow = acl(host="10.0.0.1")
    assert not list(lost_or_given({narrow}, {narrow, acl()}, [{acl()}], ()))
    (what,) = lost_or_given({narrow}, (), [{acl()}], ())
    assert what == f"User:a has lost operation {WRITE} on t, which the source gives him"
    assert not list(lost_or_given({narrow}, (), [{acl()}, ()], ()))  # the source has taken it, too


def test_to_write_brings_describe_along_and_forbidding_it_does_not_take_that() -> None:
    both = {acl(), acl(permission=DENY)}
    looks = acl()._replace(operation=DESCRIBE)
    assert not list(lost_or_given((), {looks, acl(permission=DENY)}, [both], ()))


def test_a_right_is_given_when_what_forbids_it_is_refused() -> None:
    both = {acl(), acl(permission=DENY)}
    (what,) = lost_or_given((), {acl()}, [both], ())
    assert what == f"User:a was given operation {WRITE} on t, which the source does not give him"
    assert not list(lost_or_given((), both, [both], ()))
    assert not list(lost_or_given((), {acl()}, [()], {acl()}))  # the target's own


# -- claims --------------------------------------------------------------------------------------------------------


def shown(**more: Any) -> dict[str, Any]:
    return {"records_after_cutover": {}, "clients_not_migrated": None, "undo": None, **more}


@pytest.mark.parametrize("record", [stopped(4), reverse(4)], ids=["promoted", "mirrored back"])
def test_records_on_the_source_that_no_mirror_has_brought(record: MirrorRecord) -> None:
    back = mirror_producer_id(3, record.mirror_id, 0, reverse=True)
    assert not left_on_source(record, 3, cluster((0, False), (4, False), producer_id=back), 1)
    left = left_on_source(record, 3, cluster((0, False), (4, False), producer_id=5), 1)
    assert left == {0: 2}
    (what,) = wrong_claims(record, shown(), [], left, ())
    assert what == "2 records were left on the source's partition 0, and it tells of none"
    assert not list(wrong_claims(record, shown(records_after_cutover={"0": 2}), [], left, ()))


def test_records_that_are_told_of_and_are_not_there() -> None:
    assert list(wrong_claims(stopped(4), shown(records_after_cutover={"0": 2}), [], {}, ()))


def test_records_that_a_lost_target_would_take_along() -> None:
    record, one = reverse(0), One(0, None, b"a")
    pair = Pair(record, 0, [], [one], 0, 0)
    (what,) = wrong_claims(record, shown(undo={"records_at_risk": 0}), [pair], {}, ())
    assert what == "0 records are said to be at risk, and the source lacks 1"
    assert not list(wrong_claims(record, shown(undo={"records_at_risk": None}), [pair], {}, ()))


def test_who_reads_on_the_source() -> None:
    clients = {"readers": [{"group": "told"}], "bypassed_last_minute": 0}
    found = list(wrong_claims(mirror(), shown(clients_not_migrated=clients), [], {}, {"there"}))
    assert found == [
        "group there reads on the source, and it names no member of it",
        "group told is said to read on the source, and has no member there",
    ]
