"""Where a metric has what `describe` and `list` show, or why none has.

By the bodies of REST, field by field: a field that is added has no row here, and the test fails until it has one. What
is in backticks is a metric's name without `lockgate_`; anything else is a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel

from gateway.api.gateways import GatewayData
from gateway.api.groups.group_models import GroupData, MemberData, OffsetData, OffsetSyncData, TargetMember, WaiterData
from gateway.api.links.link_config_models import LinkTaskData
from gateway.api.links.link_models import LinkData
from gateway.api.mirrors.candidates import CandidateList
from gateway.api.mirrors.mirror_models import (
    CatchUpData,
    ClientsNotMigratedData,
    MirrorData,
    MirrorLag,
    ProvenanceData,
    UndoData,
)

_NAME: Final = "a name; a label of the others"
_WORDS: Final = "words; what they are about has a metric"
_GIVEN: Final = "what was asked for; it changes by a command only"

DESCRIBED: Final[Mapping[type[BaseModel], Mapping[str, str]]] = {
    LinkData: {
        "kind": _NAME,
        "link_name": _NAME,
        "link_id": _NAME,
        "source_cluster_id": _NAME,
        "destination_cluster_id": _NAME,
        "link_state": "`link_state`",
        "link_error": _WORDS,
        "link_error_code": "`link_error`",
        "state_time_ms": "`link_state_timestamp_seconds`",
        "created_ms": _GIVEN,
        "client": _GIVEN,
        "configs": _GIVEN,
        "mirrors": "`mirror_state`",
        "groups_held": "`link_groups_held`",
        "groups_held_reason": _WORDS,
    },
    LinkTaskData: {
        "kind": _NAME,
        "task_name": _NAME,
        "state": "`link_task_state`",
        "state_time_ms": "the samples of `link_task_state` tell when it changed",
        "last_run_ms": "`link_task_run_timestamp_seconds`",
        "errors": _WORDS,
        "last_error": _WORDS,
    },
    CandidateList: {
        "kind": _NAME,
        "metadata": "where the list goes on",
        "auto_create": "`link_task_state`",
        "data": "`link_auto_create_waiting_topics`",
    },
    MirrorData: {
        "kind": _NAME,
        "link_name": _NAME,
        "mirror_topic_name": _NAME,
        "source_topic_name": _NAME,
        "num_partitions": "`mirror_partitions`",
        "mirror_status": "`mirror_state`",
        "mirror_topic_error": "`mirror_error`",
        "error_message": _WORDS,
        "state_time_ms": "`mirror_state_timestamp_seconds`",
        "mode": "`mirror_translated`",
        "mode_reason": _WORDS,
        "readable": "`mirror_readable`",
        "promote_error": "`mirror_promote_failed`",
        "waiting_for": "`mirror_waiting_partitions`",
        "unresolved_schema_ids": "`link_schema_ids_unresolved`, `mirror_missing_schema_ids`",
        "translates_ids": "said at create; it changes no more",
        "records_after_cutover": "`mirror_records_after_cutover`",
        "mirror_lags": "see below",
        "stopped_at": "offsets of the cutover; they change no more",
        "mirror_direction": "`mirror_reversed`",
        "records_not_mirrored": "`mirror_not_mirrored_records`",
        "records_not_mirrored_exact": "of one failover; it changes no more",
        "records_lost": "`mirror_lost_records`",
        "retries_unknown": "`mirror_retries_unknown_partitions`",
        "clients_not_migrated": "see below",
        "catch_up": "see below",
        "configs": _GIVEN,
        "replication_factor": _GIVEN,
        "start": _GIVEN,
        "reverses": "`mirror_state`",
        "configs_on_target": "asked of the target by `describe` only; a scrape asks no cluster",
        "configs_set_back": "`mirror_configs_set_back`",
        "warnings": "`mirror_warnings`",
        "mirror_state_transition_errors": "`mirror_transition_errors`",
        "paused_by_link": "`link_state`",
        "provenance": "see below",
        "undo": "see below",
    },
    UndoData: {
        "state": "`mirror_undo_until_timestamp_seconds` has a sample while it is open; `mirror_undo_refused`",
        "until_time_ms": "`mirror_undo_until_timestamp_seconds`",
        "records_at_risk": "`mirror_records_at_risk`",
        "late_records": "`mirror_records_after_cutover`",
    },
    MirrorLag: {
        "partition": _NAME,
        "phase": "`mirror_partitions`",
        "source_end": "`mirror_source_end_offset`",
        "mirrored_to": "`mirror_source_end_offset` less `mirror_lag_records`",
        "target_end": "`mirror_copy_end_offset`",
        "lag": "`mirror_lag_records`",
        "lag_ms": "`mirror_lag_seconds`",
        "bytes_per_s": "`mirror_bytes_per_second`",
        "records_total": "`mirror_records_total`",
        "bytes_total": "`mirror_bytes_total`",
        "bypassed_last_minute": "`mirror_bypassed_records`",
        "last_error": "`mirror_failing_partitions`",
        "segments": "`mirror_map_segments`",
        "waits_for": "`mirror_waiting_partitions`",
        "queued_bytes": "`mirror_queued_bytes`",
    },
    ClientsNotMigratedData: {
        "bypassed_last_minute": "`mirror_bypassed_records`",
        "readers": "`group_source_members`",
        "unknown": _WORDS,
    },
    CatchUpData: {
        "job": _NAME,
        "by": _NAME,
        "records_done": "`catch_up_done_records`",
        "records_total": "`catch_up_records`",
        "bytes_done": "`catch_up_done_bytes`",
        "bytes_total": "`catch_up_bytes`",
        "bytes_per_s": "`catch_up_bytes_per_second`",
        "eta_s": "`catch_up_eta_seconds`",
    },
    ProvenanceData: {
        "link_tag": _NAME,
        "source_cluster_id": _NAME,
        "producer_id": _NAME,
        "upstream": _NAME,
    },
    GroupData: {
        "kind": _NAME,
        "link_name": _NAME,
        "group": _NAME,
        "source_group": _NAME,
        "group_type": "what it is, once and for all",
        "topology_epoch": "the application's own, and no number to watch",
        "state": "`group_state`",
        "state_time_ms": "`group_state_timestamp_seconds`",
        "error_message": _WORDS,
        "source_state": "asked of the source by `describe` and `list` only; `group_source_members` has its members",
        "members": "`group_source_members`",
        "target_members": "of one group; the target's own metrics have its groups",
        "note": _WORDS,
        "waits_for": _WORDS,
        "members_after_promote": "`group_members_after_promote`",
        "commits_after_promote": "`group_commits_after_promote`",
        "waiting": "`group_held_members`",
        "offsets": "`group_carried_offsets`",
        "offset_sync": "see below",
        "unknown": _WORDS,
    },
    MemberData: {
        **dict.fromkeys(("client_id", "host", "topics", "member_id", "instance_id"), _NAME),
        "waits": "of one member; `group_held_members` has how many wait",
        "session_timeout_ms": _GIVEN,
    },
    TargetMember: dict.fromkeys(("client_id", "host", "topics"), _NAME),
    WaiterData: {
        "client_id": _NAME,
        "host": _NAME,
        "principal": _NAME,
        "waiting_s": "`group_longest_wait_seconds`",
    },
    OffsetData: {
        "topic": _NAME,
        "partition": _NAME,
        "source_offset": "one offset of one group; `group_lag_records` has what is left to read",
        "target_offset": "one offset of one group; `group_lag_records` has what is left to read",
        "rule": _WORDS,
    },
    OffsetSyncData: {
        "last_sync_ms": "`group_offset_sync_timestamp_seconds`",
        "error": "`group_offset_sync_failing`",
        "lag": "`group_offset_sync_lag_records`",
        "held_back": "`group_offset_sync_held_back`",
    },
    GatewayData: {
        "kind": _NAME,
        "name": _NAME,
        "role": _NAME,
        "state": "`fleet_gateways`",
        "leads": "`fleet_leader`",
        "peer": _NAME,
        "lease_s": _GIVEN,
        "lease_left_s": "`fleet_lost_lease_seconds`",
        "workers": _GIVEN,
        "mirror_partitions": "`mirrored_partitions`",
        "admitted_ms": "once for each gateway; it changes no more",
    },
}
