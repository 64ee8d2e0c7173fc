"""Two gateways, the second with a fault that lets it write to the source behind a write pause: the checker must find
it."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.checker.check import check
from tests.checker.verdict import Verdict
from tests.mutations.gateway.patches import FLEET_PATCHES
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.clients.recorder import RecordedProducer, Recorder
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

SOURCE, TARGET, PARTITIONS = "source", "target", 2
LEASE_S = 5.0
FOUND_AS = {"forget a write pause of the fleet": "lost-write", "overlook the lease": "lost-write"}
PAUSED = "overlook the lease"
TRIES = 3
"""What a gateway that was stopped does first when it goes on may be to hear of the cutover: then nothing is lost."""
_BATCHED = {"batch.num.messages": 1000, "linger.ms": 5}


class FleetMigration:
    """One topic; its producer is a client of the second gateway. `paused`: that one is stopped during the promote."""

    def __init__(
        self, folder: Path, source: DevCluster, target: DevCluster, topic: str, patch: str, *, paused: bool
    ) -> None:
        self.source, self.target, self.topic, self.paused = source, target, topic, paused
        self.link = f"link-{topic}"
        self.recorder = Recorder(folder / "history.jsonl")
        fleet = {"lease_s": LEASE_S}
        self.leader = GatewayProcess(folder, target.bootstrap, fleet=fleet)
        self.other = GatewayProcess(
            folder, target.bootstrap, host="127.0.0.2", beside=self.leader, role="sidecar", fleet=fleet
        )
        if patch:
            self.other.program = f"from tests.mutations.gateway.patches import main; main({patch!r})"

    def run(self) -> Verdict:
        """The migration; what the checker says of it."""
        self.recorder.setup(SOURCE, topics={self.topic: {"preserve": True}})
        create_topic(self.source.bootstrap, self.topic, partitions=PARTITIONS)
        self.leader.start()
        self.leader.create_link(self.link, self.source.bootstrap)
        self.leader.create_mirror(self.link, self.topic)
        wait_until(lambda: self._state() == "ACTIVE", 30, what="ACTIVE")
        self.other.start()
        with RecordedProducer(
            self.recorder,
            "p",
            self.other.bootstrap,
            self.topic,
            side=TARGET,
            partitions=PARTITIONS,
            config={} if self.paused else _BATCHED,
        ) as producer:
            producer.wait_for(150)
            if self.paused:
                self._signal(signal.SIGSTOP)
            self._promote()
            if self.paused:
                self._signal(signal.SIGCONT)
            producer.wait_for(200)
        for side, cluster in ((SOURCE, self.source), (TARGET, self.target)):
            self.recorder.final_log(side, self.topic, read_logs(cluster.bootstrap, self.topic, PARTITIONS))
        return check(self.recorder.lines())

    def _state(self) -> str:
        return str(self.leader.mirror(self.link, self.topic)["mirror_status"])

    def _signal(self, number: signal.Signals) -> None:
        assert self.other.pid is not None
        os.kill(self.other.pid, number)

    def _promote(self) -> None:
        value = {"keys": [f"{self.topic}/{p}" for p in range(PARTITIONS)], "to": TARGET}
        self.recorder.write("invoke", "control", "cutover", value)

        def promoted() -> bool:
            """A promote that loses a gateway under its write pause is given up, and waits for the lease the next
            time."""
            shown = self.leader.mirror(self.link, self.topic)
            if shown["mirror_status"] == "ACTIVE" and not shown["waiting_for"]:
                self.leader.promote(self.link, self.topic)
            return bool(shown["mirror_status"] == "STOPPED")

        try:
            wait_until(promoted, 90, what="STOPPED")
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {self.leader.mirror(self.link, self.topic)}") from None
        self.recorder.write("ok", "control", "cutover", value)

    def close(self) -> None:
        """Take down what is left."""
        try:
            self.leader.delete_link(self.link)
        finally:
            self.other.close()
            self.leader.close()
            self.recorder.close()
        for gateway in (self.leader, self.other):
            print(gateway.log.read_text(errors="replace")[-3000:])  # noqa: T201 - shown when the test failed


Migrate = Callable[[str, bool], Verdict]


@pytest.fixture
def migrate(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Migrate:
    runs = itertools.count()

    def run(patch: str, paused: bool) -> Verdict:
        folder = tmp_path / str(number := next(runs))
        folder.mkdir()
        migration = FleetMigration(folder, source, target, f"{topic}-{number}", patch, paused=paused)
        try:
            return migration.run()
        finally:
            migration.close()

    return run


def test_every_patch_of_a_fleet_is_tried() -> None:
    assert FOUND_AS.keys() == FLEET_PATCHES.keys()


@pytest.mark.integration
@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_a_sound_fleet_is_valid(migrate: Migrate, paused: bool) -> None:
    verdict = migrate("", paused)
    assert not verdict.faults(), verdict.as_text()


@pytest.mark.integration
@pytest.mark.parametrize("patch", FOUND_AS, ids=lambda patch: patch.replace(" ", "-"))
def test_a_seeded_fault_of_a_fleet_is_found(migrate: Migrate, patch: str) -> None:
    verdict = migrate(patch, patch == PAUSED)
    for _ in range(TRIES - 1 if patch == PAUSED else 0):
        if verdict.counts[FOUND_AS[patch]]:
            break
        verdict = migrate(patch, True)
    assert verdict.counts[FOUND_AS[patch]] > 0, verdict.as_text()
