"""Open transactions of both clusters; one that does not tell says why, and hides nothing of the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from gateway.errors import NotFound
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.transactions import TransactionDescription
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.open_transactions import TransactionsView
from tests.support.control.control_plane import Plane

OPEN = TransactionDescription("t", "Ongoing", 7, 5, 60_000, {"orders": (0,)})


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    made = Plane()
    await made.start()
    await made.with_link()
    yield made
    await made.close()


async def test_each_cluster_tells_for_itself(plane: Plane) -> None:
    async def reads(access: ClusterAccess) -> Sequence[TransactionDescription]:
        if access.cluster_id() == "S":
            raise ClusterUnavailable("connection refused")
        return [OPEN]

    told = await TransactionsView(plane.parts.records, plane.parts.views, plane.target, reads).of_link("l")
    assert told.found == {"target": [OPEN]}
    assert set(told.unknown) == {"source"}
    assert "connection refused" in told.unknown["source"]


async def test_a_link_that_is_not_there_is_said_so(plane: Plane) -> None:
    with pytest.raises(NotFound):
        await plane.service.transactions.of_link("nothing")
