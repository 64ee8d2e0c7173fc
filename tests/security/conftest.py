"""Fixtures of the security tests: conversations with one session, and a cluster with a gateway that knows everybody."""

from collections.abc import Iterator

import pytest

from tests.support.gateways.identity_scene import Scene, identity_scene
from tests.support.proxy.conversation import Conversation, talk
from tests.support.proxy.login import LoggingIn

__all__ = ["talk"]


@pytest.fixture
async def secured() -> LoggingIn:
    """A session whose target asks for a login; nothing has been said yet."""
    return LoggingIn(Conversation(asks_login=True))


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """See `Scene`. Each test has topics of its own, and gives rights for those."""
    with identity_scene(tmp_path_factory.mktemp("identity")) as made:
        yield made
