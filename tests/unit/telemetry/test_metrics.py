from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gateway.access.acl_sync import AclCounts
from gateway.operations.link_tasks import LinkTask, TaskState, TaskStatus
from gateway.schemas.schema_sync import SchemaCounts
from gateway.state.records import MirrorError, MirrorState
from gateway.telemetry.metrics import _AT_ONCE, Metrics
from gateway.telemetry.numbers import (
    ControlNumbers,
    FleetNumbers,
    GroupNumbers,
    LinkNumbers,
    MigrationNumbers,
    MirrorNumbers,
    ProxyNumbers,
    TokenNumbers,
)
from gateway.topics.auto_create import AutoCreated
from gateway.topics.catch_up import CatchUp
from tests.support.fakes.fake_engine import status


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_before_anything_is_wired_only_the_build_is_shown():
    names = {name for name, _ in samples(Metrics()) if not name.startswith("process_")}
    assert names == {"lockgate_build_info"}


def test_the_process_is_told_of_under_prometheus_own_names():
    shown = samples(Metrics())
    for name in ("process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"):
        assert shown[key(name)] >= 0
    assert shown[key("process_start_time_seconds")] > 0


def test_no_series_says_when_it_began():
    metrics = Metrics()
    metrics.pause_ended("l", "stopped", 0.1, {"drain": 0.1})
    metrics.create_ended("l", "created", 0.1)
    assert [name for name, _ in samples(metrics) if name.endswith("_created")] == []
    assert samples(metrics)[key("lockgate_write_pause_step_seconds_total", link="l", step="drain")] == pytest.approx(
        0.1
    )


async def test_tasks_of_the_event_loop():
    before = samples(Metrics())[key("lockgate_asyncio_tasks")]
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait(), name="waits").cancel()
        assert samples(Metrics())[key("lockgate_asyncio_tasks")] == before + 1


def test_what_is_not_known_has_no_sample():
    metrics = Metrics()
    unknown = status(0, source_end=None, lag=None, lag_ms=None)
    metrics.control = lambda: ControlNumbers(
        links={}, mirrors=[MirrorNumbers("l", "orders", MirrorState.ACTIVE, [unknown])], groups=[]
    )
    names = {name for name, _ in samples(metrics)}
    assert "lockgate_mirror_bytes_per_second" in names
    assert not {"lockgate_mirror_lag_records", "lockgate_mirror_lag_seconds"} & names


def test_errors_of_clients_are_a_ratio_where_enough_answers_were_looked_at():
    metrics = Metrics()
    metrics.control = lambda: ControlNumbers(
        links={},
        mirrors=[],
        groups=[],
        migrations=[
            MigrationNumbers(migration="m", link="l", state="RUNNING", client_errors_percent=2.5, answers_looked_at=80),
            MigrationNumbers(migration="few", link="l", state="RUNNING", answers_looked_at=3),
            MigrationNumbers(migration="without", link="l", state="RUNNING"),
        ],
    )
    found = {
        (name, dict(labels)["migration"]): value
        for (name, labels), value in samples(metrics).items()
        if name in ("lockgate_migration_client_errors_ratio", "lockgate_migration_answers_looked_at")
    }
    assert found == {
        ("lockgate_migration_client_errors_ratio", "m"): 0.025,
        ("lockgate_migration_answers_looked_at", "m"): 80.0,
        ("lockgate_migration_answers_looked_at", "few"): 3.0,
    }


def test_what_keeps_a_migration_is_counted():
    metrics = Metrics()
    stuck = MigrationNumbers(
        migration="m",
        link="l",
        state="RUNNING",
        problems=("no group",),
        refused={"promote a": "lag", "promote b": "lag"},
    )
    metrics.control = lambda: ControlNumbers(links={}, mirrors=[], groups=[], migrations=[stuck])
    found = {name: value for (name, _), value in samples(metrics).items()}
    assert (found["lockgate_migration_problems"], found["lockgate_migration_refused_steps"]) == (1.0, 2.0)


def test_an_undo_that_was_refused_is_told():
    metrics = Metrics()
    topics = [
        MirrorNumbers("l", "t", MirrorState.STOPPED, [], undo_refused=True),
        MirrorNumbers("l", "u", MirrorState.STOPPED, []),
    ]
    metrics.control = lambda: ControlNumbers(links={}, mirrors=topics, groups=[])
    told = {
        dict(labels)["topic"]: v for (n, labels), v in samples(metrics).items() if n == "lockgate_mirror_undo_refused"
    }
    assert told == {"t": 1.0, "u": 0.0}


def test_control():
    metrics = Metrics()
    metrics.control = lambda: ControlNumbers(
        links={"l": True, "m": False},
        mirrors=[
            MirrorNumbers(
                "l",
                "orders",
                MirrorState.PAUSED,
                [
                    status(
                        0,
                        lag=7,
                        lag_ms=1500,
                        records_total=9,
                        bytes_total=99,
                        bypassed_last_minute=3,
                        leader_bytes_total=10,
                        follower_bytes_total=90,
                        queued_bytes=5,
                    )
                ],
            )
        ],
        groups=[GroupNumbers("l", "g", "ACTIVE", 2), GroupNumbers("l", "h", "ACTIVE", 0)],
    )

    found = samples(metrics)

    assert found[key("lockgate_link_up", link="l")] == 1
    assert found[key("lockgate_link_up", link="m")] == 0
    assert found[key("lockgate_mirror_state", link="l", topic="orders", state="PAUSED")] == 1
    assert found[key("lockgate_mirror_state", link="l", topic="orders", state="ACTIVE")] == 0
    partition = {"link": "l", "topic": "orders", "partition": "0"}
    assert found[key("lockgate_mirror_lag_records", **partition)] == 7
    assert found[key("lockgate_mirror_lag_seconds", **partition)] == 1.5
    assert found[key("lockgate_mirror_bytes_per_second", **partition)] == 1000
    assert found[key("lockgate_mirror_records_total", **partition)] == 9
    assert found[key("lockgate_mirror_bytes_total", **partition)] == 99
    assert found[key("lockgate_mirror_bypassed_records", **partition)] == 3
    fetched = {"link": "l", "topic": "orders"}
    assert found[key("lockgate_mirror_fetched_bytes_total", replica="leader", **fetched)] == 10
    assert found[key("lockgate_mirror_fetched_bytes_total", replica="follower", **fetched)] == 90
    assert found[key("lockgate_mirror_queued_bytes", **partition)] == 5
    assert found[key("lockgate_groups", link="l", state="ACTIVE")] == 2
    assert found[key("lockgate_group_held_members", link="l", group="g")] == 2


def test_proxy():
    metrics = Metrics()
    produce = SimpleNamespace(api_key=0, requests=6, request_bytes=600, buckets=(1, 2, 3), latency_sum_s=0.5)
    unknown = SimpleNamespace(api_key=999, requests=1, request_bytes=1, buckets=(0, 0, 1), latency_sum_s=9.0)
    metrics.proxy = lambda: ProxyNumbers(
        bounds_s=(0.1, 1.0),
        apis=[produce, unknown],
        connections=4,
        refused={"rate": 3},
        uncounted_waiters=6,
        held_bytes=1_000,
        unread_connections=2,
        unread_times=9,
        throttled=8,
        tokens={"": TokenNumbers(owners=3, made=8, refused=1), "west": TokenNumbers(owners=2, made=4, refused=0)},
        client_errors={"west": {"authentication": 4}},
        closed={"idle": 2},
        auto_create_refused={"forgotten": 1},
        held={"orders": 5},
        writes_throttled_s={"west": 1.5},
    )

    found = samples(metrics)

    assert found[key("lockgate_requests_total", api="Produce")] == 6
    assert found[key("lockgate_request_bytes_total", api="Produce")] == 600
    assert found[key("lockgate_request_seconds_bucket", api="Produce", le="0.1")] == 1
    assert found[key("lockgate_request_seconds_bucket", api="Produce", le="1.0")] == 3
    assert found[key("lockgate_request_seconds_bucket", api="Produce", le="+Inf")] == 6
    assert found[key("lockgate_request_seconds_count", api="Produce")] == 6
    assert found[key("lockgate_request_seconds_sum", api="Produce")] == 0.5
    assert found[key("lockgate_requests_total", api="999")] == 1
    assert found[key("lockgate_client_connections")] == 4
    assert found[key("lockgate_connections_refused_total", limit="rate")] == 3
    assert found[key("lockgate_waiters_not_counted_total")] == 6
    assert found[key("lockgate_forwarded_writes_throttled_total")] == 8
    assert found[key("lockgate_link_write_throttled_seconds_total", link="west")] == 1.5
    assert found[key("lockgate_held_request_bytes")] == 1_000
    assert found[key("lockgate_client_connections_unread")] == 2
    assert found[key("lockgate_client_connections_unread_total")] == 9
    assert found[key("lockgate_link_client_errors_total", link="west", error="authentication")] == 4
    assert found[key("lockgate_connections_closed_total", reason="idle")] == 2
    assert found[key("lockgate_delegation_tokens", link="")] == 3
    assert found[key("lockgate_delegation_tokens", link="west")] == 2
    assert found[key("lockgate_delegation_tokens_made_total", link="west")] == 4
    assert found[key("lockgate_delegation_tokens_refused_total", link="")] == 1
    assert found[key("lockgate_auto_create_refused_total", topic="forgotten")] == 1
    assert found[key("lockgate_produce_held_total", topic="orders")] == 5


def test_fences():
    metrics = Metrics()
    metrics.pause_ended("l", "stopped", 0.04, {"read_ends": 0.03, "decide": 0.01})
    metrics.pause_ended("l", "stopped", 0.4, {"read_ends": 0.4})

    found = samples(metrics)

    assert found[key("lockgate_write_pause_duration_seconds_count", link="l", outcome="stopped")] == 2
    assert found[key("lockgate_write_pause_duration_seconds_bucket", link="l", outcome="stopped", le="0.05")] == 1
    assert round(found[key("lockgate_write_pause_step_seconds_total", link="l", step="read_ends")], 6) == 0.43
    assert found[key("lockgate_write_pause_step_seconds_total", link="l", step="decide")] == 0.01


def test_buckets_that_do_not_fit_their_bounds_are_an_error():
    metrics = Metrics()
    api = SimpleNamespace(api_key=0, requests=6, request_bytes=600, buckets=(1, 2), latency_sum_s=0.5)
    metrics.proxy = lambda: ProxyNumbers(bounds_s=(0.1, 1.0), apis=[api])

    with pytest.raises(ValueError, match="zip"):
        metrics.render()


def test_failbacks():
    metrics = Metrics()
    back = MirrorNumbers("l", "back", MirrorState.ACTIVE, [], reverse=True)
    lost = MirrorNumbers("l", "lost", MirrorState.STOPPED, [], not_mirrored=7)
    metrics.control = lambda: ControlNumbers(links={}, mirrors=[back, lost], groups=[])

    found = samples(metrics)

    assert [found[key("lockgate_mirror_reversed", link="l", topic=t)] for t in ("back", "lost")] == [1, 0]
    assert [found[key("lockgate_mirror_not_mirrored_records", link="l", topic=t)] for t in ("back", "lost")] == [0, 7]


def test_what_describe_shows_of_a_mirror_topic():
    metrics = Metrics()
    partitions = [status(0, waits_for="the end of a transaction", segments=3), status(1, last_error="not there")]
    job = CatchUp(
        job="j", by="spark", records_done=2, records_total=8, bytes_done=0, bytes_total=0, bytes_per_s=5.0, eta_s=-1
    )
    metrics.control = lambda: ControlNumbers(
        links={},
        mirrors=[
            MirrorNumbers(
                "l",
                "t",
                MirrorState.FAILED,
                partitions,
                state_since_ms=7_500,
                partition_count=3,
                translated=True,
                readable=False,
                error=MirrorError.TARGET_DIVERGED,
                promote_failed=True,
                retries_unknown=1,
                catch_up=job,
            ),
            MirrorNumbers("l", "unmeasured", MirrorState.STOPPED, [], records_after_cutover=None),
        ],
        groups=[],
    )
    found = samples(metrics)
    topic = {"link": "l", "topic": "t"}
    assert found[key("lockgate_mirror_records_after_cutover", **topic)] == 0
    assert key("lockgate_mirror_records_after_cutover", link="l", topic="unmeasured") not in found
    assert found[key("lockgate_mirror_state_timestamp_seconds", **topic)] == 7.5
    assert found[key("lockgate_mirror_translated", **topic)] == 1
    assert found[key("lockgate_mirror_readable", **topic)] == 0
    assert found[key("lockgate_mirror_promote_failed", **topic)] == 1
    assert found[key("lockgate_mirror_retries_unknown_partitions", **topic)] == 1
    assert found[key("lockgate_mirror_waiting_partitions", **topic)] == 1
    assert found[key("lockgate_mirror_failing_partitions", **topic)] == 1
    assert found[key("lockgate_mirror_error", error="TARGET_DIVERGED", **topic)] == 1
    assert found[key("lockgate_mirror_partitions", phase="copying", **topic)] == 2
    assert found[key("lockgate_mirror_partitions", phase="idle", **topic)] == 1
    assert found[key("lockgate_mirror_map_segments", partition="0", **topic)] == 3
    assert found[key("lockgate_catch_up_records", job="j", **topic)] == 8
    assert found[key("lockgate_catch_up_done_records", job="j", **topic)] == 2
    assert key("lockgate_catch_up_eta_seconds", job="j", **topic) not in found


def test_what_is_known_of_a_group():
    metrics = Metrics()
    group = GroupNumbers(
        "l",
        "g",
        "ACTIVE",
        0,
        synced_ms=2_000,
        sync_committed=5,
        sync_errors=2,
        sync_round_s=0.25,
        sync_failing=True,
        state_since_ms=1_000,
        carried=4,
        source_lag={"t": 7},
        target_lag={"t": 9},
    )
    metrics.control = lambda: ControlNumbers(links={}, mirrors=[], groups=[group])
    found = samples(metrics)
    of = {"link": "l", "group": "g"}
    assert found[key("lockgate_group_state", state="ACTIVE", **of)] == 1
    assert found[key("lockgate_group_state_timestamp_seconds", **of)] == 1
    assert found[key("lockgate_group_carried_offsets", **of)] == 4
    assert found[key("lockgate_group_offset_sync_committed_total", **of)] == 5
    assert found[key("lockgate_group_offset_sync_errors_total", **of)] == 2
    assert found[key("lockgate_group_offset_sync_round_seconds", **of)] == 0.25
    assert found[key("lockgate_group_offset_sync_failing", **of)] == 1
    assert found[key("lockgate_group_lag_records", topic="t", side="source", **of)] == 7
    assert found[key("lockgate_group_lag_records", topic="t", side="target", **of)] == 9


def test_creates():
    metrics = Metrics()
    metrics.create_ended("l", "refused", 0.2)
    assert samples(metrics)[key("lockgate_mirror_create_duration_seconds_count", link="l", outcome="refused")] == 1


def test_links_and_what_they_create_by_themselves():
    metrics = Metrics()
    tasks = [
        TaskStatus(LinkTask.AUTO_CREATE_MIRROR, TaskState.IN_ERROR, last_run_ms=4_000),
        TaskStatus(LinkTask.ACL_SYNC, TaskState.NOT_CONFIGURED),
    ]
    west = LinkNumbers(
        link="west",
        state="UNAVAILABLE",
        state_since_ms=3_000,
        error="AUTHENTICATION_ERROR",
        tasks=tasks,
        auto_created=AutoCreated(created=7, refused=2, waiting=100),
        acls=AclCounts(made=5, own=1, held=2, left_out=3, refused=4, created=8, deleted=9),
        schemas=SchemaCounts(
            subjects=5, versions=9, left_out=2, refused=3, registered=8, deleted=1, levels=4, unresolved=6
        ),
    )
    east = LinkNumbers(link="east", state="ACTIVE")
    metrics.control = lambda: ControlNumbers(
        links={"west": False, "east": True}, mirrors=[], groups=[], link_numbers=[west, east]
    )
    found = samples(metrics)
    assert found[key("lockgate_link_state", link="west", state="UNAVAILABLE")] == 1
    assert found[key("lockgate_link_state", link="west", state="ACTIVE")] == 0
    assert found[key("lockgate_link_state_timestamp_seconds", link="west")] == 3
    assert found[key("lockgate_link_error", link="west", error="AUTHENTICATION_ERROR")] == 1
    assert not [name for name, labels in found if name == "lockgate_link_error" and ("link", "east") in labels]
    task = {"link": "west", "task": "AutoCreateMirror"}
    assert found[key("lockgate_link_task_state", state="IN_ERROR", **task)] == 1
    assert found[key("lockgate_link_task_state", state="ACTIVE", **task)] == 0
    assert found[key("lockgate_link_task_run_timestamp_seconds", **task)] == 4
    assert key("lockgate_link_task_run_timestamp_seconds", link="west", task="AclSync") not in found
    assert found[key("lockgate_link_auto_created_topics_total", link="west")] == 7
    assert found[key("lockgate_link_auto_create_refused_topics", link="west")] == 2
    assert found[key("lockgate_link_auto_create_waiting_topics", link="west")] == 100
    assert key("lockgate_link_auto_created_topics_total", link="east") not in found
    assert found[key("lockgate_link_acls", link="west")] == 5
    assert found[key("lockgate_link_acls_held", link="west")] == 2
    assert found[key("lockgate_link_acls_left_out", link="west")] == 3
    assert found[key("lockgate_link_acls_refused", link="west")] == 4
    assert found[key("lockgate_link_acls_created_total", link="west")] == 8
    assert found[key("lockgate_link_acls_deleted_total", link="west")] == 9
    assert key("lockgate_link_acls", link="east") not in found
    assert found[key("lockgate_link_schema_subjects", link="west")] == 5
    assert found[key("lockgate_link_schema_versions", link="west")] == 9
    assert found[key("lockgate_link_schemas_left_out", link="west")] == 2
    assert found[key("lockgate_link_schemas_refused", link="west")] == 3
    assert found[key("lockgate_link_schema_ids_unresolved", link="west")] == 6
    assert found[key("lockgate_link_schemas_registered_total", link="west")] == 8
    assert found[key("lockgate_link_schemas_deleted_total", link="west")] == 1
    assert found[key("lockgate_link_schema_levels_total", link="west")] == 4
    assert key("lockgate_link_schema_subjects", link="east") not in found


def test_who_has_not_moved_and_who_waits():
    metrics = Metrics()
    group = GroupNumbers("l", "g", "ACTIVE", 2, members=3, longest_wait_s=12.5)
    promoted = GroupNumbers("l", "p", "PROMOTED", 0)
    metrics.control = lambda: ControlNumbers(links={}, mirrors=[], groups=[group, promoted])
    found = samples(metrics)
    assert found[key("lockgate_group_source_members", link="l", group="g")] == 3
    assert key("lockgate_group_source_members", link="l", group="p") not in found
    assert found[key("lockgate_group_longest_wait_seconds", link="l", group="g")] == 12.5


def test_what_brokers_hold_back_and_what_is_waited_for():
    metrics = Metrics()
    metrics.fleet = lambda: FleetNumbers(
        leads=True,
        lease_left_s=1.0,
        mirrored=1,
        lost_lease_s=540.0,
        throttled_s={"l": 2.5},
        append_throttled_s={"target": 3.5},
        state_losses=2,
    )
    found = samples(metrics)
    assert found[key("lockgate_link_fetch_throttled_seconds_total", link="l")] == 2.5
    assert found[key("lockgate_append_throttled_seconds_total", side="target")] == 3.5
    assert found[key("lockgate_fleet_lost_lease_seconds")] == 540
    assert found[key("lockgate_state_topic_losses_total")] == 2


@pytest.mark.parametrize(("partitions", "beside"), [(_AT_ONCE, False), (_AT_ONCE + 1, True)])
async def test_what_takes_long_is_written_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, partitions: int, beside: bool
) -> None:
    threads: list[threading.Thread] = []

    def written(registry: CollectorRegistry) -> bytes:
        threads.append(threading.current_thread())
        return generate_latest(registry)

    monkeypatch.setattr("gateway.telemetry.metrics.generate_latest", written)
    metrics = Metrics()
    mirror = MirrorNumbers("l", "t", MirrorState.ACTIVE, [status(index) for index in range(partitions)])
    metrics.control = lambda: ControlNumbers(links={"l": True}, mirrors=[mirror], groups=[])

    text, _ = await metrics.text()

    assert text.count(b"\nlockgate_mirror_lag_records{") == partitions
    assert (threads != [threading.main_thread()]) is beside
