"""Kafka's own Java clients as actors. Each life is a process with a history file of its own (`Clients.java`)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.devcluster import ensure_jars
from gateway.devcluster.java import java_binary, jvm_options
from tests.chaos.clients.actor import STOP_S, Actor, Positions
from tests.chaos.clients.producers import Keys, key_of
from tests.support.clients.recorder import Recorder

KAFKA: Final = "4.3.1"
_JARS: Final = ("kafka-clients", "slf4j-api", "lz4-java", "snappy-java", "zstd-jni")
_PROGRAM: Final = Path(__file__).with_name("Clients.java")


class JavaActor(Actor):
    """`said`: arguments of the program; those with a dot are properties of the client."""

    def __init__(self, recorder: Recorder, name: str, said: Mapping[str, str]) -> None:
        super().__init__(recorder, name)
        self._said = said
        self._folder = recorder.path.parent
        self.histories: list[Path] = []

    def live(self) -> None:
        history = self._folder / f"{self.process}.jsonl"
        stderr = self._folder / f"{self.process}.err"
        own = {"side": self.side, "process": self.process, "history": str(history)}
        config = {"bootstrap.servers": self.bootstrap, "client.id": self.process, "reconnect.backoff.max.ms": "500"}
        arguments = [f"{name}={value}" for name, value in {**self._said, **own, **config}.items()]
        with stderr.open("wb") as errors:
            process = subprocess.Popen([*_java(), *arguments], stdin=subprocess.PIPE, stderr=errors)
        self.histories.append(history)
        assert process.stdin is not None
        try:
            while not self.stopping.wait(0.1):
                if process.poll() is not None:
                    raise RuntimeError(f"exit code {process.returncode}")
            process.stdin.close()
            process.wait(STOP_S - 10)
        finally:
            process.kill()
            process.wait(10)
            said = stderr.read_text(errors="replace").splitlines()
            self.errors += [f"{self.process}: {line}" for line in said if not line.startswith("SLF4J")]


class JavaProducer(JavaActor):
    """Idempotent, as it is by default."""

    def __init__(self, recorder: Recorder, name: str, keys: Keys, rate: float) -> None:
        said = {
            "do": "produce",
            "keys": ",".join(key_of(*key) for key in keys),
            "rate": str(rate),
            "linger.ms": "2",
            "delivery.timeout.ms": "90000",
            "request.timeout.ms": "10000",
        }
        super().__init__(recorder, name, said)


class JavaMember(JavaActor):
    """Of a group. `protocol`: `classic` or `consumer`, which has the coordinator's time-outs (KIP-848)."""

    def __init__(
        self,
        recorder: Recorder,
        name: str,
        group: str,
        topics: Sequence[str],
        protocol: str = "classic",
        more: Mapping[str, str] | None = None,
    ) -> None:
        said = {
            "do": "consume",
            "topics": ",".join(topics),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": "false",
            "group.protocol": protocol,
            **({"session.timeout.ms": "8000", "heartbeat.interval.ms": "1000"} if protocol == "classic" else {}),
            "fetch.max.wait.ms": "100",
        }
        super().__init__(recorder, name, {**said, **(more or {})})
        self.group, self.topics = group, list(topics)
        self._positions = Positions()
        self._read_to: dict[Path, int] = {}

    @property
    def positions(self) -> Positions:
        """How far the group has come, as its histories tell by now."""
        for history in self.histories:
            if history.exists():
                self._follow(history)
        return self._positions

    def _follow(self, history: Path) -> None:
        with history.open("rb") as lines:
            lines.seek(self._read_to.get(history, 0))
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                self._read_to[history] = self._read_to.get(history, 0) + len(line)
                op = json.loads(line)
                if op["type"] == "ok" and op["f"] in ("poll", "txn"):
                    self._positions.got(op["value"][0][1])  # of a transaction, too, the poll is the first part


class JavaPipeline(JavaMember):
    """Consume-transform-produce: it writes what it reads to another topic, with its offsets in the same transaction.

    Not librdkafka: its `send_offsets_to_transaction` waited for ten minutes for a coordinator that had moved.
    """

    def __init__(
        self, recorder: Recorder, name: str, group: str, topics: Sequence[str], output: str, partitions: int
    ) -> None:
        said = {
            "do": "process",
            "output": output,
            "partitions": str(partitions),
            "transactional.id": name,
            "transaction.timeout.ms": "30000",
            "delivery.timeout.ms": "30000",
            "max.block.ms": "30000",
            "request.timeout.ms": "10000",
            "linger.ms": "0",
            "max.poll.records": "50",
        }
        super().__init__(recorder, name, group, topics, more=said)


def _java() -> list[str]:
    jars = ensure_jars(KAFKA)
    class_path = os.pathsep.join(str(jar) for name in _JARS for jar in sorted(jars.glob(f"{name}-[0-9]*.jar")))
    return [java_binary(), *jvm_options(96), "-cp", class_path, str(_PROGRAM)]
