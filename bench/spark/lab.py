"""Two clusters, a gateway whose mirrors are paused, and a MirrorMaker 2 that is stopped while it is not its turn."""

from __future__ import annotations

import contextlib
import shutil
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bench.contestants.lockgate import Lockgate
from bench.contestants.mirrormaker import MirrorMaker
from bench.lab import SOURCE_KAFKA, TARGET_KAFKA
from bench.loads.produce import write_16k
from bench.spark.settings import FIRST_S, LINK, PARTITIONS, SMALL, Settings
from bench.topics import Topics
from gateway.devcluster import DevCluster, DevClusterError

# What was copied is deleted after each round, so that a long run needs little disk.
_BROKER = {
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "log.segment.bytes": "268435456",
}


class Lab:
    """What stays up for a whole run."""

    def __init__(self, settings: Settings, topics: list[str]) -> None:
        self.settings = settings
        self.folder = settings.folder
        self._topics = topics
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.source = DevCluster.create(
            "source", kafka=SOURCE_KAFKA, parent=self.folder, properties=_BROKER, heap_mb=512, long_lived=True
        )
        self.target = DevCluster.create(
            "target", kafka=TARGET_KAFKA, parent=self.folder, properties=_BROKER, heap_mb=768, long_lived=True
        )
        self.gateway = Lockgate(self.folder, self.target.bootstrap)
        self.on_source = Topics(self.source.bootstrap)
        self.on_target = Topics(self.target.bootstrap)
        self.mirror_maker = MirrorMaker(self.folder, self.source.bootstrap, self.target.bootstrap, topics)
        self._open = contextlib.ExitStack()

    @property
    def api(self) -> tuple[str, ...]:
        """The arguments of a job that reach the gateway's API."""
        return ("--url", self.gateway.url, "--token-file", str(self.gateway.token_file))

    def start(self) -> None:
        """Start all; MirrorMaker has copied a record of each topic, and stands still."""
        with ThreadPoolExecutor() as pool:
            for started in [pool.submit(cluster.up, 120.0) for cluster in (self.source, self.target)]:
                started.result()
        self.gateway.start()
        self.on_source.create_all([*self._topics, SMALL], PARTITIONS)
        for topic in (*self._topics, SMALL):
            write_16k(self.source.bootstrap, topic, 1)
        self._open.enter_context(self.gateway.link(LINK, self.source.bootstrap))
        for topic in (*self._topics, SMALL):
            self.gateway.mirror(LINK, topic)
            self.on_target.wait_for_records(topic, 1, FIRST_S, poll_s=0.5)
            self.gateway.pause(LINK, topic)
        self.mirror_maker.start()
        for topic in self._topics:
            self.on_target.wait_for_records(self.mirror_maker.copy_of(topic), 1, FIRST_S, poll_s=0.5)
        self.mirror_maker.pause()

    def empty(self, topic: str) -> None:
        """Delete what a topic and its copies hold; offsets go on."""
        copies = ((self.source, topic), (self.target, topic), (self.target, self.mirror_maker.copy_of(topic)))
        for cluster, name in copies:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            everything = [TopicPartition(name, index, -1) for index in range(PARTITIONS)]
            for done in admin.delete_records(everything).values():
                done.result(60)

    def close(self) -> None:
        """End everything, whatever still runs."""
        self.mirror_maker.stop()
        with contextlib.suppress(Exception):
            self._open.close()
        self.gateway.close()
        for cluster in (self.source, self.target):
            with contextlib.suppress(DevClusterError):
                cluster.kill()
                cluster.delete()
