"""What stands in the place of a session's connections and login once it has ended.

A session and its connections know each other: a ring, which only a collection of garbage would find. Of a TLS
connection it holds a hundred kilobytes, and a flood of them a collection works on for longer than a turn of the event
loop may take. So a session lets go of all that knows it, and is free as soon as nobody is in the midst of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from protocol.wire import Buffer

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange


class NoConnection:
    """See `Connected`: nothing comes to anybody."""

    waiting = False
    unsent = untaken = 0

    def write(self, data: Buffer) -> None:
        """To nobody."""

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        """To nobody."""

    def pause_reading(self) -> None:
        """Nothing comes."""

    def resume_reading(self) -> None:
        """Nothing comes."""

    def trusted(self) -> None:
        """It is closed."""

    def close(self) -> None:
        """It is closed."""

    def take_back(self) -> None:
        """It is closed."""


class NoLogin:
    """See `SessionLogin`: nobody is there."""

    accepted = False
    since: float | None = None

    def connected(self) -> bool:
        """The session is not resumed."""
        return False

    def takes(self, api_key: int, size: int) -> bool:
        """No."""
        return False

    def sasl(self, exchange: Exchange) -> bool:
        """It is answered by nobody."""
        return True

    def begins(self, mechanism: str) -> None:
        """To nobody."""

    def says(self, message: bytes) -> None:
        """To nobody."""

    def answered(self, error_code: int, lifetime_ms: int) -> None:
        """To nobody."""

    def closed(self) -> None:
        """It is."""


NO_CONNECTION: Final = NoConnection()
NO_LOGIN: Final = NoLogin()
