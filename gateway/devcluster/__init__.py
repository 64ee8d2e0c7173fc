"""Real Apache Kafka clusters (KRaft) on this machine, for the demo, the tests and the benchmarks.

Owns: the brokers' jars, a folder per cluster, the broker processes. Knows nothing of the gateway, and the gateway
nothing of it; only the command line, the tests and the demo use it.
"""

from gateway.devcluster.cluster import DevCluster, ensure_class_archive
from gateway.devcluster.jars import class_path, ensure_jars
from gateway.devcluster.java import java_command
from gateway.devcluster.ports import claim_ports, release_ports
from gateway.devcluster.spec import KAFKA_VERSIONS, ClusterSpec, ClusterStatus, DevClusterError, NodeSpec, NodeStatus

__all__ = [
    "KAFKA_VERSIONS",
    "ClusterSpec",
    "ClusterStatus",
    "DevCluster",
    "DevClusterError",
    "NodeSpec",
    "NodeStatus",
    "claim_ports",
    "class_path",
    "ensure_class_archive",
    "ensure_jars",
    "java_command",
    "release_ports",
]
