"""Events of what comes along with clients (`plan.EventKind`): schema registries beside the clusters, and somebody who
deletes the group that is about to be promoted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from gateway.kafka.cluster import Cluster, NetError
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import BrokerError
from protocol.errors import error_name
from protocol.messages import DeleteGroupsRequest
from tests.simulation.clients.client import addresses
from tests.simulation.faults.stage import Stage
from tests.simulation.operations.schemas import Schemas
from tests.simulation.plan import GROUP, Event, EventKind

_ANSWER_S: Final = 10.0
_CONNECTED_S: Final = 5.0


class CarriedEvents:
    """`table`: as `NetworkEvents.table`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._deletes: asyncio.Event | None = None  # whoever is about to delete the group waits for it
        self.table: Mapping[EventKind, Callable[[Event], str]] = {
            EventKind.SCHEMAS_CHANGED: self._with(lambda schemas, event: schemas.change()),
            EventKind.SCHEMAS_REFUSED: self._with(lambda schemas, event: schemas.refuse(event.hold_s)),
            EventKind.SCHEMA_FIRST: self._with(lambda schemas, event: schemas.come_first()),
            EventKind.GROUP_DELETED: self._group_deleted,
        }

    def _with(self, do: Callable[[Schemas, Event], str]) -> Callable[[Event], str]:
        return lambda event: "" if self._stage.schemas is None else do(self._stage.schemas, event)

    def _group_deleted(self, event: Event) -> str:
        """The first one connects, so that the request of the second one takes no longer than the way to the target."""
        if self._deletes is not None:
            self._deletes.set()
            return f"group {GROUP} is deleted by a tool"
        self._deletes = asyncio.Event()
        self._stage.soon(self._delete(self._deletes, event.hold_s), "a tool")
        return f"a tool comes to the gateways that is to delete group {GROUP}"

    async def _delete(self, now: asyncio.Event, most_s: float) -> None:
        stage = self._stage
        config = ClusterConfig(bootstrap=addresses(stage.gateway_bootstrap), client_id="tool", request_timeout_s=5.0)
        cluster = Cluster(config, rng=stage.loop.random("a tool").random)
        said = "no answer"
        try:
            await cluster.start()
            node = await cluster.coordinator(GROUP)
            connection = await cluster.connection(node, "tool", _CONNECTED_S)
            async with asyncio.timeout(most_s):
                await now.wait()
            request = DeleteGroupsRequest(groups_names=[GROUP])
            answer = await connection.request(request, cap=2, timeout_s=_ANSWER_S)
            said = error_name(answer.results[0].error_code)
        except (NetError, BrokerError, OSError, TimeoutError) as exc:
            said = said if not str(exc) else str(exc)
        finally:
            await cluster.close()
            self._deletes = None
        stage.story.tell("tool", f"deletes group {GROUP} -> {said}")
