"""

Levels of single loggers, in the words of both log4j generations.
"""

from pathlib import Path

from gateway.devcluster.properties import server_properties, write_log_config
from gateway.devcluster.spec import ClusterSpec, plan_nodes


def properties(
    kafka: str = "4.3.1", brokers: int = 1, advertised: tuple[int, ...] = (), **extra: str
) -> dict[str, str]:
    nodes = plan_nodes(list(range(100, 100 + 4 * brokers)), brokers, advertised)
    spec = ClusterSpec("blue", kafka, "id", nodes, properties={k.replace("_", "."): v for k, v in extra.items()})
    text = server_properties(spec, nodes[0], Path("/data"))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_brokers_talk_to_each_other_on_a_listener_of_their_own() -> None:
    found = properties(advertised=(7001,))
    assert found["inter.broker.listener.name"] == "INTERNAL"
    assert "INTERNAL://127.0.0.1:101" in found["advertised.listeners"].split(",")
    assert "PROXIED://127.0.0.1:7001" in found["advertised.listeners"].split(",")
    assert "PROXIED://127.0.0.1:103" in found["listeners"].split(",")


def test_without_advertised_ports_there_is_no_proxied_listener() -> None:
    assert "PROXIED" not in "".join(properties().values())


def test_three_nodes_vote_and_replicate() -> None:
    found = properties(brokers=3)
    assert found["controller.quorum.voters"] == "1@127.0.0.1:106,2@127.0.0.1:107,3@127.0.0.1:108"
    assert found["offsets.topic.replication.factor"] == "3"
    assert found["transaction.state.log.min.isr"] == "2"


def test_a_broker_with_a_rack_names_it_and_sends_clients_to_theirs() -> None:
    nodes = plan_nodes(list(range(100, 109)), 3)
    spec = ClusterSpec("blue", "4.3.1", "id", nodes, racks=("a", "b", "c"))
    text = server_properties(spec, nodes[1], Path("/data"))
    assert "broker.rack=b\n" in text
    assert "RackAwareReplicaSelector" in text
    assert ClusterSpec.from_json(spec.to_json()) == spec
    assert "broker.rack" not in properties()


def test_given_properties_win() -> None:
    assert properties(auto_create_topics_enable="false")["auto.create.topics.enable"] == "false"
    assert properties(offsets_topic_num_partitions="50")["offsets.topic.num.partitions"] == "50"


def test_an_old_broker_is_told_nothing_of_share_groups() -> None:
    assert not any(key.startswith("share.") for key in properties("3.9.1"))
    assert any(key.startswith("share.") for key in properties("4.3.1"))


def test_a_version_with_zookeeper_has_no_controllers_of_its_own() -> None:
    found = properties("2.8.2", brokers=3)
    assert (found["broker.id"], found["zookeeper.connect"]) == ("1", "127.0.0.1:106")
    assert "CONTROLLER" not in found["listeners"]
    assert {"process.roles", "node.id", "controller.quorum.voters", "controller.listener.names"}.isdisjoint(found)
    assert "share.coordinator.state.topic.num.partitions" not in found


def test_a_logger_has_a_level_of_its_own(tmp_path: Path) -> None:
    write_log_config(tmp_path, "INFO", "stdout", {"kafka.authorizer.logger": "DEBUG"})
    first = (tmp_path / "log4j.properties").read_text(encoding="utf-8").splitlines()
    second = (tmp_path / "log4j2.properties").read_text(encoding="utf-8").splitlines()
    assert "log4j.rootLogger=INFO, console" in first
    assert "log4j.logger.kafka.authorizer.logger=DEBUG" in first
    assert "rootLogger.level=INFO" in second
    assert {"logger.0.name=kafka.authorizer.logger", "logger.0.level=DEBUG"} <= set(second)
