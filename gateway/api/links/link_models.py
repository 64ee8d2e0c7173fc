"""Bodies of /v3/links."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from gateway.api.models import Body
from gateway.links.links import LinkView


class ConfigEntry(Body):
    """One config."""

    name: str
    value: str


class CreateLink(Body):
    """Client properties for the source (`bootstrap.servers`, ...) and link options, in one list."""

    link_name: str
    configs: list[ConfigEntry]


class LinkData(BaseModel):
    """A cluster link. `client`: properties for the source, secrets hidden. `mirrors`: count by state.

    `link_error_code`: NO_ERROR, or Confluent's word for what `link_error` says. `groups_held`: groups whose requests
    wait since the source does not tell whether they read a topic that is mirrored; `groups_held_reason`: why, of one.
    """

    kind: Literal["KafkaLinkData"] = "KafkaLinkData"
    link_name: str
    link_id: int
    source_cluster_id: str
    destination_cluster_id: str
    link_state: str
    link_error: str
    link_error_code: str
    state_time_ms: int
    created_ms: int
    client: dict[str, str]
    configs: dict[str, str]
    mirrors: dict[str, int]
    groups_held: int
    groups_held_reason: str

    @classmethod
    def of(cls, view: LinkView, target_cluster_id: str) -> LinkData:
        """From the view."""
        return cls(
            link_name=view.record.name,
            link_id=view.record.link_id,
            source_cluster_id=view.record.source_cluster_id,
            destination_cluster_id=target_cluster_id,
            link_state=view.state,
            link_error=view.error,
            link_error_code=view.error_code,
            state_time_ms=view.state_since_ms,
            created_ms=view.record.created_ms,
            client=dict(view.client),
            configs=dict(view.configs),
            mirrors=dict(view.mirror_counts),
            groups_held=view.groups_held,
            groups_held_reason=view.groups_held_reason,
        )


class LinkList(BaseModel):
    """All links."""

    kind: Literal["KafkaLinkDataList"] = "KafkaLinkDataList"
    data: list[LinkData]
