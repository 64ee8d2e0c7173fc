"""Bodies of mirror topics, as Confluent's description has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal

from fastapi import Request
from pydantic import BaseModel, Field

from gateway.api.confluent.link_models import ConfigData, LinkTaskError
from gateway.api.confluent.resource import Metadata, address
from gateway.api.models import Body
from gateway.api.paging import ListMetadata
from gateway.mirror.interface import PartitionStatus
from gateway.state.records import MirrorState
from gateway.topics.mirrors import MirrorView

UNKNOWN: Final = -1
"""In place of a lag or an offset that nobody knows yet: both fields are whole numbers there, and must be given."""

_DIFFERS: Final[Mapping[MirrorState, str]] = {MirrorState.PENDING_RESTORE_MIRROR: "PENDING_RESTORE"}


class MirrorStatus(StrEnum):
    """What `mirror_status` may ask for: the states, and two words that only Confluent's description has."""

    ACTIVE = "ACTIVE"
    FAILED = "FAILED"
    LINK_FAILED = "LINK_FAILED"
    LINK_PAUSED = "LINK_PAUSED"
    PAUSED = "PAUSED"
    PENDING_MIRROR = "PENDING_MIRROR"
    PENDING_RESTORE = "PENDING_RESTORE"
    PENDING_RESTORE_MIRROR = "PENDING_RESTORE_MIRROR"
    PENDING_SETUP_FOR_RESTORE = "PENDING_SETUP_FOR_RESTORE"
    PENDING_STOPPED = "PENDING_STOPPED"
    PENDING_SYNCHRONIZE = "PENDING_SYNCHRONIZE"
    SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"
    STOPPED = "STOPPED"


def status_of(state: MirrorState) -> str:
    """Confluent's description has a shorter word for one state than its documentation and `/v3`."""
    return _DIFFERS.get(state, state.value)


class CreateMirrorRequest(Body):
    """`mirror_topic_name` is the link's prefix and the source topic's name, and may be left out."""

    source_topic_name: str
    mirror_topic_name: str = ""
    replication_factor: int | None = Field(default=None, ge=1, le=32_767)
    configs: list[ConfigData] = Field(default_factory=list)


class MirrorLag(BaseModel):
    """One partition. Both numbers are -1 while they are not known."""

    partition: int
    lag: int
    last_source_fetch_offset: int

    @classmethod
    def of(cls, status: PartitionStatus) -> MirrorLag:
        """From the engine's numbers; of a STOPPED mirror from those of the cutover."""
        return cls(
            partition=status.partition,
            lag=UNKNOWN if status.lag is None else status.lag,
            last_source_fetch_offset=UNKNOWN if status.mirrored_to is None else status.mirrored_to - 1,
        )


class MirrorData(BaseModel):
    """A mirror topic."""

    kind: Literal["KafkaMirrorData"] = "KafkaMirrorData"
    metadata: Metadata
    link_name: str
    mirror_topic_name: str
    source_topic_name: str
    num_partitions: int
    mirror_lags: list[MirrorLag]
    mirror_status: str
    mirror_topic_error: str
    state_time_ms: int
    mirror_state_transition_errors: list[LinkTaskError] | None = Field(
        default=None, exclude_if=lambda errors: errors is None, description="With include_state_transition_errors."
    )

    @classmethod
    def of(cls, view: MirrorView, request: Request, *, transition_errors: bool = False) -> MirrorData:
        """From the view."""
        record = view.record
        return cls(
            metadata=Metadata(self=address(request, record.link, "mirrors", record.mirror_topic)),
            link_name=record.link,
            mirror_topic_name=record.mirror_topic,
            source_topic_name=record.source_topic,
            num_partitions=len(record.starts),
            mirror_lags=lags_of(view.partitions),
            mirror_status=status_of(view.state),
            mirror_topic_error=record.error.value,
            state_time_ms=record.state_since_ms,
            mirror_state_transition_errors=_transition_errors(view) if transition_errors else None,
        )


class MirrorDataList(BaseModel):
    """Mirror topics, of a link or of all."""

    kind: Literal["KafkaMirrorDataList"] = "KafkaMirrorDataList"
    metadata: ListMetadata
    data: list[MirrorData]


class AlterMirrorsRequest(Body):
    """Which topics: by their names, or by a pattern that names must match as a whole."""

    mirror_topic_names: list[str] | None = None
    mirror_topic_name_pattern: str | None = None


class TruncatedPartition(BaseModel):
    """Where both logs of a partition went different ways, and how many records of the failback destination go."""

    partition_id: int
    offset_truncated_to: int
    messages_truncated: int


class AlteredMirror(BaseModel):
    """What became of one topic. `error_code` is null when it was done, and as of a whole request when it was not."""

    kind: Literal["AlterMirrorsData"] = "AlterMirrorsData"
    metadata: Metadata
    mirror_topic_name: str
    error_code: int | None = None
    error_message: str | None = None
    mirror_lags: list[MirrorLag]
    messages_truncated: int | None = None
    partition_level_truncation_data: list[TruncatedPartition]


class AlteredMirrorList(BaseModel):
    """Each topic that was asked for, in that order."""

    kind: Literal["KafkaPromoteMirror"] = "KafkaPromoteMirror"
    metadata: ListMetadata
    data: list[AlteredMirror]


def lags_of(partitions: Sequence[PartitionStatus]) -> list[MirrorLag]:
    """In the order of partitions."""
    return [MirrorLag.of(status) for status in partitions]


def _transition_errors(view: MirrorView) -> list[LinkTaskError]:
    return [LinkTaskError(error_code=one.error_code, error_message=one.error_message) for one in view.transition_errors]
