"""MirrorMaker 2 from the brokers' own jars, in its dedicated mode (`connect-mirror-maker.sh` runs the same class).

Everything but the copying of records is switched off: heartbeats, checkpoints of groups, the sync of configs, ACLs and
offsets.
The JVM has the options of Kafka's own start script (G1, both compilers), not the short-lived ones of the other tools.
Between the runs that count it is stopped with SIGSTOP: it keeps its connections and its compiled code and takes no CPU
from the others. Its worker's session is long enough for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.process import Server
from gateway.devcluster import class_path, ensure_jars
from gateway.devcluster.java import java_binary, long_lived_jvm_options
from gateway.devcluster.properties import log_options, write_log_config

KAFKA: Final = "4.3.1"

_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
_HEAP_MB: Final = 1024
_OFF: Final = (
    "emit.heartbeats.enabled",
    "sync.topic.configs.enabled",
    "sync.topic.acls.enabled",
    "sync.group.offsets.enabled",
)
_REPLICATED: Final = ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
_STORED: Final = ("offset", "status", "config")


class MirrorMaker:
    """One MirrorMaker 2 process from the source to the target, for a fixed list of topics.

    `mm2` runs with MirrorMaker's defaults, `mm2_tuned` with larger batches and polls.
    """

    def __init__(
        self,
        folder: Path,
        source: str,
        target: str,
        topics: Sequence[str],
        *,
        tuned: bool = False,
        replicas: int = 1,
    ) -> None:
        """`replicas`: of all that it creates."""
        self.name = "mm2_tuned" if tuned else "mm2"
        self._alias = self.name.replace("_", "-")
        self._folder = folder
        self._config = folder / f"{self.name}.properties"
        values = settings(self._alias, source, target, topics, replicas) | (tuning(self._alias) if tuned else {})
        self._config.write_text("".join(f"{key} = {value}\n" for key, value in values.items()), encoding="utf-8")
        self._server: Server | None = None

    def copy_of(self, topic: str) -> str:
        """Name of a topic's copy on the target: the source's alias goes before it."""
        return f"{self._alias}.{topic}"

    @property
    def pid(self) -> int:
        """The process whose CPU time counts."""
        assert self._server is not None
        return self._server.pid

    def start(self) -> None:
        """Start; it copies what is there as soon as it can."""
        ensure_jars(KAFKA)
        write_log_config(self._folder, level="INFO", stream="stdout")
        logs = log_options(self._folder)
        command = [
            java_binary(),
            *long_lived_jvm_options(_HEAP_MB),
            *logs,
            "-cp",
            class_path(KAFKA),
            _MAIN,
            str(self._config),
        ]
        self._server = Server(self.name, command, self._folder)

    def pause(self) -> None:
        """Take no CPU until `resume`."""
        assert self._server is not None
        self._server.pause()

    def resume(self) -> None:
        """Go on."""
        assert self._server is not None
        self._server.check_alive()
        self._server.resume()

    def stop(self) -> None:
        """End the process."""
        if self._server is not None:
            self._server.end(5.0)
            self._server = None


def settings(alias: str, source: str, target: str, topics: Sequence[str], replicas: int) -> dict[str, str]:
    """mm2.properties: what makes it copy these topics and nothing else."""
    return {
        "clusters": f"{alias}, target",
        f"{alias}.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        f"{alias}->target.enabled": "true",
        f"target->{alias}.enabled": "false",
        f"{alias}->target.topics": ", ".join(topics),
        "groups": "no-group",  # its checkpoint connector refuses to start when checkpoints are off
        "tasks.max": "2",
        "refresh.topics.interval.seconds": "600",
        "target.session.timeout.ms": "300000",  # it is stopped by signal for a while
        "target.producer.max.request.size": "4194304",
        **dict.fromkeys(_OFF, "false"),
        **{f"{name}replication.factor": str(replicas) for name in _REPLICATED},
        **{f"{name}.storage.replication.factor": str(replicas) for name in _STORED},
    }


def tuning(alias: str) -> dict[str, str]:
    """What a user would set for throughput."""
    return {
        "target.producer.batch.size": "262144",
        "target.producer.linger.ms": "5",
        f"{alias}.consumer.max.poll.records": "2000",
    }
