"""One run of the demo of applications: who takes part, how lockgate is asked, what the acts leave for the judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import httpx
from confluent_kafka import KafkaException

from demo.app.cast import cast
from demo.app.settings import LINK, MIGRATION, MOVED_S, SILENT_S, STARTED_S, STOPPED_S, AppSettings
from demo.clusters import new_cluster
from demo.errors import DemoError
from demo.fleet import Client
from demo.history import Side
from demo.readback import LogEnds
from demo.settings import COMMAND_S
from demo.stage import Stage
from demo.view import View
from gateway.devcluster import DevCluster
from tests.support.clients.streams_application import streams_jars

FORCE: Final = "--force"
_EVERY_S: Final = 1.0
_ANSWER_S: Final = 60.0


class AppRun(Stage):
    """Attributes.

    file: the migration file. commands: every `lockgate` command, as it was given.
    rehearsed_stall_ms: the longest that a client waited in a rehearsal; None: nobody did, or none was reached.
    undone: after the undo everything was home, and records flowed there. report_verified: by its signature.
    """

    def __init__(self, settings: AppSettings, view: View) -> None:
        super().__init__(settings.folder, view, keep_data=settings.keep_data)
        self.settings = settings
        source, target = (new_cluster(side, settings.kafka, settings.folder) for side in Side)
        self.jars = sorted(streams_jars().glob("*.jar"))
        parts = cast(settings, self.classes, self.logs / "state", self.jars)
        self.cast(parts, source, target, SILENT_S)
        self.file = self.logs / "migration.yaml"
        self.commands: list[tuple[str, ...]] = []
        self.rehearsed_stall_ms: int | None = None
        self.undone = False
        self.report_verified = False
        self._ends: dict[tuple[Side, str], LogEnds] = {}

    # -- lockgate --------------------------------------------------------------------------------------------------

    def command(self, *arguments: str, timeout_s: float = COMMAND_S * 2) -> str:
        """Run a `lockgate` command while the clients are followed; returns its output."""
        gateway = self.gateway
        assert gateway is not None
        self.commands.append(arguments)
        return self.in_background(
            partial(gateway.run, *arguments, timeout_s=timeout_s), "lockgate " + " ".join(arguments), timeout_s + 5
        )

    def asked(self, method: str, path: str, **what: Any) -> httpx.Response:
        """What the gateway answers, be it a refusal.

        Raises:
            DemoError: nothing.
        """
        assert self.gateway is not None
        url = f"{self.gateway.url}{path}"
        try:
            return httpx.request(method, url, timeout=_ANSWER_S, auth=self.gateway.auth, **what)
        except httpx.HTTPError as error:
            raise DemoError(f"{method} {url}: {error}") from error

    def told(self, path: str) -> Any:
        """What the gateway shows under a path. Raises DemoError for a refusal, too."""
        answer = self.asked("GET", path)
        if not answer.is_success:
            raise DemoError(f"GET {path}: {answer.text[:500]}")
        return answer.json()

    def migration(self) -> Any:
        """As `migration status` shows it."""
        return self.told(f"/v3/migrations/{MIGRATION}")

    def mirrors(self) -> Mapping[str, tuple[str, str]]:
        """Each mirror topic's state and direction."""
        found = self.told(f"/v3/links/{LINK}/mirrors")["data"]
        return {one["mirror_topic_name"]: (one["mirror_status"], one["mirror_direction"]) for one in found}

    def until_done(self) -> None:
        """Wait until nothing of the migration file is left; what it waits for is said where it does not come to it."""
        waits: list[str] = []

        def done() -> bool:
            found = self.migration()
            steps = [(one["name"], step["waits_for"]) for one in found["applications"] for step in one["steps"]]
            waits[:] = [f"{name}: {why}" for name, why in steps if why] + list(found["failures"].values())
            return bool(found["state"] == "DONE")

        if not self.within(self.now_and_then(done), MOVED_S):
            raise DemoError(f"waited {MOVED_S:.0f} s for the migration to be DONE", "\n".join(waits))

    # -- clients ---------------------------------------------------------------------------------------------------

    def bootstrap_of(self, side: Side) -> str:
        """What clients connect to: the source itself, or the gateway."""
        if side is Side.SOURCE:
            return self.source.bootstrap
        assert self.gateway is not None
        return self.gateway.bootstrap

    def restart(self, client: Client, side: Side) -> None:
        """Once, in order."""
        name = client.part.name
        client.ask_to_stop()
        self.until(client.ended, f"{name} to stop", STOPPED_S)
        client.start(self.bootstrap_of(side), side)
        self.until(lambda: client.started, f"{name} to start", STARTED_S)

    def cluster(self, side: Side) -> DevCluster:
        """One of the two."""
        return self.source if side is Side.SOURCE else self.target

    def written(self, side: Side, topic: str) -> int:
        """How far a topic is on a cluster: its log ends, added up."""
        try:
            if (side, topic) not in self._ends:
                self._ends[side, topic] = LogEnds(self.cluster(side).bootstrap, topic, self.settings.partitions)
            return sum(self._ends[side, topic].read().values())
        except KafkaException as error:
            raise DemoError(f"the ends of {topic} on the {side}: {error}") from error

    @staticmethod
    def now_and_then(condition: Callable[[], bool], every_s: float = _EVERY_S) -> Callable[[], bool]:
        """A condition that costs something, looked at no more often than this."""
        due = 0.0

        def looked() -> bool:
            nonlocal due
            if time.monotonic() < due:
                return False
            holds = condition()
            due = time.monotonic() + every_s
            return holds

        return looked

    def look_no_more(self) -> None:
        """Close the connections to both clusters, before these stop: else librdkafka complains of them."""
        for ends in self._ends.values():
            ends.close()
        self._ends.clear()

    def clean_up(self) -> None:
        """Stop whatever still runs, by process id. Never raises."""
        self.look_no_more()
        super().clean_up()
