"""One run of the exact demo: who takes part, what the acts leave for the judge."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import httpx

from demo.checker import TopicLog
from demo.clusters import new_cluster
from demo.errors import DemoError
from demo.exact.cast import cast
from demo.exact.settings import BROKER_PROPERTIES, TOPICS, ExactSettings
from demo.readback import read_topic
from demo.settings import COMMAND_S, READ_BACK_S
from demo.stage import Stage
from demo.view import View

Logs = dict[str, TopicLog]
"""What each topic held."""


class Mirror(NamedTuple):
    """A mirror topic as `mirror describe` shows it.

    `lag` is its largest of any partition, in records; None while one is not known.
    """

    state: str
    direction: str
    lag: int | None


class ExactRun(Stage):
    """A migration of three topics there and back.

    Attributes:
        copied: the target's logs just before the promote, with what aborted transactions wrote, if they wrote there.
        served: how many records each producer had acknowledged at the end of each act.
    """

    def __init__(self, settings: ExactSettings, view: View) -> None:
        super().__init__(settings.folder, view, keep_data=settings.keep_data)
        self.settings = settings
        clusters = (("source", settings.source_kafka), ("target", settings.target_kafka))
        source, target = (new_cluster(n, k, settings.folder, BROKER_PROPERTIES) for n, k in clusters)
        self.cast(cast(settings, self.classes), source, target)
        self.copied: Logs = {}
        self.served: dict[str, dict[str, int]] = {}

    def command(self, *arguments: str, timeout_s: float = COMMAND_S) -> str:
        """Run a `lockgate` command while the clients are followed; returns its output."""
        gateway = self.gateway
        assert gateway is not None
        return self.in_background(
            lambda: gateway.run(*arguments, timeout_s=timeout_s), "lockgate " + " ".join(arguments), timeout_s + 5
        )

    def mirror(self, topic: str) -> Mirror:
        """What the gateway says of a mirror topic now."""
        assert self.gateway is not None
        try:
            url = f"{self.gateway.url}/v3/links/{self.settings.link}/mirrors/{topic}"
            answer = httpx.get(url, timeout=10.0, auth=self.gateway.auth)
            found = answer.raise_for_status().json()
        except httpx.HTTPError as error:
            raise DemoError(f"describe {topic}: {error}") from error
        lags = [partition["lag"] for partition in found["mirror_lags"]]
        lag = None if None in lags else max(lags, default=0)
        return Mirror(found["mirror_status"], found["mirror_direction"], lag)

    def read(self, bootstrap: str, *, aborted: bool = False) -> Logs:
        """The three topics as they are now."""
        partitions = self.settings.partitions
        logs = self.at_once(
            [partial(read_topic, bootstrap, t, partitions, READ_BACK_S, aborted=aborted) for t in TOPICS],
            "the logs",
            READ_BACK_S + 5,
        )
        return dict(zip(TOPICS, logs, strict=True))

    def note_served(self, act: str) -> None:
        """Remember how far each producer is."""
        self.served[act] = {client.part.name: client.acknowledged for client in self.fleet.producers}
