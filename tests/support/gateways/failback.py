"""Topics on their way to the target and back on the source, between two real clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, log_ends, read_logs
from tests.support.clients.writer import Writer
from tests.support.gateways.asking import answered
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

PARTITIONS = 3


@dataclass
class RoundTrip:
    """Some mirrored topics of one gateway."""

    gateway: GatewayProcess
    link: str
    topics: tuple[str, ...]
    source: DevCluster
    target: DevCluster

    def writer(self, topic: str = "", bootstrap: str = "", rate: int = 300) -> Writer:
        """An idempotent librdkafka producer, on the gateway unless `bootstrap` says otherwise."""
        return Writer(bootstrap or self.gateway.bootstrap, topic or self.topics[0], partitions=PARTITIONS, rate=rate)

    def mirror(self, topic: str = "") -> dict[str, Any]:
        """What `mirror describe` shows."""
        return self.gateway.mirror(self.link, topic or self.topics[0])

    def post(self, verb: str, *topics: str, code: int = 0, direction: str = "", **params: str) -> Any:
        """One operation over topics, all by default; `code`: the HTTP status that is expected, 0 for any success.

        `direction`: REVERSE is a promote that goes home.
        """
        path = f"/v3/links/{self.link}/mirrors:{verb}"
        body: dict[str, Any] = {"mirror_topic_names": list(topics or self.topics)}
        body |= {"mirror_direction": direction} if direction else {}
        answer, _ = answered(lambda: self.gateway.api.post(path, json=body, params=params))
        assert answer.status_code == code if code else answer.is_success, answer.text
        return answer.json()

    def wait_for(self, state: str, direction: str = "FORWARD", deadline: float = 60.0) -> None:
        """Wait until every topic is in this state, mirrored this way."""
        shown: list[Any] = []

        def reached() -> bool:
            shown[:] = [self.mirror(topic) for topic in self.topics]
            return all((m["mirror_status"], m["mirror_direction"]) == (state, direction) for m in shown)

        try:
            wait_until(reached, deadline, what=f"{state} {direction}")
        except AssertionError as exc:
            names = ("mirror_status", "mirror_direction", "waiting_for", "promote_error", "error_message")
            raise AssertionError(f"{exc}: {[[m[name] for name in names] for m in shown]}") from None

    def promote(self) -> None:
        """To the target."""
        self.post("promote")
        self.wait_for("STOPPED")

    def reverse(self) -> None:
        """Mirror back."""
        self.post("reverse-and-start-mirror")
        self.wait_for("ACTIVE", "REVERSE")

    def home(self) -> None:
        """Promote what is mirrored back."""
        self.post("promote", direction="REVERSE")
        self.wait_for("ACTIVE", "FORWARD")

    def wait_until_mirrored(self, deadline: float = 30.0) -> None:
        """Until the mirror of the first topic has come to the ends of its origin, as the origin's brokers tell them.

        A lag of 0 may be of before the last write.
        """

        def mirrored() -> bool:
            shown = self.mirror()
            origin = self.target if shown["mirror_direction"] == "REVERSE" else self.source
            ends = log_ends(origin.bootstrap, self.topics[0], shown["num_partitions"])
            return [one["mirrored_to"] for one in shown["mirror_lags"]] == ends

        wait_until(mirrored, deadline, what=f"the mirror of {self.topics[0]} to come to the ends of its origin")

    def level(self, topic: str = "", deadline: float = 60.0) -> list[Any]:
        """Wait until both logs end alike, hold them against each other record by record, and return them."""
        topic = topic or self.topics[0]

        def ends(cluster: DevCluster) -> list[int]:
            return log_ends(cluster.bootstrap, topic, PARTITIONS)

        wait_until(lambda: ends(self.source) == ends(self.target), deadline, what=f"equal ends of {topic}")
        source, target = (read_logs(c.bootstrap, topic, PARTITIONS) for c in (self.source, self.target))
        assert_equal(source, target)
        return source
