"""Several real gateways before one target: the same ports at 127.0.0.1, 127.0.0.2, …"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, log_ends, read_logs
from tests.support.clients.writer import Writer
from tests.support.gateways.asking import carried_out
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

PARTITIONS = 6


class GatewayFleet:
    """Gateways, and one mirrored topic. `lease_s` as in the settings."""

    def __init__(self, folder: Path, source: DevCluster, target: DevCluster, topic: str, **sections: Any) -> None:
        self._folder = folder
        self._sections = sections
        self.source = source
        self.target = target
        self.topic = topic
        self.link = f"link-{topic}"
        self.gateways: list[GatewayProcess] = []

    def add(self, role: str = "node", *, start: bool = True) -> GatewayProcess:
        """One more gateway."""
        beside = self.gateways[0] if self.gateways else None
        host = f"127.0.0.{len(self.gateways) + 1}"
        made = GatewayProcess(
            self._folder, self.target.bootstrap, host=host, beside=beside, role=role, **self._sections
        )
        self.gateways.append(made)
        if start:
            made.start()
        return made

    @property
    def bootstrap(self) -> str:
        """Of all gateways."""
        return ",".join(gateway.bootstrap for gateway in self.gateways)

    def mirror_topic(self) -> None:
        """Create the link and the mirror."""
        self.gateways[0].create_link(self.link, self.source.bootstrap)
        self.gateways[0].create_mirror(self.link, self.topic)

    def writer(self, *gateways: GatewayProcess, rate: int = 300) -> Writer:
        """A producer that knows these gateways, all by default."""
        bootstrap = ",".join(one.bootstrap for one in gateways) or self.bootstrap
        return Writer(bootstrap, self.topic, partitions=PARTITIONS, rate=rate)

    # -- who leads -----------------------------------------------------------------------------------------------

    def known(self, by: GatewayProcess) -> dict[str, dict[str, Any]]:
        """The fleet as a gateway shows it, by name; empty while it cannot."""
        try:
            answer = by.api.get("/v3/gateways")
        except httpx.TransportError:
            return {}
        return {one["name"]: one for one in answer.json()["data"]} if answer.is_success else {}

    def is_lease_over(self, by: GatewayProcess, name: str) -> bool:
        """Whether a lost gateway may write no more; soon after that it is not shown any longer."""
        known = self.known(by)
        return bool(known) and (name not in known or known[name]["lease_left_s"] == 0)

    def name_of(self, gateway: GatewayProcess) -> str:
        """Its name in the fleet."""
        name: str = gateway.api.get("/v3/status").json()["gateway"]
        return name

    def leader_for(self, gateway: GatewayProcess) -> str:
        """Who leads, as this gateway knows."""
        try:
            leader: str = gateway.api.get("/v3/status").json()["leader"]
        except httpx.TransportError:
            return ""
        return leader

    def leader(self) -> GatewayProcess:
        """The gateway that leads, once one does."""
        found = wait_until(self._leader, 60.0, what="a leader")
        assert found is not None
        return found

    def _leader(self) -> GatewayProcess | None:
        running = [gateway for gateway in self.gateways if gateway.pid is not None]
        return next((one for one in running if self.leader_for(one) == self.name_of(one)), None)

    def others(self, gateway: GatewayProcess) -> list[GatewayProcess]:
        """All but one."""
        return [one for one in self.gateways if one is not gateway]

    def wait_together(self, by: GatewayProcess | None = None) -> None:
        """Until all running gateways are up in the fleet, and nobody else is in it."""
        asked = by or self.leader()
        running = [gateway for gateway in self.gateways if gateway.pid is not None]
        names = {self.name_of(gateway) for gateway in running}

        def together() -> bool:
            found = self.known(asked)
            return set(found) == names and all(one["state"] == "up" for one in found.values())

        wait_until(together, 60.0, what=f"a fleet of {sorted(names)}")

    # -- the mirror ----------------------------------------------------------------------------------------------

    def mirror(self, by: GatewayProcess) -> dict[str, Any]:
        """What `mirror describe` shows through a gateway."""
        return by.mirror(self.link, self.topic)

    def wait_for(self, state: str, by: GatewayProcess, deadline: float = 60.0) -> None:
        """Until the mirror topic is in this state."""

        def reached() -> bool:
            answer = by.api.get(f"/v3/links/{self.link}/mirrors/{self.topic}")
            return answer.is_success and answer.json()["mirror_status"] == state

        wait_until(reached, deadline, what=f"state {state}")

    def wait_promoted(self, by: GatewayProcess, deadline: float) -> None:
        """Until the topic is written on the target. A promote that is given up, since a busy machine did not answer
        within its write pause, is begun again, as an operator would."""

        def is_promoted() -> bool:
            status = self.mirror(by)["mirror_status"]
            if status == "ACTIVE":
                by.promote(self.link, self.topic)
            return bool(status == "STOPPED")

        wait_until(is_promoted, deadline, what="the promote")

    def operate(self, by: GatewayProcess, verb: str, **more: str) -> None:
        """One operation on the mirror topic."""
        path = f"/v3/links/{self.link}/mirrors:{verb}"
        carried_out(lambda: by.api.post(path, json={"mirror_topic_names": [self.topic], **more}))

    def wait_level(self, deadline: float = 60.0) -> None:
        """Until the topic ends alike on both clusters."""

        def ends(cluster: DevCluster) -> list[int]:
            return log_ends(cluster.bootstrap, self.topic, PARTITIONS)

        wait_until(lambda: ends(self.source) == ends(self.target), deadline, what="equal ends on both clusters")

    def wait_waiting(self, by: GatewayProcess, naming: str) -> None:
        """Wait until a promote of the topic waits for `naming`: before that it may wait for a mirror that moves.

        Raises:
            AssertionError: not within 20 s.
        """
        wait_until(
            lambda: naming in str(self.mirror(by).get("waiting_for")), 20.0, what=f"that the promote waits for {naming}"
        )

    def source_ends(self) -> list[int]:
        """Where the topic ends on the source now."""
        return log_ends(self.source.bootstrap, self.topic, PARTITIONS)

    def assert_promoted(self, *writers: Writer, cutover: Sequence[int] | None = None) -> None:
        """Everything acknowledged is on the target once, in order, and the source has its beginning.

        `cutover`: where the source ended at the cutover, when a gateway may have been stopped between its look at the
        lease and the write: what that one left on the source is reported, all of it, and was not acknowledged there.
        """
        source = read_logs(self.source.bootstrap, self.topic, PARTITIONS)
        target = read_logs(self.target.bootstrap, self.topic, PARTITIONS)
        if cutover is not None:
            self._wait_reported({p: len(log) - cutover[p] for p, log in enumerate(source) if len(log) > cutover[p]})
            source = [log[:end] for log, end in zip(source, cutover, strict=True)]
        for writer in writers:
            assert not writer.failed, f"{len(writer.failed)} writes failed: {next(iter(writer.failed.values()))}"
            for number, (partition, offset) in writer.acknowledged.items():
                where, log = f"{partition}-{offset}", target[partition]
                assert offset < len(log), f"record {number}, acknowledged at {where}, is not on the target"
                assert log[offset].key == b"%d" % number, f"{log[offset].key!r} is at {where}, not {number}"
            told = sorted(writer.acknowledged.items())
            for partition in range(PARTITIONS):
                offsets = [place.offset for _, place in told if place.partition == partition]
                assert offsets == sorted(offsets), f"records of one producer changed their order in {partition}"
        written = sum(writer.acks for writer in writers)
        assert sum(map(len, target)) == written, f"{sum(map(len, target))} records of {written} written"
        assert_equal(source, [log[: len(source[partition])] for partition, log in enumerate(target)])

    def _wait_reported(self, left: dict[int, int]) -> None:
        """Until the records after the cutover are these: partition -> how many."""

        def reported() -> bool:
            shown = self.mirror(self.leader())["records_after_cutover"] or {}  # null: not measured yet
            return {int(partition): count for partition, count in shown.items()} == left

        wait_until(reported, 30.0, what=f"a report of the records after the cutover, {left}")

    def close(self) -> None:
        """Forget the link, and take everything down."""
        for gateway in self.gateways:
            if gateway.pid is not None:
                os.kill(gateway.pid, signal.SIGCONT)
        running = next((gateway for gateway in self.gateways if gateway.pid is not None), None)
        if running is not None:
            for name in [name for name, one in self.known(running).items() if one["state"] == "lost"]:
                running.api.delete(f"/v3/gateways/{name}")  # no later test is to wait for its lease
            running.delete_link(self.link)
        for gateway in reversed(self.gateways):
            gateway.close()

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"== {one.log}\n{one.log.read_text(errors='replace')[-6000:]}" for one in self.gateways)


def pause(gateway: GatewayProcess) -> None:
    """SIGSTOP."""
    assert gateway.pid is not None
    os.kill(gateway.pid, signal.SIGSTOP)


def go_on(gateway: GatewayProcess) -> None:
    """SIGCONT."""
    assert gateway.pid is not None
    os.kill(gateway.pid, signal.SIGCONT)
