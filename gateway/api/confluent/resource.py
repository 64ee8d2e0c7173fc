"""What every answer has: `kind`, and `metadata` with the address of the thing; and the cluster that a path names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from fastapi import Depends, Request
from pydantic import BaseModel

from gateway.api.confluent.errors import ConfluentRoute
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.errors import NotFound

LINKS: Final = "/kafka/v3/clusters/{cluster_id}/links"
LINK: Final = LINKS + "/{link}"


class Metadata(BaseModel):
    """`self`: the thing's URL, as the client addresses this gateway. `resource_name`: Confluent Cloud's, null here."""

    self: str
    resource_name: str | None = None


def address(request: Request, *below: str) -> str:
    """The URL of what is below the links of the cluster: (link, 'mirrors', topic)."""
    cluster = request.path_params["cluster_id"]
    names = ("kafka", "v3", "clusters", cluster, "links", *below)
    return str(request.base_url) + "/".join(quote(name, safe="-._~") for name in names)


def make_router(plane: Plane) -> Routes:
    """A router, all of whose routes answer 404 for another cluster than the target."""
    return Routes(
        tags=["Confluent"], route_class=ConfluentRoute, dependencies=[Depends(_only_the_target(plane))], prefix=LINKS
    )


def _only_the_target(plane: Plane) -> Callable[[str], None]:
    async def check(cluster_id: str) -> None:
        target = plane().target_cluster_id()
        if cluster_id != target:
            raise NotFound(f"Cluster {cluster_id} cannot be found: the target of this gateway is cluster {target}")

    return check  # type: ignore[return-value]
