"""The migration, step by step: what happens, the command for it, and what it says."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.quickstart.judge import Count
from gateway.quickstart.lab import GROUP, LOCKGATE, SOURCE, TARGET, TOPIC, Lab, QuickstartError

_COMMAND_S: Final = 180.0
_PROMOTED_S: Final = 90.0
_READ_S: Final = 60.0
_POLL_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where the tour is shown.

    say: a line of it. title: the title of a step. shown: a command, before it is run. ask: waits until its reader
    wants to go on.
    """

    say: Callable[[str], None]
    title: Callable[[str], None]
    shown: Callable[[str], None]
    ask: Callable[[], None]


class Tour:
    """Args: what was started, and where it is shown."""

    def __init__(self, lab: Lab, terminal: Terminal) -> None:
        self._lab = lab
        self._terminal = terminal
        self._step = 0

    def walk(self) -> Count:
        """The whole migration, from the clients on the source to the topic on the target.

        Raises:
            QuickstartError: a step does not come to its end.
        """
        lab = self._lab
        self._explain(
            "A producer writes to the source, and two consumers of one group read there",
            f"The source is cluster {SOURCE} at {lab.bootstrap(SOURCE)}, the target cluster {TARGET} at "
            f"{lab.bootstrap(TARGET)}. The clients know nothing of a migration yet.",
        )
        lab.start_producer(lab.bootstrap(SOURCE))
        lab.wait_count(lambda count: count.written > 0, _READ_S)
        for _ in range(2):
            lab.start_consumer(lab.bootstrap(SOURCE))
        for consumer in lab.consumers:
            lab.wait_read(consumer)
        self._told()
        self._link_and_mirror()
        self._roll_producer()
        self._roll_consumers()
        self._promote()
        return self._end()

    def _link_and_mirror(self) -> None:
        lab = self._lab
        settings = lab.configure_gateway()
        self._explain(
            "Start a gateway before the target, and name the source",
            f"The gateway serves clients at {lab.gateway_bootstrap}. A link tells it where the source is.",
        )
        self._terminal.shown(f"lockgate serve --config {settings} &")
        lab.start_gateway()
        self._run("link", "create", SOURCE, "--bootstrap", lab.bootstrap(SOURCE))
        self._explain(
            "Mirror the topic",
            "It appears on the target with the same partitions and configs, and fills. Nobody's clients notice.",
        )
        self._run("mirror", "create", TOPIC, "--wait")
        self._run("mirror", "list")

    def _roll_producer(self) -> None:
        lab = self._lab
        self._explain(
            "Restart the producer onto the gateway",
            "Only bootstrap.servers changes. Its writes still go to the source, and come out on both clusters.",
        )
        self._terminal.shown(f"bootstrap.servers={lab.gateway_bootstrap}   # the producer, restarted")
        lab.stop_client(lab.producers[-1])
        before = lab.count().written
        lab.start_producer(lab.gateway_bootstrap)
        lab.wait_count(lambda count: count.written > before, _READ_S)
        self._told()

    def _roll_consumers(self) -> None:
        lab = self._lab
        self._explain(
            "Restart the consumers onto the gateway, one by one",
            "The first one waits at the gateway while the group has a member on the source: nothing is read twice. "
            "When the last one has left, the group's offsets are carried over, and it reads on at the target.",
        )
        first, second = lab.consumers
        self._terminal.shown(f"bootstrap.servers={lab.gateway_bootstrap}   # the first consumer, restarted")
        lab.stop_client(first)
        moved = [lab.start_consumer(lab.gateway_bootstrap)]
        self._until(lambda: bool(self._group().get("waiting")), f"group {GROUP} does not wait at the gateway")
        self._run("group", "list")
        self._terminal.shown(f"bootstrap.servers={lab.gateway_bootstrap}   # the second consumer, restarted")
        lab.stop_client(second)
        moved.append(lab.start_consumer(lab.gateway_bootstrap))
        for consumer in moved:
            lab.wait_read(consumer)
        self._run("group", "list")
        self._told()

    def _promote(self) -> None:
        self._explain(
            "Promote the topic",
            "Writes pause for some tens of milliseconds, the mirror drains, and the target takes over. The producer is "
            "not restarted: it sees one slow request.",
        )
        self._run("mirror", "promote", TOPIC, "--dry-run")
        before = self._lab.count().written
        self._run("mirror", "promote", TOPIC, "--yes")
        self._lab.wait_count(lambda count: count.written > before + 1, _READ_S)
        self._run("mirror", "describe", TOPIC)

    def _end(self) -> Count:
        """The producer is stopped, and the consumers read what is left; then there is no excuse."""
        lab = self._lab
        lab.stop_client(lab.producers[-1])
        found = lab.wait_count(lambda count: not count.lost, _READ_S)
        self._terminal.say(
            f"{found.written} records were written, {found.lost} of them were never read, {found.duplicated} were read "
            f"twice, {found.errors} sends failed: counted from what the clients logged."
        )
        return found

    # -- pieces --------------------------------------------------------------------------------------------------

    def _explain(self, title: str, text: str) -> None:
        self._step += 1
        self._terminal.title(f"{self._step}. {title}")
        self._terminal.say(text)
        self._terminal.ask()

    def _told(self) -> None:
        found = self._lab.count()
        self._terminal.say(f"   {found.written} records written, {found.duplicated} read twice, {found.errors} errors")

    def _run(self, *words: str) -> None:
        self._terminal.shown(shlex.join(["lockgate", *words]))
        done = self._lockgate(*words)
        for line in done.stdout.splitlines():
            self._terminal.say(f"   {line}".rstrip())
        if done.returncode:
            raise QuickstartError(f"lockgate {shlex.join(words)}: {done.stderr.strip() or done.returncode}")

    def _lockgate(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self._lab.environment}
        return subprocess.run(
            [*LOCKGATE, *words],
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_COMMAND_S,
            check=False,
        )

    def _group(self) -> dict[str, Any]:
        done = self._lockgate("group", "describe", GROUP, "-o", "json")
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    def _until(self, done: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _PROMOTED_S
        while not done():
            if time.monotonic() >= deadline:
                raise QuickstartError(f"{otherwise} after {_PROMOTED_S:g} s: see {self._lab.folder / 'logs'}")
            time.sleep(_POLL_S)


def tell_environment(lab: Lab) -> Sequence[str]:
    """The lines for another shell, in which its reader may ask the same gateway."""
    return [f"export {name}={shlex.quote(value)}" for name, value in lab.environment.items()]
