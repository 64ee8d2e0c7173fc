"""Fixtures of the security tests: conversations with one session."""

import pytest

from tests.support.conversation import Conversation, talk
from tests.support.login import LoggingIn

__all__ = ["talk"]


@pytest.fixture
async def secured() -> LoggingIn:
    """A session whose target asks for a login; nothing has been said yet."""
    return LoggingIn(Conversation(asks_login=True))
