"""One broker process."""

from pathlib import Path

from gateway.devcluster.class_archive import archive_options, archiving_options
from gateway.devcluster.jars import class_path
from gateway.devcluster.java import java_binary, jvm_options, long_lived_jvm_options
from gateway.devcluster.logconfig import log_options
from gateway.devcluster.probe import answers, knows_controller
from gateway.devcluster.process import ServerProcess
from gateway.devcluster.spec import HOST, ClusterSpec, NodeSpec
from gateway.devcluster.status import NodeStatus


class NodeProcess(ServerProcess):
    """The process of one node, whoever started it. `archive`: where it is to write its classes when it ends."""

    def __init__(self, spec: ClusterSpec, node: NodeSpec, folder: Path) -> None:
        super().__init__(folder, f"node-{node.node_id}")
        self.spec = spec
        self.node = node
        self.archive: Path | None = None
        self._config_folder = folder / "config"

    def command(self, main_class: str, *args: str) -> list[str]:
        """Java command of this node's version, with the broker's log settings."""
        version, heap_mb = self.spec.kafka_version, self.spec.heap_mb
        jvm = (
            long_lived_jvm_options(heap_mb)
            if self.spec.long_lived
            else [*jvm_options(heap_mb), *archive_options(version)]
        )
        options = [*jvm, *log_options(self._config_folder)]
        return [java_binary(), *options, "-cp", class_path(version), main_class, *args]

    def start(self) -> None:
        """Start the broker unless it runs."""
        java, *rest = self.command("kafka.Kafka", str(self.config))
        archiving = [] if self.archive is None else archiving_options(self.archive)
        self.start_command([java, *archiving, *rest])

    def answers(self) -> bool:
        """Whether the broker answers its clients."""
        probe = knows_controller if self.spec.has_zookeeper else answers
        return probe(HOST, self.node.client_port, certificate=self.spec.certificate)

    def status(self) -> NodeStatus:
        """What `status` shows of this node."""
        pid = self.pid()
        return NodeStatus(
            node_id=self.node.node_id,
            pid=pid,
            up=pid is not None and self.answers(),
            client_port=self.node.client_port,
            internal_port=self.node.internal_port,
            controller_port=self.node.controller_port,
            proxied_port=self.node.proxied_port,
            advertised_port=self.node.advertised_port,
            log=str(self.log),
        )
