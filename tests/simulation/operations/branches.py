"""A link of a run beside its own one: to another source, or before another target with gateways of its own.

It has an operator, a judge and a history of its own, and is a scene: faults of its operations strike its fleet and its
clusters. Who writes its topic writes it where the link is, so one history tells of it, in whatever way the records go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.clients import GroupMember, Producer, TransactionalProducer
from tests.simulation.faults.faults import Faults
from tests.simulation.fleet.gateway_node import GatewayNode
from tests.simulation.judge import Judge
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.operations.operator import Operator
from tests.simulation.recorder import SOURCE, Recorder

if TYPE_CHECKING:
    from tests.simulation.operations.asked import Asked
    from tests.simulation.world import World

FAR: Final = "far-"
"""How names of the gateways of a second fleet begin."""
_JOINED_S: Final = 2.0
_RATE: Final = 15.0


class Branch:
    """Implements `faults.Scene`.

    Args:
        topic: the mirror topic.
        gateways: of another fleet; none: the run's own fleet has this link, too.
        asked_as_source: see `faults.Scene`.
        prefix: of the link's mirror topics.
        told: the history of its topic is its own; else it is the run's.

    Attributes:
        writers: who writes the topic, to be stopped at the end.
    """

    def __init__(
        self,
        world: World,
        link: str,
        topic: str,
        *,
        source: ClusterModel,
        target: ClusterModel,
        gateways: Sequence[GatewayNode] = (),
        asked_as_source: str,
        prefix: str = "",
        told: bool = True,
    ) -> None:
        self._world, self.loop = world, world.loop
        self.topic, self.source_topic = topic, topic.removeprefix(prefix)
        self.source, self.target = source, target
        self._own = list(gateways)
        self._joined = 0
        self.fleet_name, self.asked_as_source = FAR if gateways else world.fleet_name, asked_as_source
        self.operator = self.operator_of(link, prefix)
        self.recorder = Recorder(self.loop.time, {self.source_topic: topic} if prefix else {})
        names = {self.source_topic, topic}
        self.judge = Judge(
            self.recorder,
            source,
            target,
            self.loop.time,
            links=(link,),
            told=lambda name: told and name in names,
        )
        self.faults = Faults(self, self.loop.random(f"faults {link}"))
        self.writers: list[Producer | TransactionalProducer] = []
        self.readers: list[GroupMember] = []
        self.story = world.story
        self.asked: Asked = world.asked
        world.branches[topic] = self

    @property
    def gateways(self) -> list[GatewayNode]:
        """Those of its fleet."""
        return self._own or self._world.gateways

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(gateway.bootstrap for gateway in self._own) or self._world.gateway_bootstrap

    def reading(self) -> list[GroupMember]:
        """Whoever reads what its link mirrors, and is of the branch."""
        return self.readers

    def operator_of(self, link: str, prefix: str = "") -> Operator:
        """Somebody who asks the same gateways for another link."""
        return Operator(
            self._asked, self.loop.time, lambda text: self._world.story.tell("operator", text), link, prefix
        )

    def writer(self, name: str, recorder: Recorder | None = None) -> Producer:
        """A producer of the topic, on its source; with a history of the branch's unless another one is given."""
        topics = {self.source_topic: 1}
        history = recorder or self.recorder
        made = Producer(
            self.loop, name, self.source.bootstrap, topics, history, rate_per_s=_RATE, side=SOURCE, style="librdkafka"
        )
        made.on_error.append(self._world.story.tell)
        self.writers.append(made)
        return made

    def _asked(self) -> list[GatewayNode]:
        """The leader last, as in `World`."""
        return sorted((one for one in self.gateways if one.runs), key=_leads)

    # -- for faults ------------------------------------------------------------------------------------------------

    def leader(self) -> GatewayNode | None:
        """See `faults.Scene`."""
        return next((one for one in self.gateways if one.serves and _leads(one)), None)

    def followers(self) -> list[GatewayNode]:
        """See `faults.Scene`."""
        return [one for one in self.gateways if one.serves and not _leads(one)]

    def soon(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """See `faults.Scene`."""
        self._world.soon(work, name)

    def troubled(self) -> bool:
        """See `faults.Scene`."""
        return self._world.troubled()

    async def hold(self, seconds: float) -> None:
        """See `faults.Scene`."""
        await self._world.hold(seconds)

    async def join(self) -> None:
        """See `faults.Scene`."""
        if not self._own:
            await self._world.join()
            return
        self._joined += 1
        gateway = self._world.gateway(f"{FAR}{len(self._own) + self._joined}", self.target)
        self._own.append(gateway)
        await gateway.start()
        await asyncio.sleep(_JOINED_S)
        if gateway.runs:
            await gateway.stop()
        self._own.remove(gateway)

    def living(self, cluster: ClusterModel) -> set[int]:
        """See `faults.Scene`."""
        return self._world.living(cluster)

    def topics(self) -> tuple[str, ...]:
        """See `faults.Scene`."""
        return tuple({self.topic: None, self.source_topic: None})


def _leads(gateway: GatewayNode) -> bool:
    return gateway.serves and gateway.gateway._term is not None
