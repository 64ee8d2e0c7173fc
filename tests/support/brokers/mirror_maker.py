"""A real MirrorMaker 2 from the brokers' jars, with its checkpoints and offset syncs switched on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gateway.devcluster import DevCluster
from gateway.devcluster.java import java_command

KAFKA = "4.3.1"
MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_INTERNAL = ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
_STORED = ("offset", "status", "config")


@contextmanager
def mirror_maker(
    alias: str, source: DevCluster, target: DevCluster, folder: Path, options: Mapping[str, str]
) -> Iterator[Path]:
    """MirrorMaker 2 from `alias` to `target` for the time of the block; yields its log."""
    values = {
        "clusters": f"{alias}, target",
        f"{alias}.bootstrap.servers": source.bootstrap,
        "target.bootstrap.servers": target.bootstrap,
        f"{alias}->target.enabled": "true",
        f"target->{alias}.enabled": "false",
        "tasks.max": "1",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "5",
        "refresh.topics.interval.seconds": "5",
        "sync.topic.acls.enabled": "false",
        "sync.group.offsets.enabled": "false",
        **{f"{name}replication.factor": "1" for name in _INTERNAL},
        **{f"{name}.storage.replication.factor": "1" for name in _STORED},
        **options,
    }
    config, log = folder / "mm2.properties", folder / "mm2.log"
    config.write_text("".join(f"{key} = {value}\n" for key, value in values.items()))
    with log.open("wb") as out:
        command = java_command(KAFKA, MAIN, str(config), heap_mb=512)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT) as process:
            try:
                yield log
            finally:
                process.terminate()
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
