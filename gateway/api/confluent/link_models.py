"""Bodies of links and their configs, as Confluent's description has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from fastapi import Request
from pydantic import BaseModel, Field

from gateway.api.confluent.resource import Metadata, address
from gateway.api.models import Body
from gateway.api.paging import ListMetadata
from gateway.errors import BadRequest
from gateway.links.links import LinkView
from gateway.links.rules.update import ConfigChange, ConfigOperation
from gateway.links.shown_configs import ShownConfig
from gateway.operations.link_tasks import TaskError


class ConfigData(Body):
    """One config."""

    name: str
    value: str | None


class CreateLinkRequest(Body):
    """Client properties for the source and link options, in one list. Cluster ids are compared with what is there."""

    source_cluster_id: str | None = None
    destination_cluster_id: str | None = None
    remote_cluster_id: str | None = None
    cluster_link_id: str | None = None
    configs: list[ConfigData] = Field(default_factory=list)


class LinkTaskError(BaseModel):
    """Why a task does not get on."""

    error_code: str
    error_message: str


class LinkTask(BaseModel):
    """A task of a link, such as the sync of topic configs."""

    task_name: str
    state: str
    errors: list[LinkTaskError]


class LinkCategory(BaseModel):
    """How many mirror topics of the link are in one kind of state."""

    state_category: str
    count: int


class LinkData(BaseModel):
    """A cluster link. `destination_cluster_id` is null as it is for every link that its destination made."""

    kind: Literal["KafkaLinkData"] = "KafkaLinkData"
    metadata: Metadata
    source_cluster_id: str | None
    destination_cluster_id: str | None = None
    remote_cluster_id: str | None = None
    link_name: str
    link_id: str
    cluster_link_id: str
    topic_names: list[str]
    link_error: str
    link_error_message: str | None
    link_state: str
    tasks: list[LinkTask] | None = None
    category_counts: list[LinkCategory] | None = None

    @classmethod
    def of(cls, view: LinkView, topics: Iterable[str], request: Request, *, tasks: bool = False) -> LinkData:
        """From the view. `topics`: the link's mirror topics."""
        number = str(view.record.link_id)
        return cls(
            metadata=Metadata(self=address(request, view.record.name)),
            source_cluster_id=view.record.source_cluster_id,
            link_name=view.record.name,
            link_id=number,
            cluster_link_id=number,
            topic_names=list(topics),
            link_error=view.error_code,
            link_error_message=view.error or None,
            link_state=view.state,
            tasks=_tasks(view) if tasks else None,
            category_counts=_categories(view.mirror_counts),
        )


class LinkDataList(BaseModel):
    """All links."""

    kind: Literal["KafkaLinkDataList"] = "KafkaLinkDataList"
    metadata: ListMetadata
    data: list[LinkData]


class LinkConfigData(BaseModel):
    """One config of a link. The value of a secret is hidden."""

    kind: Literal["KafkaLinkConfigData"] = "KafkaLinkConfigData"
    metadata: Metadata
    cluster_id: str
    link_name: str
    name: str
    value: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: Literal["DYNAMIC_CLUSTER_LINK_CONFIG"] = "DYNAMIC_CLUSTER_LINK_CONFIG"
    synonyms: list[str]

    @classmethod
    def of(cls, link: str, config: ShownConfig, cluster_id: str, request: Request) -> LinkConfigData:
        """From what is shown of it."""
        return cls(
            metadata=Metadata(self=address(request, link, "configs", config.name)),
            cluster_id=cluster_id,
            link_name=link,
            name=config.name,
            value=config.value,
            is_default=not config.given,
            is_read_only=config.fixed,
            is_sensitive=config.secret,
            synonyms=list(config.synonyms),
        )


class LinkConfigDataList(BaseModel):
    """All configs of a link."""

    kind: Literal["KafkaLinkConfigDataList"] = "KafkaLinkConfigDataList"
    metadata: ListMetadata
    data: list[LinkConfigData]


class AlterConfig(Body):
    """SET (the default) a value, or DELETE: back to the default."""

    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET

    def change(self) -> ConfigChange:
        """As the operation takes it; BadRequest where value and operation do not go together."""
        if (self.value is None) == (self.operation is ConfigOperation.SET):
            raise BadRequest(f"{self.name}: SET takes a value, DELETE takes none")
        return ConfigChange(self.name, self.value or "", self.operation)


class AlterConfigsRequest(Body):
    """Several configs, all or none."""

    data: list[AlterConfig]
    validate_only: bool = False


_CATEGORIES: Final[Mapping[str, str]] = {
    "ACTIVE": "ACTIVE",
    "PAUSED": "PAUSED",
    "LINK_PAUSED": "PAUSED",
    "SOURCE_UNAVAILABLE": "IN_ERROR",
    "LINK_FAILED": "IN_ERROR",
    "FAILED": "IN_ERROR",
    "STOPPED": "NOT_APPLICABLE",
}


def _categories(counts: Mapping[str, int]) -> list[LinkCategory]:
    found: dict[str, int] = {}
    for state, count in counts.items():
        category = _CATEGORIES.get(state, "PENDING")
        found[category] = found.get(category, 0) + count
    return [LinkCategory(state_category=category, count=count) for category, count in sorted(found.items())]


def _tasks(view: LinkView) -> list[LinkTask]:
    """What keeps a task from its work is told while it does."""
    return [
        LinkTask(task_name=one.task.value, state=one.state.value, errors=_errors(one.present_error))
        for one in view.tasks
    ]


def _errors(found: TaskError | None) -> list[LinkTaskError]:
    return [] if found is None else [LinkTaskError(error_code=found.code.value, error_message=found.message)]
