"""One run of the demo of topologies: three clusters, each with a gateway before it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import httpx

from demo.checker import TopicLog
from demo.clusters import new_cluster
from demo.errors import DemoError
from demo.fleet import Client
from demo.lockgate import Lockgate
from demo.readback import read_topic
from demo.settings import COMMAND_S, READ_BACK_S
from demo.stage import Stage
from demo.topologies.cast import Writer, cast, name_of
from demo.topologies.settings import CLUSTERS, TopologySettings, Way
from demo.view import View
from gateway.devcluster import DevCluster

Logs = dict[tuple[str, str], TopicLog]
"""By cluster and topic."""


class TopologyRun(Stage):
    """Attributes.

    clusters, gateways: by name; a gateway has the name of the cluster that it stands before.
    refused: what a loop was refused with, by link.
    """

    def __init__(self, settings: TopologySettings, view: View) -> None:
        super().__init__(settings.folder, view, keep_data=settings.keep_data)
        self.settings = settings
        self.clusters = {name: new_cluster(name, settings.kafka(name), settings.folder) for name in CLUSTERS}
        self.gateways: dict[str, Lockgate] = {}
        self.refused: dict[str, str] = {}
        self.cast(cast(settings), self.clusters["a"], self.clusters["c"])

    def start_gateways(self) -> None:
        """One before each cluster."""
        for name, cluster in self.clusters.items():
            folder = self.logs / f"before-{name}"
            folder.mkdir()
            self.gateways[name] = Lockgate(cluster.bootstrap, folder)
            self.gateways[name].start()

    def client(self, writer: Writer, *, moved: bool) -> Client:
        """A producer's process."""
        name = name_of(writer, moved=moved)
        return next(client for client in self.fleet.clients if client.part.name == name)

    def command(self, at: str, *arguments: str, timeout_s: float = COMMAND_S) -> str:
        """Run a `lockgate` command against the gateway before a cluster, while the clients are followed."""
        gateway = self.gateways[at]
        return self.in_background(
            lambda: gateway.run(*arguments, timeout_s=timeout_s), "lockgate " + " ".join(arguments), timeout_s + 5
        )

    def status(self, way: Way) -> tuple[str, int | None]:
        """The state of a mirror, and its largest lag; None while one is not known."""
        gateway = self.gateways[way.target]
        try:
            url = f"{gateway.url}/v3/links/{way.link}/mirrors/{way.mirror}"
            found = httpx.get(url, timeout=10.0, auth=gateway.auth).raise_for_status().json()
        except httpx.HTTPError as error:
            raise DemoError(f"describe {way.mirror}: {error}") from error
        lags = [partition["lag"] for partition in found["mirror_lags"]]
        return found["mirror_status"], None if None in lags else max(lags, default=0)

    def refusal(self, at: str, *arguments: str) -> str:
        """What a command is refused with.

        Raises:
            DemoError: it was not refused.
        """
        try:
            self.command(at, *arguments)
        except DemoError as error:
            return error.log_tail or str(error)
        raise DemoError(f"`lockgate {' '.join(arguments)}` before {at} was not refused")

    def read(self, *topics: tuple[str, str]) -> Logs:
        """These topics, by cluster and name, as they are now."""
        works = [
            partial(read_topic, self.clusters[at].bootstrap, topic, self.settings.partitions, READ_BACK_S)
            for at, topic in topics
        ]
        return dict(zip(topics, self.at_once(works, "the logs", READ_BACK_S + 5), strict=True))

    def stop_gateways(self) -> None:
        """In order. Raises DemoError when one had to be killed."""
        for name in tuple(self.gateways):
            self.gateways.pop(name).stop()

    def clean_up(self) -> None:
        """Stop whatever still runs, by process id. Never raises."""
        for gateway in self.gateways.values():
            with suppress(DemoError):
                gateway.stop(5.0)
        super().clean_up()

    def _clusters(self) -> list[DevCluster]:
        return list(self.clusters.values())

    def _turn(self) -> None:
        for gateway in self.gateways.values():
            gateway.check()
        super()._turn()
