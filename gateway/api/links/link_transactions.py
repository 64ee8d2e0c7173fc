"""/v3/links/{link}/transactions: what is open on both clusters"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.kafka.transactions import TransactionDescription


class TransactionData(BaseModel):
    """A transaction that is not ended. `topics`: that have no marker of it yet."""

    transactional_id: str
    cluster: Literal["source", "target"]
    state: str = Field(description="Kafka's word.")
    producer_id: int
    age_ms: int | None = Field(description="Since it began, by the coordinator's clock; null: nothing is written yet.")
    timeout_ms: int = Field(description="After which its coordinator aborts it.")
    topics: list[str]

    @classmethod
    def of(cls, cluster: Literal["source", "target"], one: TransactionDescription, now_ms: int) -> TransactionData:
        """From what its coordinator says."""
        return cls(
            transactional_id=one.transactional_id,
            cluster=cluster,
            state=one.state,
            producer_id=one.producer_id,
            age_ms=None if one.started_ms < 0 else max(0, now_ms - one.started_ms),
            timeout_ms=one.timeout_ms,
            topics=sorted(one.partitions),
        )


class TransactionList(BaseModel):
    """Those of a link's source and of the target."""

    kind: Literal["LockgateTransactionList"] = "LockgateTransactionList"
    link_name: str
    data: list[TransactionData]
    unknown: dict[str, str] = Field(description="Cluster -> why it does not tell.")


def router(plane: Plane) -> Routes:
    """The route."""
    routes = Routes(prefix="/v3/links", tags=["links"])

    @routes.get("/{link}/transactions", summary="List the open transactions of a link's source and of the target")
    async def list_transactions(link: str) -> TransactionList:
        service = plane()
        told = await service.transactions.of_link(link)
        now_ms = service.now_ms()
        clusters: tuple[Literal["source", "target"], ...] = ("source", "target")
        return TransactionList(
            link_name=link,
            data=[TransactionData.of(each, one, now_ms) for each in clusters for one in told.found.get(each, ())],
            unknown=dict(told.unknown),
        )

    return routes
