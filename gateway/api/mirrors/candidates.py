"""/v3/links/{link}/candidates"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from gateway.api.paging import ListMetadata, Paged
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.operations.link_tasks import TaskState, TaskStatus
from gateway.topics.rules.auto_create import Candidate, Reason


class CandidateData(BaseModel):
    """A source topic that the link does not mirror. `reason_detail`: the reason in words, with what decided it."""

    kind: Literal["KafkaMirrorCandidateData"] = "KafkaMirrorCandidateData"
    source_topic_name: str
    mirror_topic_name: str
    reason: Reason
    reason_detail: str

    @classmethod
    def of(cls, candidate: Candidate) -> CandidateData:
        """From what the auto-create says."""
        return cls(
            source_topic_name=candidate.source_topic,
            mirror_topic_name=candidate.mirror_topic,
            reason=candidate.reason,
            reason_detail=candidate.detail,
        )


class AutoCreateData(BaseModel):
    """How the link's auto-create stands. `topics_created`: since this gateway leads. Times: milliseconds."""

    task_name: Literal["AutoCreateMirror"] = "AutoCreateMirror"
    state: TaskState
    state_time_ms: int
    last_error: str
    last_error_time_ms: int
    topics_created: int

    @classmethod
    def of(cls, status: TaskStatus, created: int) -> AutoCreateData:
        """From the task of the link."""
        return cls(
            state=status.state,
            state_time_ms=status.since_ms,
            last_error=error.message if (error := status.last_error) else "",
            last_error_time_ms=error.at_ms if error else 0,
            topics_created=created,
        )


class CandidateList(BaseModel):
    """The candidates of one link, by name."""

    kind: Literal["KafkaMirrorCandidateDataList"] = "KafkaMirrorCandidateDataList"
    metadata: ListMetadata
    auto_create: AutoCreateData
    data: list[CandidateData]


def router(plane: Plane) -> Routes:
    """The route of topics that nobody mirrors yet."""
    routes = Routes(tags=["mirrors"])

    @routes.get(
        "/v3/links/{link}/candidates",
        summary="List the source topics that the link does not mirror, and why",
    )
    async def list_candidates(link: str, pages: Paged, reason: Reason | None = None) -> CandidateList:
        auto_create = plane().auto_create
        found = [one for one in await auto_create.candidates(link) if reason in (None, one.reason)]
        page, metadata = pages.cut(found, lambda one: (one.source_topic,))
        task = AutoCreateData.of(auto_create.status(link), auto_create.created[link])
        return CandidateList(metadata=metadata, auto_create=task, data=[CandidateData.of(one) for one in page])

    return routes
