"""Bodies that belong to no noun, and the base of all. Field names are Confluent's where it has the field."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict

ValidateOnly = Annotated[bool, Query(description="Change nothing, and tell what would be done.")]


class Body(BaseModel):
    """A request's body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class ErrorBody(BaseModel):
    """What every failed request answers. `error_code` is the HTTP status."""

    error_code: int
    message: str


class ForceOption(Body):
    """`force`: go on although a check that protects data would say no."""

    force: bool = False


class MirrorNames(Body):
    """Several mirror topics."""

    mirror_topic_names: list[str]


class StatusData(BaseModel):
    """The gateway at a glance. `listeners`: broker of the target (or `bootstrap`) -> address.

    `gateway` is its name in the fleet, `leader` that of the one that leads, '' while none is known. `fleet_trouble`:
    why the coordinator of the fleet's group does not agree with it now, '' while it does; its lease ends meanwhile.
    """

    gateway_id: str
    gateway: str
    leader: str
    version: str
    target_cluster_id: str
    listeners: dict[str, str]
    links: dict[str, str]
    mirrors: dict[str, int]
    groups: dict[str, int]
    fleet_trouble: str = ""


class HealthData(BaseModel):
    """`status`: `ok` or `failing`. `checks`: by name, `ok`, or why it fails; without a token just `failed`."""

    status: str
    checks: dict[str, str]
