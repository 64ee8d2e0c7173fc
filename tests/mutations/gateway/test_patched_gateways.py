"""A small migration under load on real brokers, recorded and checked: with a sound gateway, and with each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from gateway.devcluster import DevCluster
from tests.checker.check import check
from tests.checker.verdict import Verdict
from tests.mutations.edits import History
from tests.mutations.gateway.patches import PATCHES
from tests.mutations.history_faults import FAULTS
from tests.support.brokers.logs import create_topic, log_ends, read_logs
from tests.support.clients.recorder import RecordedMember, RecordedProducer, Recorder
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

SOURCE, TARGET, PARTITIONS = "source", "target", 2
NO_FAULT = "slow source"
BAD_LUCK = "release after the acknowledgement"
FOUND_AS = {
    "drop a batch": "lost-write",
    "append twice": "duplicate",
    "swap two batches": "divergence",
    "ungate early": "gated-read",
    "cutover before lag 0": "lost-write",
    "answer before commit": "lost-write",
    "forget an acknowledgement": "lost-write",
    "rewind a group": "nonmonotonic-poll",
}
_NAMES = {"cutover before lag 0": "cutover before lag zero"}
_SETTINGS = {
    # A lost record would stop an idempotent producer.
    "answer before commit": {"enable.idempotence": False, "max.in.flight": 1},
    NO_FAULT: {"batch.num.messages": 1000, "linger.ms": 5},
    "forget an acknowledgement": {"batch.num.messages": 1000, "linger.ms": 5},
}


class Migration:
    """One topic and one group move, through a gateway that may be patched."""

    def __init__(self, folder: Path, source: DevCluster, target: DevCluster, topic: str, patch: str) -> None:
        self.source, self.target, self.topic, self.patch = source, target, topic, patch
        self.link, self.group = f"link-{topic}", f"group-{topic}"
        self.asked = 0
        self.recorder = Recorder(folder / "history.jsonl")
        self.gateway = GatewayProcess(folder, target.bootstrap)
        if patch:
            name = _NAMES.get(patch, patch)
            self.gateway.program = f"from tests.mutations.gateway.patches import main; main({name!r})"

    def run(self) -> Verdict:
        """The whole migration; what the checker says of it."""
        self.recorder.setup(SOURCE, topics={self.topic: {"preserve": True}})
        create_topic(self.source.bootstrap, self.topic, partitions=PARTITIONS)
        self.gateway.start()
        self.gateway.create_link(self.link, self.source.bootstrap)
        self.gateway.create_mirror(self.link, self.topic)
        wait_until(lambda: self.state() == "ACTIVE", 30, what="ACTIVE")
        config = _SETTINGS.get(self.patch)
        bootstrap = self.gateway.bootstrap
        with RecordedProducer(
            self.recorder, "p", bootstrap, self.topic, side=TARGET, partitions=PARTITIONS, config=config
        ) as producer:
            producer.wait_for(150)
            member = self._move_group(producer)
            self._promote(producer)
        self._finish(member)
        return check(self.recorder.lines())

    def state(self) -> str:
        """State of the mirror topic."""
        return str(self.gateway.mirror(self.link, self.topic)["mirror_status"])

    def _group_state(self) -> str:
        answer = self.gateway.api.get(f"/v3/links/{self.link}/groups/{self.group}")
        return str(answer.json()["state"]) if answer.is_success else ""

    def _move_group(self, producer: RecordedProducer) -> RecordedMember:
        new = RecordedMember(self.recorder, "new", self.gateway.bootstrap, self.topic, self.group, side=TARGET)
        with RecordedMember(self.recorder, "old", self.source.bootstrap, self.topic, self.group, side=SOURCE) as old:
            old.wait_for(100)
            new.start()
            wait_until(lambda: self._group_state() == "ACTIVE" or new.read, 30, what="the group at the gate")
            producer.wait_for(50)
            self.recorder.write("invoke", "control", "move", {"group": self.group, "to": TARGET})
        if self.patch != "ungate early":  # then there is no gate to be promoted
            wait_until(lambda: self._group_state() == "PROMOTED", 60, what="PROMOTED")
        self.recorder.write("ok", "control", "move", {"group": self.group, "to": TARGET})
        new.wait_for(20)
        return new

    def _promote(self, producer: RecordedProducer) -> None:
        value = {"keys": [f"{self.topic}/{p}" for p in range(PARTITIONS)], "to": TARGET}
        self.recorder.write("invoke", "control", "cutover", value)

        def promoted() -> bool:
            """One that was given up is asked for again."""
            shown = self.gateway.mirror(self.link, self.topic)
            if shown["mirror_status"] == "ACTIVE" and not shown["waiting_for"]:
                path = f"/v3/links/{self.link}/mirrors/{self.topic}:promote"
                answer = self.gateway.api.post(path, json={"force": True})
                assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text
                self.asked += 1
            return bool(shown["mirror_status"] == "STOPPED")

        wait_until(promoted, 60, what="STOPPED")
        assert self.asked > (self.patch == BAD_LUCK), "the promote whose partitions were released was given up"
        self.recorder.write("ok", "control", "cutover", value)
        producer.wait_for(100)

    def _finish(self, member: RecordedMember) -> None:
        ends = log_ends(self.target.bootstrap, self.topic, PARTITIONS)
        try:
            wait_until(lambda: member.read >= sum(ends) / 4, 30, what="the group to read on")
        finally:
            member.stop()
        for side, cluster in ((SOURCE, self.source), (TARGET, self.target)):
            self.recorder.final_log(side, self.topic, read_logs(cluster.bootstrap, self.topic, PARTITIONS))

    def close(self) -> None:
        """Take down what is left."""
        try:
            with suppress(httpx.TransportError):  # it ended, which is what the test failed of
                self.gateway.delete_link(self.link)
        finally:
            self.gateway.close()
            self.recorder.close()
        print(self.gateway.log.read_text(errors="replace")[-3000:])  # noqa: T201 - shown when the test failed


Migrate = Callable[[str], Verdict]


@pytest.fixture
def migrate(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Migrate:
    def run(patch: str) -> Verdict:
        migration = Migration(tmp_path, source, target, topic, patch)
        try:
            return migration.run()
        finally:
            migration.close()

    return run


def test_every_patch_is_tried() -> None:
    assert {_NAMES.get(name, name) for name in FOUND_AS} == set(PATCHES) - {NO_FAULT, BAD_LUCK}


@pytest.mark.integration
@pytest.mark.parametrize("patch", ["", NO_FAULT, BAD_LUCK], ids=["as it is", "slow source", "released"])
def test_a_sound_gateway_is_valid(migrate: Migrate, patch: str) -> None:
    verdict = migrate(patch)
    assert not verdict.faults(), verdict.as_text()


@pytest.mark.integration
def test_faults_seeded_into_what_real_clients_recorded_are_found(migrate: Migrate, tmp_path: Path) -> None:
    """Not all can be: these clients use no transactions, and no write fails."""
    assert not migrate("").faults()
    operations = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    seeded = []
    for fault in FAULTS:
        history = History(operations, seed=1)
        try:
            fault.seed(history)
        except (AssertionError, IndexError):
            continue  # the history has nothing of the kind
        verdict = check(history.lines())
        assert verdict.counts[fault.found_as] > 0, f"{fault.name}:\n{verdict.as_text()}"
        seeded.append(fault.name)
    assert len(seeded) >= 15, seeded


@pytest.mark.integration
@pytest.mark.parametrize("patch", FOUND_AS, ids=lambda patch: patch.replace(" ", "-"))
def test_a_seeded_fault_of_the_gateway_is_found(migrate: Migrate, patch: str) -> None:
    verdict = migrate(patch)
    assert verdict.counts[FOUND_AS[patch]] > 0, verdict.as_text()
