"""What the sessions of a listener with `identity: token` share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.kafka.access.delegation_tokens import Token


class InvalidBearer(Exception):
    """An OAUTHBEARER token that lets nobody in; one line that says why, which its bearer may see."""


class BearerUnchecked(Exception):
    """It could not be found out whether a token is valid. Its bearer may come again."""


class Bearer(NamedTuple):
    """Whose a token is, and for how many seconds more."""

    principal: str
    left_s: float


class Tokens(Protocol):
    """The delegation tokens of the target; see `kafka/access/token_book.py`."""

    async def get(self, owner: str) -> Token:
        """A token to log in with now. Raises TokenRefused or ClusterUnavailable."""

    def forget(self, owner: str, token: Token) -> None:
        """The target does not take it any more."""


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """Attributes.

    tokens: of the target.
    bearer: whose an OAUTHBEARER token is; raises InvalidBearer or BearerUnchecked. None: certificates say who
        clients are.
    rng: random numbers in [0, 1).
    """

    tokens: Tokens
    bearer: Callable[[str], Awaitable[Bearer]] | None
    rng: Callable[[], float]
