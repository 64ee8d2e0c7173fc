"""Mirror topics that are made to fail, each by what somebody might do, and their repair.

`Act.how` says what is done to the copy, or to the source:

* `refused`: the target takes no batches of that size any more; mended by taking that back, and `resume`;
* `written`: somebody writes to the copy; `recreate`;
* `deleted`, `made-anew`: somebody deletes the copy, and perhaps creates another topic of its name; `recreate`;
* `overtaken`: the source deletes records before they are mirrored; `translate`, without them;
* `overtaken-anew`: the same, and `recreate`.

A mirror FAILs once by command; each time more is a fault of the product's. After the repair every record that is on the
source is on the copy, and the mirror tells how many are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.state.records import MirrorRecord, MirrorState
from tests.simulation.clients.records import Sent, record_body, stamped_batch
from tests.simulation.judge.logs import data
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.plan import Act
from tests.simulation.recorder import TARGET

if TYPE_CHECKING:
    from tests.simulation.world import World

HOWS: Final = ("refused", "written", "deleted", "made-anew", "overtaken", "overtaken-anew")
_SMALL: Final = "max.message.bytes"
_RECORDS: Final = 25
"""That the writer gets through between two steps of a story."""
_RESUMES: Final = ("refused", "overtaken")
_OVERTAKEN: Final = ("overtaken", "overtaken-anew")


class RepairActs:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._given_up: dict[str, int] = {}  # topic -> records that were deleted before they were mirrored

    async def spoil(self, act: Act) -> None:
        """A topic is mirrored and written, until its mirror has FAILED."""
        world, topic = self._world, act.topics[0]
        world.source.create_topic(topic, 1, 3, {"min.insync.replicas": "2"})
        world.more_topics.append(topic)
        writer = world.producer(f"{topic}-writer", topic, 1)
        world.begin(writer)
        await world.operator.create(topic)
        await writer.restart(world.gateway_bootstrap, TARGET)
        await self._written(topic)
        world.judge.allowed.add(topic)
        if act.how in _OVERTAKEN:
            await self._overtake(topic)
        else:
            self._harm(topic, act.how)

        async def failed() -> bool:
            return self._state(topic) is MirrorState.FAILED

        async def harm_again() -> None:
            if act.how == "refused":  # the fleet's config sync may have taken it back in time
                self._harm(topic, act.how)

        await world.operator.until(failed, harm_again, f"/v3/links/{world.operator.link}/mirrors/{topic}")
        world.judge.allowed.remove(topic)

    async def repair(self, act: Act) -> None:
        """The cause is mended, and the mirror repaired: it runs, and has all that it should."""
        world, topic = self._world, act.topics[0]
        if self._state(topic) is not MirrorState.FAILED:
            return  # shrinking has left out what comes before
        if act.how == "refused":
            world.target.configure_topic(topic, {_SMALL: None})
        path = f"/v3/links/{world.operator.link}/mirrors/{topic}"
        verb = "repair" if act.how in _RESUMES else "recreate"

        async def ask() -> None:
            if (await world.operator.mirrors()).get(topic, {}).get("mirror_status") == "FAILED":
                await world.operator.say("POST", f"{path}:{verb}", None)

        async def active() -> bool:
            mirror = self._mirror(topic)
            return mirror is not None and mirror.created and mirror.state is MirrorState.ACTIVE

        await world.operator.until(active, ask, path)
        await self._written(topic)
        await self._whole(topic)
        if act.how == "overtaken":
            await self._accounted_for(topic)

    # -- what is done to it ------------------------------------------------------------------------------------------

    def _harm(self, topic: str, how: str) -> None:
        target = self._world.target
        self._world.story.tell("EVENT", f"{topic} is {how} on the target")
        if how == "refused":
            target.configure_topic(topic, {_SMALL: "50"})
        elif how == "written":
            _write(target, topic)
        else:
            target.delete_topic(topic)
            if how == "made-anew":
                target.create_topic(topic, 1, 3)
                _write(target, topic)

    async def _overtake(self, topic: str) -> None:
        """Records are deleted on the source behind the end of the copy, while the mirror is paused."""
        world = self._world
        path = f"/v3/links/{world.operator.link}/mirrors/{topic}"

        async def paused() -> bool:
            return self._state(topic) is MirrorState.PAUSED

        async def asks(verb: str) -> None:
            await world.operator.say("POST", f"{path}:{verb}", {})

        await world.operator.until(paused, lambda: asks("pause"), path)
        await self._written(topic)
        copied, end = world.target.log_range(topic, 0)[1], world.source.log_range(topic, 0)[2]
        before, gone = copied + (end - copied) // 2, world.source.records(topic, 0)
        world.source.partition(topic, 0).delete_records(before)
        world.judge.deleted(f"{topic}/0", (record.value for record in gone if record.offset < before))
        self._given_up[topic] = before - copied
        world.story.tell("EVENT", f"{topic} begins at {before} on the source, its copy ends at {copied}")

        async def resumed() -> bool:
            return self._state(topic) is not MirrorState.PAUSED

        await world.operator.until(resumed, lambda: asks("resume"), path)

    # -- what must be so afterwards ----------------------------------------------------------------------------------

    async def _whole(self, topic: str) -> None:
        """What is on the source by now comes to be on the copy, from its first record on."""
        world = self._world
        wanted = [record.value for record in data(world.source, topic, 0)]

        async def come() -> bool:
            there = data(world.target, topic, 0) if topic in world.target.topic_names() else []
            return bool(there) and wanted[-1] in {record.value for record in there}

        await world.until(come, f"the repaired {topic} has not come level")
        there = {record.value for record in data(world.target, topic, 0)}
        missing = [value for value in wanted if value not in there]
        if missing:
            what = f"{len(missing)} records of the source are not on the repaired copy, from {missing[0]!r} on"
            world.judge.findings.add("lost", f"{topic}/0", what, world.loop.time())

    async def _accounted_for(self, topic: str) -> None:
        """The repair says how many records it goes on without."""
        wanted = self._given_up[topic]

        async def said() -> bool:
            mirror = self._mirror(topic)
            return mirror is not None and sum(each.count for each in mirror.lost) == wanted

        await self._world.until(said, f"{topic} does not say that {wanted} records are lost")

    async def _written(self, topic: str) -> None:
        writer = next(each for each in self._world.writers if each.name == f"{topic}-writer")
        wanted = writer.progress + _RECORDS

        async def got_on() -> bool:
            return writer.progress >= wanted

        await self._world.until(got_on, f"{writer.name} does not get on")

    def _mirror(self, topic: str) -> MirrorRecord | None:
        """As the state topic has it."""
        judge = self._world.judge
        judge.look()
        return next((each for each in judge.state.mirrors if each.mirror_topic == topic), None)

    def _state(self, topic: str) -> MirrorState | None:
        mirror = self._mirror(topic)
        return None if mirror is None else mirror.state


def _write(cluster: ClusterModel, topic: str) -> None:
    """A batch of somebody's own, which nobody is to miss."""
    partition = cluster.partition(topic, 0)
    leader = partition.leader
    if leader is not None:
        now_ms = cluster.brokers[leader.broker_id].now_ms()
        partition.append(leader, stamped_batch(record_body([Sent(None, b"by hand")]), 1, now_ms))
