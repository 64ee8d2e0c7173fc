"""The tests' own tools: a client reaches a broker through toxiproxy, and only while the proxy is whole."""

from concurrent.futures import ThreadPoolExecutor

from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from gateway.devcluster.node import answers
from tests.support.brokers.logs import assert_nothing_lost, create_topic, read_logs
from tests.support.brokers.toxiproxy import Proxy
from tests.support.clients.writer import Writer


def test_a_client_of_the_proxied_listener_stays_on_the_proxy(source: DevCluster, source_proxy: Proxy) -> None:
    assert source.proxied_bootstrap == source_proxy.address
    brokers = AdminClient({"bootstrap.servers": source.proxied_bootstrap}).list_topics(timeout=10).brokers
    assert [broker.port for broker in brokers.values()] == [source_proxy.port]


def test_a_cut_proxy_is_cut_and_mended(source: DevCluster, source_proxy: Proxy) -> None:
    assert answers(source_proxy.host, source_proxy.port)
    with source_proxy.being_cut():
        assert not answers(source_proxy.host, source_proxy.port)
        assert answers("127.0.0.1", source.spec.nodes[0].client_port)
    assert answers(source_proxy.host, source_proxy.port)


def test_faults_of_several_threads_overlap_on_one_proxy(source_proxy: Proxy) -> None:
    def hurt(_: int) -> None:
        for _ in range(5):
            source_proxy.add("timeout", "downstream", timeout=0)
            source_proxy.cut()
            source_proxy.mend()
            source_proxy.add("timeout", "downstream", timeout=0)
            source_proxy.mend()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(hurt, range(4)))
    assert answers(source_proxy.host, source_proxy.port)


def test_a_writer_survives_a_cut_and_its_log_is_read_back(source: DevCluster, source_proxy: Proxy, topic: str) -> None:
    """What the fault tests ask of the gateway holds for a broker alone."""
    create_topic(source.bootstrap, topic, partitions=2)
    with Writer(source.proxied_bootstrap, topic, partitions=2) as writer:
        writer.wait_for_acks(200)
        with source_proxy.being_cut():
            writer.wait_for_sends(200)
        writer.wait_for_acks(400)
    assert_nothing_lost(writer, read_logs(source.bootstrap, topic, 2))
