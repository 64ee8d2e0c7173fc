"""The operator of a simulated migration: asks a gateway for each operation until the fleet says that it is done.

As people and scripts do: any gateway that answers is asked, a change that was given up is asked for again, and an
answer that never came means nothing. What is not done within `PATIENCE_S` of virtual time is `stuck`, with what
`describe` says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypedDict, Unpack

from tests.simulation.fleet.gateway_node import GatewayNode, NotServing
from tests.simulation.judge.rights import GATEWAYS
from tests.simulation.operations.schemas import SOURCE_URL, TARGET_URL

LINK: Final = "west"
PATIENCE_S: Final = 900.0
"""Longer than the longest lease that a promote may have to wait for (fleet.lease_s, 10 min)."""
_LOOK_S: Final = 0.1
_SELDOM_S: Final = 0.5
_ASK_AGAIN_S: Final = 2.0
_ANSWER_S: Final = 40.0
Shown = tuple[str, str]
"""State and direction of a mirror topic."""


class LinkOptions(TypedDict, total=False):
    """What a link has. `synced`: the offsets of its groups are synced, as often as can be.

    `auto_create`: the source topic whose mirror the link creates by itself. `acls`, `schemas`: they are copied.
    `ack_both`: clients' writes are answered when they are on both clusters.
    """

    synced: bool
    auto_create: str
    acls: bool
    ack_both: bool
    schemas: bool


class Stuck(Exception):
    """An operation that did not come to its end; the message says what was asked and what the fleet says."""


class TopicFailed(Exception):
    """A mirror topic that is FAILED."""


class Operator:
    """Runs on a node of its own. `gateways`: those there are now, in the order in which they are asked.

    `link`, `prefix`: the link that it looks after, and how its mirror topics' names begin. `before_promote`: what is
    seen to before each time that a promote is asked for. `on_promote`: called whenever a gateway is asked for one.

    Attributes:
        open_promotes: requests for promotes that have no answer, and perhaps never will.
    """

    def __init__(
        self,
        gateways: Callable[[], Sequence[GatewayNode]],
        clock: Callable[[], float],
        tell: Callable[[str], None],
        link: str = LINK,
        prefix: str = "",
    ) -> None:
        self.link, self.prefix = link, prefix
        self._gateways = gateways
        self._clock = clock
        self._tell = tell
        self._said: tuple[int, Any] = (0, "")
        self.before_promote: Callable[[], Awaitable[None]] = _nothing
        self.on_promote: Callable[[], None] = lambda: None
        self.open_promotes = 0

    def of_link(self, link: str, prefix: str = "") -> Operator:
        """Somebody who asks the same gateways for another link."""
        return Operator(self._gateways, self._clock, self._tell, link, prefix)

    # -- operations ------------------------------------------------------------------------------------------------

    async def create_link(self, bootstrap: str, **options: Unpack[LinkOptions]) -> None:
        """Name the source."""

        async def exists() -> bool:
            return (await self.ask("GET", f"/v3/links/{self.link}"))[0] == 200

        async def ask() -> None:
            await self.ask_for_link(bootstrap, **options)

        await self.until(exists, ask, "/v3/links")

    async def ask_for_link(self, bootstrap: str, **options: Unpack[LinkOptions]) -> None:
        """Ask once for `create_link`."""
        configs = [{"name": "bootstrap.servers", "value": bootstrap}]
        if self.prefix:
            configs += [{"name": "link.prefix", "value": self.prefix}]
        if options.get("ack_both"):
            configs += [{"name": "ack", "value": "both"}]
        if options.get("synced"):
            configs += [
                {"name": "consumer.offset.sync.enable", "value": "true"},
                {"name": "consumer.offset.sync.ms", "value": "1000"},
            ]
        if auto_create := options.get("auto_create"):
            one = {"name": auto_create, "patternType": "LITERAL", "filterType": "INCLUDE"}
            configs += [
                {"name": "auto.create.mirror.topics.enable", "value": "true"},
                {"name": "auto.create.mirror.topics.filters", "value": json.dumps({"topicFilters": [one]})},
                {"name": "metadata.max.age.ms", "value": "1000"},
            ]
        if options.get("acls"):
            every = {"aclFilters": [{"resourceFilter": {"resourceType": "any", "patternType": "any"}}]}
            configs += [
                {"name": "acl.sync.enable", "value": "true"},
                {"name": "acl.filters", "value": json.dumps(every)},
                {"name": "acl.sync.ms", "value": "1000"},
                {"name": "acl.sync.write.hosts", "value": GATEWAYS},
            ]
        if options.get("schemas"):
            configs += [
                {"name": "schema.sync.enable", "value": "true"},
                {"name": "schema.source.registry.url", "value": SOURCE_URL},
                {"name": "schema.target.registry.url", "value": TARGET_URL},
                {"name": "schema.sync.ms", "value": "2000"},
            ]
        await self.say("POST", "/v3/links", {"link_name": self.link, "configs": configs})

    async def delete_link(self) -> None:
        """Ask once for the end of the link."""
        await self.say("DELETE", f"/v3/links/{self.link}", None)

    async def alter_link(self, **configs: str) -> None:
        """Ask once for these configs of the link. They take `_` for `.`."""
        data = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
        await self.say("PUT", f"/v3/links/{self.link}/configs:alter", {"data": data})

    async def create(self, topic: str) -> None:
        """Mirror a topic; ACTIVE when this returns."""

        async def active() -> bool:
            created = (await self.mirrors()).get(topic, {}).get("waiting_for") != "it is being created"
            return created and await self._mirrors((topic,)) == {("ACTIVE", "FORWARD")}

        async def ask() -> None:
            if not await self._mirrors((topic,)):
                await self.ask_to_mirror(topic)

        await self.until(active, ask, f"/v3/links/{self.link}/mirrors/{topic}")

    async def ask_to_mirror(self, topic: str) -> tuple[int, Any]:
        """Ask once for a mirror topic, and return the answer."""
        body = {"source_topic_name": topic.removeprefix(self.prefix)}
        return await self.say("POST", f"/v3/links/{self.link}/mirrors", body)

    async def delete_mirror(self, topic: str) -> None:
        """Ask once for the end of a mirror, with its topic; groups that wait at their gates read on at the source."""
        await self.say("DELETE", f"/v3/links/{self.link}/mirrors/{topic}?delete_topic=true&force=true", None)

    async def created(self, topic: str) -> None:
        """Wait for a mirror topic that nobody asks for; ACTIVE when this returns."""

        async def active() -> bool:
            created = (await self.mirrors()).get(topic, {}).get("waiting_for") != "it is being created"
            return created and await self._mirrors((topic,)) == {("ACTIVE", "FORWARD")}

        async def nothing() -> None:
            return

        await self.until(active, nothing, f"/v3/links/{self.link}/candidates")

    async def promote(
        self, topics: Sequence[str], *, home: bool = False, twice: bool = False, force: bool = True
    ) -> None:
        """Promote a set; of reverse mirrors, home."""
        begin = ("ACTIVE", "REVERSE") if home else ("ACTIVE", "FORWARD")
        end = ("ACTIVE", "FORWARD") if home else ("STOPPED", "FORWARD")
        await self._change(topics, "promote", begin, end, twice=twice, force=force)

    async def promote_as_one(self, topics: Sequence[str], groups: Sequence[str], *, home: bool = False) -> None:
        """Promote topics and groups as one; of reverse mirrors, home. Groups are where the topics are then."""
        begin = ("ACTIVE", "REVERSE") if home else ("ACTIVE", "FORWARD")
        end = ("ACTIVE", "FORWARD") if home else ("STOPPED", "FORWARD")
        await self._change(topics, "promote", begin, end, groups=groups)
        for group in groups:
            if (state := await self.group_state(group)) not in ("", "ACTIVE" if home else "PROMOTED"):
                raise Stuck(f"topics have changed sides, and group {group} is {state}")

    async def declare(self, group: str) -> None:
        """Make a group of the source a mirror group."""
        path = f"/v3/links/{self.link}/groups"

        async def there() -> bool:
            return bool(await self.group_state(group))

        async def ask() -> None:
            await self.say("POST", path, {"group": group})

        await self.until(there, ask, path)

    async def reverse(self, topics: Sequence[str], *, twice: bool = False) -> None:
        """Mirror promoted topics back."""
        await self._change(topics, "reverse-and-start-mirror", ("STOPPED", "FORWARD"), ("ACTIVE", "REVERSE"), twice)

    async def failover(self, topic: str) -> None:
        """Write on the target without the source."""
        await self._change((topic,), "failover", None, ("STOPPED", "FORWARD"))

    async def restore(self, topic: str) -> None:
        """Create the failback destination anew, and fill it from the target."""

        async def active() -> bool:
            shown = await self._shown(topic)
            return shown == ("ACTIVE", "REVERSE")

        await self.until(active, lambda: self._ask_restore(topic), f"/v3/links/{self.link}/mirrors/{topic}")

    # -- operations that end where they began, or FAILED -----------------------------------------------------------

    async def promote_in_vain(self, topic: str, given_up: Callable[[], bool]) -> None:
        """Ask for a promote until one was given up, and the mirror is as before."""

        async def ask() -> None:
            if not given_up() and await self._shown(topic) == ("ACTIVE", "FORWARD"):
                body = {"mirror_topic_names": [topic], "force": True}
                await self.say("POST", f"/v3/links/{self.link}/mirrors:promote", body)

        await self._back(topic, ("ACTIVE", "FORWARD"), ask, given_up)

    async def rehearse(self, topic: str) -> None:
        """Ask for rehearsals of a promote until one has come to its cutover, and the mirror is as before."""
        reached = False

        async def ask() -> None:
            nonlocal reached
            if not reached:
                path = f"/v3/links/{self.link}/mirrors:rehearse-promote"
                code, answer = await self.say("POST", path, {"mirror_topic_names": [topic]})
                reached = code == 200 and answer["reached"]

        await self._back(topic, ("ACTIVE", "FORWARD"), ask, lambda: reached)

    async def reverse_in_vain(self, topic: str, given_up: Callable[[], bool]) -> None:
        """The same of a reverse."""

        async def ask() -> None:
            if not given_up() and await self._shown(topic) == ("STOPPED", "FORWARD"):
                body = {"mirror_topic_names": [topic]}
                await self.say("POST", f"/v3/links/{self.link}/mirrors:reverse-and-start-mirror", body)

        await self._back(topic, ("STOPPED", "FORWARD"), ask, given_up)

    async def restore_in_vain(self, topic: str) -> None:
        """Ask for a restore until the mirror is FAILED."""

        async def failed() -> bool:
            return (await self._shown(topic))[0] == "FAILED"

        await self.until(failed, lambda: self._ask_restore(topic), f"/v3/links/{self.link}/mirrors/{topic}")

    async def _back(
        self, topic: str, where: Shown, ask: Callable[[], Awaitable[None]], given_up: Callable[[], bool]
    ) -> None:
        async def there() -> bool:
            return given_up() and await self._shown(topic) == where

        await self.until(there, ask, f"/v3/links/{self.link}/mirrors/{topic}")

    async def _ask_restore(self, topic: str) -> None:
        if await self._shown(topic) == ("STOPPED", "FORWARD") or (await self._shown(topic))[0] == "FAILED":
            body = {"mirror_topic_names": [topic]}
            await self.say("POST", f"/v3/links/{self.link}/mirrors:truncate-and-restore", body)

    async def _shown(self, topic: str) -> Shown:
        listed = (await self.mirrors()).get(topic, {})
        return listed.get("mirror_status", ""), listed.get("mirror_direction", "")

    async def promoted(self, group: str) -> None:
        """Until the group is promoted, by itself; at a word where it says that it waits for one."""
        path = f"/v3/links/{self.link}/groups/{group}"

        async def there() -> bool:
            return await self.group_state(group) == "PROMOTED"

        async def ask() -> None:
            code, answer = await self.ask("GET", path)
            if code == 200 and "by hand" in answer["waits_for"]:
                await self.say("POST", f"{path}:promote", {})

        await self.until(there, ask, path)

    async def demote(self, group: str) -> None:
        """Take the group back to the source."""
        path = f"/v3/links/{self.link}/groups/{group}"

        async def back() -> bool:
            return await self.group_state(group) == "ACTIVE"

        async def ask() -> None:
            if await self.group_state(group) == "PROMOTED":
                await self.say("POST", f"{path}:demote", {})

        await self.until(back, ask, path)

    # -- asking ----------------------------------------------------------------------------------------------------

    async def group_state(self, group: str) -> str:
        """'' when nobody tells."""
        code, answer = await self.ask("GET", f"/v3/links/{self.link}/groups/{group}")
        return str(answer["state"]) if code == 200 else ""

    async def mirrors(self) -> dict[str, dict[str, Any]]:
        """By mirror topic, as listed; empty when nobody tells."""
        code, answer = await self.ask("GET", f"/v3/links/{self.link}/mirrors")
        return {m["mirror_topic_name"]: m for m in answer["data"]} if code == 200 else {}

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The first answer of any gateway that serves; (0, why) when none does. Looks go to the leader first."""
        why: Any = "no gateway runs"
        promotes = path.endswith("/mirrors:promote")
        for gateway in reversed(self._gateways()) if method == "GET" else self._gateways():
            if promotes:
                self.open_promotes += 1
                self.on_promote()
            try:
                code, answer = await gateway.api.request(method, path, body, _ANSWER_S)
            except NotServing as exc:
                why = str(exc)
                continue
            if code < 500:
                self.open_promotes -= promotes
                return code, answer
            why = answer
        return 0, why

    async def say(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Ask, tell the answer in the story, and return it."""
        self._said = await self.ask(method, path, body)
        self._tell(f"{method} {path} {body or ''} -> {self._said[0]}{_reason(self._said[1])}")
        return self._said

    async def _mirrors(self, topics: Sequence[str]) -> set[Shown]:
        listed = await self.mirrors()
        failed = [name for name in topics if listed.get(name, {}).get("mirror_status") == "FAILED"]
        if failed:
            shown = listed[failed[0]]
            raise TopicFailed(f"{failed[0]}: {shown.get('mirror_error', '')}: {shown.get('error_message', shown)}")
        if not all(topic in listed for topic in topics):
            return set()
        return {(listed[topic]["mirror_status"], listed[topic]["mirror_direction"]) for topic in topics}

    async def _change(
        self,
        topics: Sequence[str],
        verb: str,
        begin: Shown | None,
        end: Shown,
        twice: bool = False,
        force: bool = False,
        groups: Sequence[str] = (),
    ) -> None:
        """Ask until all are where it ends. A promote takes them as one set, so only while all are where it begins."""
        path = f"/v3/links/{self.link}/mirrors:{verb}"

        async def ask() -> None:
            listed = await self.mirrors()
            shown = {t: (m["mirror_status"], m["mirror_direction"]) for t, m in listed.items() if t in topics}
            left = [t for t in topics if t in shown and (shown[t] == begin or (begin is None and shown[t] != end))]
            if not left or (verb == "promote" and len(left) < len(topics)):
                return
            if verb == "promote":
                await self.before_promote()
            body: dict[str, Any] = {"mirror_topic_names": left, **({"force": True} if force else {})}
            body |= {"group_names": list(groups)} if groups else {}
            if verb == "promote" and begin is not None:  # what was listed may be old by now
                body["mirror_direction"] = begin[1]
            asked = [self.say("POST", path, body) for _ in range(2 if twice else 1)]
            await asyncio.gather(*asked)

        async def there() -> bool:
            return await self._mirrors(topics) == {end}

        await self.until(there, ask, f"/v3/links/{self.link}/mirrors/{topics[0]}")

    async def until(
        self, reached: Callable[[], Awaitable[bool]], ask: Callable[[], Awaitable[None]], describe: str
    ) -> None:
        """Ask now and then until it is reached. Raises Stuck."""
        began, asked_at = self._clock(), -1e9
        while not await reached():
            now = self._clock()
            if now - began > PATIENCE_S:
                raise Stuck(f"asked: {self._said}; described: {await self.ask('GET', describe)}")
            if now - asked_at >= _ASK_AGAIN_S:
                await ask()
                asked_at = self._clock()
                continue
            await asyncio.sleep(min(max(_LOOK_S, (now - began) / 10), _SELDOM_S))


async def _nothing() -> None:
    pass


def _reason(answer: Any) -> str:
    return f" {answer.get('message', '')}" if isinstance(answer, dict) and "message" in answer else ""
