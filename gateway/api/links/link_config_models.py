"""Bodies of a link's configs and tasks, and of what a deletion would leave."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.models import Body
from gateway.links.links import DeletePlan, LinkView
from gateway.links.rules.update import ConfigChange, ConfigOperation
from gateway.links.shown_configs import ShownConfig
from gateway.operations.link_tasks import TaskError, TaskStatus


class AlterEntry(Body):
    """One change: a client property for the source, or a link option. DELETE takes it back to its default."""

    name: str
    value: str = ""
    operation: ConfigOperation = ConfigOperation.SET

    def change(self) -> ConfigChange:
        """As the operation takes it."""
        return ConfigChange(self.name, self.value, self.operation)


class AlterConfigs(Body):
    """Changes that are made together. `validate_only`: all is tried, also against the source; nothing is changed."""

    data: list[AlterEntry]
    validate_only: bool = False


class ConfigValue(Body):
    """The new value of one config."""

    value: str


class LinkConfigData(BaseModel):
    """A config of a link; `value` of a secret is hidden. `read_only`: it cannot be changed."""

    kind: Literal["KafkaLinkConfigData"] = "KafkaLinkConfigData"
    link_name: str
    name: str
    value: str
    read_only: bool
    sensitive: bool
    source: Literal["DYNAMIC_CLUSTER_LINK_CONFIG", "DEFAULT_CONFIG"]
    synonyms: list[str] = Field(default_factory=list)

    @classmethod
    def of(cls, link: str, config: ShownConfig) -> LinkConfigData:
        """From what is shown of it."""
        return cls(
            link_name=link,
            name=config.name,
            value=config.value,
            read_only=config.fixed,
            sensitive=config.secret,
            source="DYNAMIC_CLUSTER_LINK_CONFIG" if config.given else "DEFAULT_CONFIG",
        )


class LinkConfigList(BaseModel):
    """The configs of a link."""

    kind: Literal["KafkaLinkConfigDataList"] = "KafkaLinkConfigDataList"
    data: list[LinkConfigData]


class TaskErrorData(BaseModel):
    """`error_code`: Confluent's, where it has one."""

    error_code: str
    error_message: str
    time_ms: int

    @classmethod
    def all_of(cls, error: TaskError | None) -> list[TaskErrorData]:
        """The error, where there is one."""
        if error is None:
            return []
        return [cls(error_code=error.code.value, error_message=error.message, time_ms=error.at_ms)]


class LinkTaskData(BaseModel):
    """A task. `errors`: what keeps it from its work now. `last_error`: the latest one, also when it works again."""

    kind: Literal["KafkaLinkTaskData"] = "KafkaLinkTaskData"
    task_name: str
    state: str
    state_time_ms: int
    last_run_ms: int | None
    errors: list[TaskErrorData]
    last_error: TaskErrorData | None

    @classmethod
    def of(cls, status: TaskStatus) -> LinkTaskData:
        """From the registry."""
        return cls(
            task_name=status.task.value,
            state=status.state.value,
            state_time_ms=status.since_ms,
            last_run_ms=status.last_run_ms,
            errors=TaskErrorData.all_of(status.present_error),
            last_error=next(iter(TaskErrorData.all_of(status.last_error)), None),
        )


class LinkTaskList(BaseModel):
    """The tasks of a link."""

    kind: Literal["KafkaLinkTaskDataList"] = "KafkaLinkTaskDataList"
    data: list[LinkTaskData]

    @classmethod
    def of(cls, view: LinkView) -> LinkTaskList:
        """From the view."""
        return cls(data=[LinkTaskData.of(status) for status in view.tasks])


class RemainsData(BaseModel):
    """What stays when the link is gone: a topic, a group, or a subject of the target's registry in mode IMPORT; and who
    writes or reads it where then."""

    kind: Literal["topic", "group", "subject"]
    name: str
    state: str
    then: str


class DeletePlanData(BaseModel):
    """What a deletion would leave. `refusal`: why the link would not be deleted now, '' when it would be."""

    kind: Literal["KafkaLinkDeletePlan"] = "KafkaLinkDeletePlan"
    link_name: str
    refusal: str
    remains: list[RemainsData]

    @classmethod
    def of(cls, plan: DeletePlan) -> DeletePlanData:
        """From the plan."""
        remains = [RemainsData.model_validate(vars_of) for vars_of in map(_fields, plan.remains)]
        return cls(link_name=plan.link, refusal=plan.refusal, remains=remains)


def _fields(one: object) -> dict[str, object]:
    return {name: getattr(one, name) for name in RemainsData.model_fields}
