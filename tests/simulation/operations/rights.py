"""Who may do what in a run whose link copies ACLs: somebody changes them on the source, and the target must follow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from tests.simulation.judge.rights import GATEWAYS, unlike
from tests.simulation.judge.state import side_of
from tests.simulation.kafka.acls import ALLOW, DENY, GROUP, LITERAL, READ, TOPIC, WRITE, Acl, Authorizer
from tests.simulation.plan import GROUP as READERS
from tests.simulation.plan import TOPICS
from tests.simulation.recorder import TARGET

if TYPE_CHECKING:
    from tests.simulation.world import World

_EVERYWHERE: Final = "*"


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

    def change(self, topics: Sequence[str]) -> str:
        """Somebody may write on the source, and whoever might before may not any more."""
        self._changes += 1
        new = {_on(topic, f"writer-{self._changes}", WRITE) for topic in topics if topic in TOPICS}
        old = {
            acl
            for acl in self._source.acls
            if acl.resource_type == TOPIC and acl.name in topics and (acl.operation, acl.permission) == (WRITE, ALLOW)
        }
        self._ever |= new
        self._source.change(self._world.source, add=new, take=old)
        return f"ACLs of {', '.join(topics)} are changed on the source" if new else ""

    def of(self, topics: Collection[str]) -> frozenset[Acl]:
        """The source's ACLs on these topics."""
        return frozenset(acl for acl in self._source.acls if acl.resource_type == TOPIC and acl.name in topics)

    async def given(self, acls: Collection[Acl]) -> None:
        """Behind a promote, everybody has the right that he had on the source before and still has. Raises Stuck."""

        def missing() -> list[str]:
            return [str(acl) for acl in sorted(acls) if acl in self._source.acls and acl not in self._target.acls]

        async def there() -> bool:
            return not missing()

        await self._world.until(there, "rights of promoted topics are not on the target", missing)

    async def follow(self) -> None:
        """At rest the target's ACLs are what they are to be. Raises Stuck."""

        await self._world.until(self.are_right, "the target's ACLs are not those of the source", self._wrong)

    async def are_right(self) -> bool:
        """The target's ACLs are what they are to be, for now."""
        return not self._wrong()

    def _wrong(self) -> list[str]:
        self._world.judge.look()
        mirrors = self._world.judge.state.mirrors
        promoted = {mirror.mirror_topic for mirror in mirrors if side_of(mirror) == TARGET}
        return unlike(self._source.acls, self._ever, self._target.acls, self._own, promoted)
