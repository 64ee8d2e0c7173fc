"""Says that a job lives, for as long as it does: on a thread of its own, whatever the job is waiting for.

The gateway leaves the job's topics to it for the time of a lease, counted from each word it hears. A job that was not
heard for so long must not append any more: the engine does. So it ends itself before that, by its own clock, and from
when it *sent* what was answered last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from gateway.fleet.rules.leases import CATCH_UP_LEASE_S
from gateway.jobs.errors import JobFailed
from gateway.transport.host import boot_clock

EVERY_S: Final = 2.0
ENDS_IN_S: Final = 5.0
"""So long before the lease is over the job ends: tasks that are cancelled take up to 2 s to die."""


class Heartbeat:
    """Args.

    beat: one word to the gateway; True when it was heard, JobFailed when it does not want the job to go on. It answers
        within some seconds.
    clock: seconds that also count while the machine sleeps: the gateway's lease runs on.
    """

    def __init__(
        self,
        beat: Callable[[], bool],
        *,
        lease_s: float = CATCH_UP_LEASE_S,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self._beat = beat
        self._silent_s = lease_s - ENDS_IN_S
        self._clock = clock
        self._heard_at = clock()
        self._over = threading.Event()
        self._error: JobFailed | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.lost: Callable[[], None] = lambda: None  # called once, when the job must end

    def start(self) -> None:
        """The gateway has just heard of the job."""
        self._heard_at = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """The job ends."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raises JobFailed once the job must not go on."""
        if self._error is not None:
            raise self._error

    def step(self) -> None:
        """One word."""
        sent = self._clock()
        if self._is_silent(sent):  # asleep perhaps: the engine has begun, and an answer now would be to a new lease
            return
        try:
            if self._beat():
                self._heard_at = sent
        except JobFailed as exc:
            self._end(exc)
            return
        self._is_silent(self._clock())

    def _is_silent(self, now: float) -> bool:
        """Ends the job when it was not heard for too long."""
        silent = now - self._heard_at
        if silent > self._silent_s:
            self._end(
                JobFailed(
                    f"the gateway has not answered for {silent:.0f} s, and copies the topics itself by now, or soon: "
                    "run the job again, it goes on where it ended"
                )
            )
        return silent > self._silent_s

    def _end(self, error: JobFailed) -> None:
        if self._error is None:
            self._error = error
            self.lost()

    def _run(self) -> None:
        while not self._over.wait(EVERY_S) and self._error is None:
            self.step()
