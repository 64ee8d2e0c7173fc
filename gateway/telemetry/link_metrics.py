"""Metrics of links: their states and errors, their tasks, and what auto-create does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from gateway.access.acl_sync import AclCounts
from gateway.operations.link_tasks import TaskState
from gateway.schemas.schema_sync import SchemaCounts
from gateway.telemetry.families import Table, of_each
from gateway.telemetry.numbers import LinkNumbers
from gateway.topics.auto_create import AutoCreated

STATES: Final = ("ACTIVE", "PAUSED", "UNAVAILABLE", "FAILED")

_LINK: Final[Table[LinkNumbers]] = (
    (
        "lockgate_link_state_timestamp_seconds",
        "Since when the link is in its state.",
        lambda link: link.state_since_ms / 1000,
    ),
    (
        "lockgate_link_groups_held",
        "Groups held since the source does not tell whether they read a mirrored topic; `link describe` says why.",
        lambda link: link.groups_held,
    ),
)
_AUTO_CREATE: Final[Table[AutoCreated]] = (
    (
        "lockgate_link_auto_created_topics_total",
        "Mirror topics that the link has created by itself since this gateway leads.",
        lambda auto: auto.created,
    ),
    (
        "lockgate_link_auto_create_refused_topics",
        "Source topics that auto-create wants and may not create; `mirror candidates` says why.",
        lambda auto: auto.refused,
    ),
    (
        "lockgate_link_auto_create_waiting_topics",
        "Source topics whose turn to be created comes in a later round.",
        lambda auto: auto.waiting,
    ),
)
_ACLS: Final[Table[AclCounts]] = (
    (
        "lockgate_link_acls",
        "ACLs on the target that the link has made, as of its last round.",
        lambda acls: acls.made,
    ),
    (
        "lockgate_link_acls_held",
        "ACLs of the source that are held back until a promote.",
        lambda acls: acls.held,
    ),
    (
        "lockgate_link_acls_left_out",
        "ACLs of the source that cannot be copied; `link acls plan` says why.",
        lambda acls: acls.left_out,
    ),
    (
        "lockgate_link_acls_refused",
        "ACLs that the target refuses to make or to delete; `link acls plan` says why.",
        lambda acls: acls.refused,
    ),
    (
        "lockgate_link_acls_created_total",
        "ACLs that the link has made on the target since this gateway leads.",
        lambda acls: acls.created,
    ),
    (
        "lockgate_link_acls_deleted_total",
        "ACLs of its own that the link has deleted on the target since this gateway leads.",
        lambda acls: acls.deleted,
    ),
)
_SCHEMAS: Final[Table[SchemaCounts]] = (
    (
        "lockgate_link_schema_subjects",
        "Subjects of the source's registry that the link copies, as of its last round.",
        lambda schemas: schemas.subjects,
    ),
    (
        "lockgate_link_schema_versions",
        "Versions of subjects that are known to be on the target's registry.",
        lambda schemas: schemas.versions,
    ),
    (
        "lockgate_link_schemas_left_out",
        "Versions of subjects that cannot be copied; `link schemas plan` says why.",
        lambda schemas: schemas.left_out,
    ),
    (
        "lockgate_link_schemas_refused",
        "Changes that the target's registry refuses; `link schemas plan` says why.",
        lambda schemas: schemas.refused,
    ),
    (
        "lockgate_link_schema_ids_unresolved",
        "Ids seen in mirrored records that the source's registry knows and the target's does not.",
        lambda schemas: schemas.unresolved,
    ),
    (
        "lockgate_link_schemas_registered_total",
        "Versions that the link has registered on the target since this gateway leads.",
        lambda schemas: schemas.registered,
    ),
    (
        "lockgate_link_schemas_deleted_total",
        "Versions that the link has soft-deleted on the target since this gateway leads.",
        lambda schemas: schemas.deleted,
    ),
    (
        "lockgate_link_schema_levels_total",
        "Compatibility levels that the link has set on the target since this gateway leads.",
        lambda schemas: schemas.levels,
    ),
)


def link_metrics(up: Mapping[str, bool], numbers: Sequence[LinkNumbers]) -> Iterator[Metric]:
    """Of all links. `up`: link -> whether its source is there."""
    yield _of("lockgate_link_up", "1 while the link's source cluster answers.", ["link"], _as_rows(up))
    states = [([each.link, state], state == each.state) for each in numbers for state in STATES]
    yield _of("lockgate_link_state", "1 for the state the link is in, 0 for the others.", ["link", "state"], states)
    errors = [([each.link, each.error], True) for each in numbers if each.error]
    yield _of("lockgate_link_error", "1 for the error of a link that has one.", ["link", "error"], errors)
    yield from of_each(_LINK, ["link"], [([each.link], each) for each in numbers])
    tasks = [
        ([each.link, status.task.value, state.value], state is status.state)
        for each in numbers
        for status in each.tasks
        for state in TaskState
    ]
    yield _of(
        "lockgate_link_task_state",
        "1 for the state a task of the link is in, 0 for the others.",
        ["link", "task", "state"],
        tasks,
    )
    runs = GaugeMetricFamily(
        "lockgate_link_task_run_timestamp_seconds", "When a task of the link ran last.", labels=["link", "task"]
    )
    for each in numbers:
        for status in each.tasks:
            if status.last_run_ms is not None:
                runs.add_metric([each.link, status.task.value], status.last_run_ms / 1000)
    yield runs
    auto = [([each.link], each.auto_created) for each in numbers if each.auto_created is not None]
    yield from of_each(_AUTO_CREATE, ["link"], auto)
    yield from of_each(_ACLS, ["link"], [([each.link], each.acls) for each in numbers if each.acls is not None])
    schemas = [([each.link], each.schemas) for each in numbers if each.schemas is not None]
    yield from of_each(_SCHEMAS, ["link"], schemas)


def _as_rows(values: Mapping[str, bool]) -> list[tuple[list[str], bool]]:
    return [([name], value) for name, value in values.items()]


def _of(name: str, meaning: str, labels: Sequence[str], rows: Sequence[tuple[list[str], bool]]) -> Metric:
    found = GaugeMetricFamily(name, meaning, labels=labels)
    for values, value in rows:
        found.add_metric(values, float(value))
    return found
