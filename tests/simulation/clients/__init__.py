"""The clients of the simulation: each on a node of its own, speaking the protocol as the real libraries do.

What decides anything (sequences, retries, epochs, rebalances) is written here, after the Java client and librdkafka;
only connections and metadata are `gateway.kafka.cluster.Cluster`'s.
"""

from tests.simulation.clients.member import GroupMember
from tests.simulation.clients.newcomer import Newcomer
from tests.simulation.clients.old_api import OldApiPipeline
from tests.simulation.clients.pipeline import Pipeline
from tests.simulation.clients.producer import Bypass, Producer
from tests.simulation.clients.transactional import TransactionalProducer

__all__ = ["Bypass", "GroupMember", "Newcomer", "OldApiPipeline", "Pipeline", "Producer", "TransactionalProducer"]
