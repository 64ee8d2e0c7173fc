"""Kafka's own idempotent Java producer (VerifiableProducer) as a writer that runs until it is stopped."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any, Self

from gateway.devcluster.java import java_command
from tests.support.brokers.logs import Log
from tests.support.clients.writer import Acknowledged
from tests.support.waiting import wait_until

_CLASS = "org.apache.kafka.tools.VerifiableProducer"


class JavaWriter:
    """Writes the values "0", "1", "2", … at a steady rate; partitions are the client's choice.

    `errors`: what the producer reported as failed.
    """

    def __init__(self, bootstrap: str, topic: str, folder: Path, *, kafka: str = "4.3.1", rate: int = 200) -> None:
        config = folder / f"{topic}.producer"
        config.write_text("enable.idempotence=true\nretries=2147483647\nlinger.ms=2\ndelivery.timeout.ms=90000\n")
        arguments = ("--topic", topic, "--throughput", str(rate), "--acks", "-1", "--command-config", str(config))
        self._command = java_command(kafka, _CLASS, "--bootstrap-server", bootstrap, *arguments)
        self._log = folder / f"{topic}.java.log"
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name="java writer", daemon=True)
        self.acknowledged: dict[int, Acknowledged] = {}
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Write no more, and wait until each record is acknowledged or failed."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.wait(100)
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    @property
    def acks(self) -> int:
        """How many records were acknowledged so far."""
        return len(self.acknowledged)

    def wait_for_acks(self, more: int, deadline: float = 60.0) -> None:
        """Wait until `more` records are acknowledged than were when this was called."""
        wanted = self.acks + more
        wait_until(
            lambda: self.acks >= wanted or self.errors, deadline, what=f"{wanted} acknowledgements of {self._log.name}"
        )
        self.assert_no_error()

    def assert_no_error(self) -> None:
        """The producer saw none, neither as a failed record nor in its log as something that broke its sequence."""
        assert not self.errors, self.errors[:3]
        log = self._log.read_text(errors="replace")
        assert "OutOfOrderSequence" not in log, log[-3000:]

    def assert_nothing_lost(self, logs: list[Log]) -> None:
        """Every record acknowledged is in the logs: once, in order, at the offset that the producer was told."""
        self.assert_no_error()
        found: dict[int, Acknowledged] = {}
        for partition, log in enumerate(logs):
            written = [int(record.value or b"-1") for record in log]
            assert written == sorted(set(written)), f"partition {partition} is out of order or has duplicates"
            found.update({int(r.value or b"-1"): Acknowledged(partition, r.offset) for r in log})
        assert found == self.acknowledged

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["name"] == "producer_send_success":
                self.acknowledged[int(event["value"])] = Acknowledged(event["partition"], event["offset"])
            elif event["name"] == "producer_send_error":
                self.errors.append(line)
