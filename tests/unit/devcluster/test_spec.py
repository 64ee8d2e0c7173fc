import pytest

from gateway.devcluster import ClusterSpec, DevCluster, DevClusterError
from gateway.devcluster.spec import check_name, new_cluster_id, plan_nodes


def spec_of(brokers: int, advertised: tuple[int, ...] = ()) -> ClusterSpec:
    ports = list(range(9092, 9092 + 4 * brokers))
    nodes = plan_nodes(ports, brokers, advertised)
    return ClusterSpec("blue", "4.3.1", new_cluster_id(), nodes, properties={"num.partitions": "3"})


def test_client_ports_come_first_and_follow_one_another() -> None:
    spec = spec_of(3)
    assert [node.client_port for node in spec.nodes] == [9092, 9093, 9094]
    assert spec.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert spec.proxied_bootstrap == ""


def test_no_port_is_given_twice() -> None:
    ports = [port for node in spec_of(3, (1, 2, 3)).nodes for port in node.ports]
    assert sorted(ports) == list(range(9092, 9092 + 12))


def test_a_spec_survives_its_file() -> None:
    spec = spec_of(3, (7001, 7002, 7003))
    assert ClusterSpec.from_json(spec.to_json()) == spec
    assert spec.proxied_bootstrap == "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003"


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b", "x" * 65])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(DevClusterError):
        check_name(name)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kafka": "2.0.0"}, "2.0.0"),
        ({"brokers": 2}, "1 or 3"),
        ({"port": 65535}, "port"),
        ({"advertised_ports": [1, 2]}, "advertised"),
    ],
)
def test_a_bad_argument_is_one_line_that_names_it(tmp_path, wrong, said) -> None:
    with pytest.raises(DevClusterError, match=said) as caught:
        DevCluster.create("blue", parent=tmp_path, **wrong)
    assert "\n" not in str(caught.value)


def test_a_cluster_id_has_kafkas_form() -> None:
    ids = {new_cluster_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(len(each) == 22 and not each.startswith("-") for each in ids)
