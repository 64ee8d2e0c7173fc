"""Who may do what in a run whose link copies ACLs: somebody changes them on the source, and the target must follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from tests.simulation.judge.rights import GATEWAYS, lost_or_given, unlike
from tests.simulation.judge.state import side_of
from tests.simulation.kafka.acls import ALLOW, DENY, GROUP, LITERAL, READ, TOPIC, WRITE, Acl, Authorizer
from tests.simulation.plan import GROUP as READERS
from tests.simulation.plan import TOPICS
from tests.simulation.recorder import TARGET

if TYPE_CHECKING:
    from tests.simulation.world import World

_EVERYWHERE: Final = "*"
_DECIDED_S: Final = 15.0
"""So long before it is made a change may have been decided: gateways are paused for twelve seconds."""
_REST_S: Final = 120.0
_LOOK_S: Final = 0.1
_REFUSED: Final = 0.75
_BARRED: Final = "barred-"


def _on(topic: str, who: str, operation: int, permission: int = ALLOW) -> Acl:
    return Acl(TOPIC, topic, LITERAL, f"User:{who}", _EVERYWHERE, operation, permission)


class Rights:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        acls = {Acl(GROUP, READERS, LITERAL, "User:bob", _EVERYWHERE, READ, ALLOW)}
        for topic in TOPICS:
            acls |= {_on(topic, "alice", WRITE), _on(topic, "bob", READ), _on(topic, "mallory", WRITE, DENY)}
        # The target has some of its own: as on the source, as a mirror topic's would be, and as nowhere else.
        self._own = {_on(topic, who, READ) for topic in TOPICS for who in ("bob", "of-the-target")}
        self._own |= {_on(topic, "alice", WRITE)._replace(host=GATEWAYS) for topic in TOPICS}
        self._ever = set(acls)
        self._changes = 0
        self._source, self._target = Authorizer(acls), Authorizer(self._own)
        world.source.authorizer, world.target.authorizer = self._source, self._target
        self._history = [(world.loop.time(), frozenset(acls))]  # of the source, each from then on
        self._target.on_change.append(self._target_changed)

    def change(self, topics: Sequence[str]) -> str:
        """Somebody may write on the source, and whoever might before may not any more. Somebody else might write, were
        it not for a DENY: both entries come and go together.
        """
        self._changes += 1
        known = [topic for topic in topics if topic in TOPICS]
        new = {_on(topic, f"writer-{self._changes}", WRITE) for topic in known}
        barred = f"{_BARRED}{self._changes}"
        new |= {_on(topic, barred, WRITE, permission) for topic in known for permission in (ALLOW, DENY)}
        old = {
            acl
            for acl in self._source.acls
            if acl.resource_type == TOPIC and acl.name in topics and acl.operation == WRITE
            if acl.permission == ALLOW or acl.principal.startswith(f"User:{_BARRED}")
        }
        self._ever |= new
        self._source.change(self._world.source, add=new, take=old)
        self._history.append((self._world.loop.time(), frozenset(self._source.acls)))
        return f"ACLs of {', '.join(topics)} are changed on the source" if new else ""

    def refuse(self, for_s: float) -> str:
        """For a while the target neither makes nor deletes some ACLs that say who may write, entry by entry."""
        dice = self._world.loop.random("refused ACLs")

        def is_refused(acl: Acl) -> bool:
            return acl.operation == WRITE and dice.random() < _REFUSED

        self._target.refuses = self._target.keeps = is_refused
        self._world.soon(self._accept(for_s), "ACLs are made again")
        return f"the target refuses ACLs of writers, most of them, for {for_s:g} s"

    async def _accept(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._target.refuses = self._target.keeps = lambda acl: False

    def _target_changed(self, before: frozenset[Acl]) -> None:
        """By what the source had since a change that is made now may have been decided."""
        now = self._world.loop.time()
        while len(self._history) > 1 and self._history[1][0] < now - _DECIDED_S:
            del self._history[0]
        had = [acls for _, acls in self._history]
        for what in lost_or_given(before, self._target.acls, had, self._own):
            self._wrong_now(what)

    def _wrong_now(self, what: str) -> None:
        if self._world.judge.findings.add("rights_wrong", "the target", what, self._world.loop.time()):
            self._world.story.tell("judge", f"rights_wrong: {what}")

    def of(self, topics: Collection[str]) -> frozenset[Acl]:
        """The source's ACLs on these topics."""
        return frozenset(acl for acl in self._source.acls if acl.resource_type == TOPIC and acl.name in topics)

    async def given(self, acls: Collection[Acl]) -> None:
        """Behind a promote everybody has the right that he had on the source before and has still; else it is noted."""

        def missing() -> list[str]:
            return [str(acl) for acl in sorted(acls) if acl in self._source.acls and acl not in self._target.acls]

        async def there() -> bool:
            return not missing()

        await self._until(there, "missing behind a promote", missing)

    async def follow(self) -> None:
        """At rest the target's ACLs are what they are to be; else it is noted."""
        await self._until(self.are_right, "at rest", self._wrong)

    async def _until(self, reached: Callable[[], Awaitable[bool]], when: str, wrong: Callable[[], list[str]]) -> None:
        until = self._world.loop.time() + _REST_S
        while not await reached():
            if self._world.loop.time() > until:
                for what in wrong():
                    self._wrong_now(f"{when}, {what}")
                return
            await asyncio.sleep(_LOOK_S)

    async def are_right(self) -> bool:
        """The target's ACLs are what they are to be, for now."""
        return not self._wrong()

    def _wrong(self) -> list[str]:
        self._world.judge.look()
        mirrors = self._world.judge.state.mirrors
        promoted = {mirror.mirror_topic for mirror in mirrors if side_of(mirror) == TARGET}
        return unlike(self._source.acls, self._ever, self._target.acls, self._own, promoted)
