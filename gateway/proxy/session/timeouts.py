"""Sessions that take too long: looked at every few seconds, so that no byte and no request pays for it.

* idle: no request has begun for a while, and none is unanswered
* a login that does not come to its end
* a request that does not arrive whole, however its bytes trickle; only while the gateway reads its connection
* answers that are not taken
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.proxy.rules.limits import Limits
from gateway.proxy.session.session import Session


class Timeouts:
    """Of the sessions of a gateway. `interval_s`: how often to look."""

    def __init__(self, limits: Limits, idle_s: float) -> None:
        self._limits = limits
        self._idle_s = idle_s
        self.interval_s = max(min(idle_s, limits.login_timeout_s, limits.request_timeout_s) / 10, 0.05)
        self._arriving: dict[Session, tuple[float, float]] = {}  # (which request, first seen at)
        self._muted: dict[Session, float] = {}  # since when its answers are not taken

    def look(self, sessions: Iterable[Session], now: float) -> list[tuple[Session, str]]:
        """Whom to close, and why."""
        arriving, self._arriving = self._arriving, {}
        muted, self._muted = self._muted, {}
        over = []
        for session in sessions:
            reason = self._reason(session, now, arriving, muted)
            if reason:
                over.append((session, reason))
        return over

    def _reason(
        self, session: Session, now: float, arriving: dict[Session, tuple[float, float]], muted: dict[Session, float]
    ) -> str:
        limits = self._limits
        since = session.login.since
        if since is not None and since < now - limits.login_timeout_s:
            return "login took too long"
        if session.idle and session.last_active < now - self._idle_s:
            return "idle"
        if session.is_muted:
            first = self._muted[session] = muted.get(session, now)
            return "answers are not taken" if first < now - self._idle_s else ""
        if session.is_receiving:
            which, first = arriving.get(session, (-1.0, now))
            if which != session.last_active:
                which, first = session.last_active, now
            self._arriving[session] = which, first
            return "request took too long" if first < now - limits.request_timeout_s else ""
        return ""
