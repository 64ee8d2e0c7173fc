"""Looks at the target's logs while Spark copies: on a thread, because Spark's calls want the main one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from gateway.jobs.catch_up_ends import read_target_ends
from gateway.jobs.kafka import Loop
from gateway.jobs.link_map import open_maps
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from protocol.errors import ProtocolError

_LOOK_S: Final = 1.0
_PASSING: Final = (NetError, ProtocolError, OSError, TimeoutError, ValueError)
"""A look is for people; what goes wrong with it is no reason to end a copy. ValueError: a map that was just written."""


class Watch:
    """One round's watch.

    Args:
        seen: called about every second with the target's log ends, by source topic and partition. What it raises ends
            the round, and is raised there.
    """

    def __init__(
        self, plan: LinkPlan, mirrors: Sequence[MirrorSpec], seen: Callable[[Mapping[TopicPartition, int]], None]
    ) -> None:
        self._plan = plan
        self._mirrors = mirrors
        self._seen = seen
        self._over = threading.Event()
        self._error: Exception | None = None

    @contextmanager
    def over(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Watch during the block. `cancel` makes what the block waits for end with an error."""
        thread = threading.Thread(target=self._run, args=(cancel,), name="catch-up watch", daemon=True)
        thread.start()
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise
        finally:
            self._over.set()
            thread.join()

    def _run(self, cancel: Callable[[], None]) -> None:
        try:
            while not self._over.is_set():
                with suppress(*_PASSING):  # the tasks have more patience than a look at the logs needs
                    self._look()
                self._over.wait(_LOOK_S)
        except Exception as exc:  # noqa: BLE001 - raised where the round is waited for
            self._error = exc
            cancel()

    def _look(self) -> None:
        """Again and again, as long as both clusters answer."""
        with Loop() as loop:
            target = loop.connect(self._plan.target)
            maps = loop.run(open_maps(target, self._plan))
            loop.on_close(maps.close)
            while not self._over.wait(_LOOK_S):
                self._seen(loop.run(read_target_ends(target, self._mirrors, maps)))
