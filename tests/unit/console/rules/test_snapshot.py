"""The console's snapshot: of a control plane in memory, whose mirrors are measured as a test says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.console.rules.snapshot import ClientsSeen, Scene, partition_rows, snapshot
from gateway.kafka.groups import MemberView
from gateway.mirror.interface import PartitionStatus
from gateway.state.migration_records import MigrationRecord
from gateway.state.records import GroupRecord, GroupState, MirrorDirection, MirrorError, MirrorState, Undo
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    made = Plane()
    await made.start()
    await made.with_mirror("orders", 2)
    yield made
    await made.close()


def measured(partition: int, source_end: int | None, lag: int | None, **more: Any) -> PartitionStatus:
    copied = None if source_end is None or lag is None else source_end - lag
    return PartitionStatus(
        partition=partition, phase="copying", source_end=source_end, mirrored_to=copied, target_end=copied or 0,
        lag=lag, lag_ms=0 if not lag else 40, bytes_per_s=1.5, **more,
    )  # fmt: skip


def taken(plane: Plane, **more: Any) -> Any:
    scene = Scene(
        now_ms=plane.now_ms, target_cluster_id="T", numbers=plane.service.numbers(), views=plane.store, **more
    )
    made = snapshot(scene)
    json.dumps(made)
    return made


async def test_a_topic_is_the_sum_of_its_partitions(plane: Plane) -> None:
    plane.engine.numbers["l", "orders"] = [measured(0, 100, 3, bypassed_last_minute=4), measured(1, 50, 0)]
    row = taken(plane)["topics"]["l/orders"]
    assert (row["origin_end"], row["copy_end"], row["lag"], row["lag_ms"]) == (150, 147, 3, 40)
    assert (row["partitions"], row["bypassed"], row["written_on"], row["direction"]) == (2, 4, "source", "FORWARD")
    link = taken(plane)["links"]["l"]
    assert (link["topics"], link["on_target"], link["lag"], link["bootstrap"]) == (1, 0, 3, "source:9092")


async def test_late_records_that_nobody_has_measured_are_not_none(plane: Plane) -> None:
    plane.promoters.measured = False
    assert taken(plane)["topics"]["l/orders"]["after_cutover"] is None
    plane.promoters.measured = True
    assert taken(plane)["topics"]["l/orders"]["after_cutover"] == 0


async def test_a_sum_that_lacks_a_partition_is_not_known(plane: Plane) -> None:
    plane.engine.numbers["l", "orders"] = [measured(0, 100, 3), measured(1, None, None)]
    row = taken(plane)["topics"]["l/orders"]
    assert (row["origin_end"], row["lag"], row["copy_end"]) == (None, None, 97)
    link = taken(plane)["links"]["l"]
    assert (link["origin_end"], link["copy_end"], link["lag"]) == (None, 97, None)


async def test_a_copy_of_the_way_back_is_not_behind_the_source(plane: Plane) -> None:
    record = plane.store.mirrors["l", "orders"]
    await plane.by_hand(replace(record, failback=replace(record.failback, direction=MirrorDirection.REVERSE)))
    plane.engine.numbers["l", "orders"] = [measured(0, 100, 3), measured(1, 50, 0)]
    made = taken(plane)
    assert (made["topics"]["l/orders"]["written_on"], made["topics"]["l/orders"]["lag"]) == ("target", 3)
    assert (made["links"]["l"]["lag"], made["links"]["l"]["on_target"]) == (0, 1)


async def test_a_snapshot_has_no_secret(plane: Plane) -> None:
    link = plane.store.links["l"]
    await plane.by_hand(replace(link, client={**link.client, "sasl.password": "very-secret"}))
    assert "very-secret" not in json.dumps(taken(plane))


async def test_every_row_of_a_section_has_the_same_fields(plane: Plane) -> None:
    """So a change need not say that a field has gone."""
    await plane.with_mirror("payments", 1)
    plane.engine.numbers["l", "orders"] = [measured(0, 100, 3, last_error="no")]
    await plane.by_hand(
        GroupRecord(link="l", group="g"), MigrationRecord(name="m", link="l", file=_file(["orders"], ["g"]))
    )
    made = taken(plane, clients=ClientsSeen({"source": 5}, {"early": ("l", "a at h")}))
    for section in made.values():
        assert len({tuple(row) for row in section.values()}) <= 1, section


async def test_what_is_in_no_migration_is_an_application_of_the_links_name(plane: Plane) -> None:
    await plane.with_mirror("payments", 1)
    await plane.by_hand(GroupRecord(link="l", group="g", state=GroupState.PROMOTED))
    plane.engine.numbers["l", "orders"] = [measured(0, 100, 0), measured(1, 50, 0)]
    plane.engine.numbers["l", "payments"] = [measured(0, 100, 60, bypassed_last_minute=1)]
    (row,) = taken(plane)["applications"].values()
    assert (row["name"], row["migration"], row["topics"], row["groups"]) == ("l", "", 2, 1)
    assert (row["mirrored"], row["moved"], row["gated"], row["groups_moved"], row["promoted"]) == (2, 1, 1, 1, 0)


async def test_an_application_counts_what_it_names_and_what_is_not_there_yet(plane: Plane) -> None:
    await plane.with_mirror("other", 1)
    plane.engine.numbers["l", "orders"] = [measured(0, 1, 0), measured(1, 1, 0)]
    file = _file(["ord*", "refunds"], ["billing"])
    await plane.by_hand(MigrationRecord(name="m", link="l", file=file), GroupRecord(link="l", group="billing"))
    rows = taken(plane)["applications"]
    assert set(rows) == {"m/shop", "/l"}
    shop = rows["m/shop"]
    assert (shop["topics"], shop["mirrored"], shop["groups"], shop["gated"]) == (2, 1, 1, 0)
    assert (rows["/l"]["topics"], rows["/l"]["groups"]) == (1, 0)


async def test_a_file_of_a_later_version_hides_nothing(plane: Plane) -> None:
    await plane.by_hand(MigrationRecord(name="m", link="l", file='{"what": 1}'))
    assert set(taken(plane)["applications"]) == {"/l"}


async def test_what_needs_a_look_is_an_alert_with_its_remedy(plane: Plane) -> None:
    assert taken(plane)["alerts"] == {}
    record = plane.store.mirrors["l", "orders"]
    failed = replace(record, state=MirrorState.FAILED, error=MirrorError.TARGET_DIVERGED, error_message="it differs")
    await plane.by_hand(failed, GroupRecord(link="l", group="g", state=GroupState.FAILED, error_message="no offsets"))
    found = taken(plane)["alerts"]
    assert set(found) == {"mirror-failed/l/orders", "group-failed/l/g"}
    assert "it differs" in found["mirror-failed/l/orders"]["line"]
    assert all(alert["remedy"] and alert["severity"] == "error" for alert in found.values())


async def test_what_makes_the_status_of_a_migration_red_is_an_alert_and_on_the_lock(plane: Plane) -> None:
    await plane.by_hand(MigrationRecord(name="m", link="l", file=_file(["orders"], ["g"])))
    problem = "shop: group 'g' is not on the source of link 'l'"
    plane.service.migrations.problems["m"] = (problem, "link 'l' does not exist")
    assert taken(plane)["applications"]["m/shop"]["problem"] == "group 'g' is not on the source of link 'l'"
    plane.service.migrations.problems["m"] = (problem,)
    plane.service.migrations.failures["m"] = {"PROMOTE_TOPICS shop: orders": "no rights"}
    made = taken(plane)
    found = made["alerts"]
    assert [(each["severity"], each["key"]) for each in found.values()] == [("error", "m"), ("warning", "m")]
    assert [each["line"] for each in found.values()] == [
        f"migration m: {problem}", "migration m: PROMOTE_TOPICS shop: orders was refused: no rights",
    ]  # fmt: skip
    plane.service.migrations.problems.clear()
    assert taken(plane)["applications"]["m/shop"]["problem"] == "refused: no rights"


async def test_a_client_at_a_topic_that_nobody_mirrors_is_an_alert_until_somebody_does(plane: Plane) -> None:
    seen = ClientsSeen({}, {"early": ("l", "shop-1 at 10.0.0.7"), "orders": ("l", "shop-2 at 10.0.0.7")})
    (found,) = taken(plane, clients=seen)["alerts"].values()
    assert found["line"].startswith("shop-1 at 10.0.0.7 asks for topic early, which is on the source of link l")
    assert (found["severity"], found["remedy"]) == ("error", "lockgate mirror create early --link l")


async def test_an_undo_is_in_the_row_of_the_topic_and_of_its_application(plane: Plane) -> None:
    values = {"direction": MirrorDirection.REVERSE, "undo": Undo.OPEN, "undo_until_ms": 1_900_000_000_000}
    await plane.by_hand(changed(plane.store.mirrors["l", "orders"], **values))
    await plane.by_hand(MigrationRecord(name="m", link="l", file=_file(["orders"], [])))
    plane.engine.numbers["l", "orders"] = [measured(0, 100, 3), measured(1, 50, 0)]
    made = taken(plane)
    topic, shop = made["topics"]["l/orders"], made["applications"]["m/shop"]
    assert (topic["undo"], topic["undo_until_ms"], topic["at_risk"]) == ("open", 1_900_000_000_000, 3)
    assert (shop["undo_open"], shop["undo_until_ms"], shop["at_risk"]) == (1, 1_900_000_000_000, 3)


async def test_a_promote_without_its_undo_is_an_alert(plane: Plane) -> None:
    record = plane.store.mirrors["l", "orders"]
    await plane.by_hand(changed(record, state=MirrorState.STOPPED, undo=Undo.REFUSED, undo_until_ms=5))
    assert set(taken(plane)["alerts"]) == {"undo-refused/l/orders"}


@pytest.mark.parametrize(
    ("rule", "alert", "remedy"),
    [
        ("late_writes", "stopped-by-late-writes", "restart it onto the gateway"),
        ("target_lag", "stopped-by-target-lag", "do not keep up"),
        ("client_errors_percent", "stopped-by-client-errors-percent", "counts anew"),
        ("of_a_later_version", "stopped-by-rule", "Mend what it has found"),
    ],
)
async def test_a_migration_that_a_rule_has_stopped_is_an_alert(
    plane: Plane, rule: str, alert: str, remedy: str
) -> None:
    said = f"{rule} is 7, 0 at most ('orders')"
    await plane.by_hand(MigrationRecord(name="m", link="l", file=_file(["orders"], []), stopped_by=said))
    made = taken(plane)
    ((key, found),) = made["alerts"].items()
    assert (key, found["kind"], found["key"], found["severity"]) == (f"{alert}/m", "migration", "m", "error")
    assert found["line"] == f"migration m is STOPPED_BY_RULE: {said}"
    assert remedy in found["remedy"]
    assert "lockgate migration resume" in found["remedy"]
    assert made["applications"]["m/shop"]["stopped_by"] == said


async def test_partitions_are_rows_of_cells(plane: Plane) -> None:
    plane.engine.numbers["l", "orders"] = [measured(0, 100, 3, waits_for="a transaction"), measured(1, None, None)]
    numbers = plane.service.numbers()
    assert partition_rows(numbers) == [
        ["l", "orders", 0, "copying", 100, 97, 97, 3, 40, 2, "a transaction"],
        ["l", "orders", 1, "copying", None, None, 0, None, 0, 2, ""],
    ]
    assert partition_rows(numbers, "l", "nothing") == []


def _file(topics: list[str], groups: list[str]) -> str:
    return json.dumps(
        {"migration": "m", "link": "l", "applications": [{"name": "shop", "topics": topics, "groups": groups}]}
    )


async def test_clients_of_a_group_are_told_by_name(plane: Plane) -> None:
    """On either side, each once; not more than fifty of a group."""
    await plane.by_hand(GroupRecord(link="l", group="billing"))
    member = MemberView(member_id="m-1", client_id="biller-1", host="/10.0.0.7")
    plane.service.group_reports.who_on_source["l", "billing"] = [member, replace(member, member_id="m-2")]
    assert taken(plane)["groups"]["l/billing"]["clients"] == [["biller-1", "10.0.0.7", "source"]]
    many = [replace(member, client_id=f"c-{index}") for index in range(200)]
    plane.service.group_reports.who_on_source["l", "billing"] = many
    assert len(taken(plane)["groups"]["l/billing"]["clients"]) == 50


async def test_a_topic_says_how_long_its_last_pause_was(plane: Plane) -> None:
    assert taken(plane)["topics"]["l/orders"]["pause_ms"] is None
    plane.parts.pauses_seen.ended("l", ["orders"], "stopped", 0.093)
    assert taken(plane)["topics"]["l/orders"]["pause_ms"] == 93
