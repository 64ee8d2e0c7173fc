import uuid
from typing import Any

from gateway.kafka.view import BrokerView, ClusterView, PartitionView, next_view
from protocol.errors import ErrorCode
from protocol.messages import MetadataResponse

Topic = MetadataResponse.MetadataResponseTopic
ID = uuid.UUID(int=7)


def partition(index: int, leader: int, epoch: int = 0) -> Any:
    return Topic.MetadataResponsePartition(
        error_code=0, partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[leader], isr_nodes=[]
    )


def topic(name: str, *partitions: Any, error: int = 0, topic_id: uuid.UUID = ID) -> Any:
    return Topic(name=name, topic_id=topic_id, error_code=error, is_internal=False, partitions=list(partitions))


def response(*topics: Any, cluster_id: str = "c", controller: int = 1) -> Any:
    broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=9, rack="r")
    return MetadataResponse(brokers=[broker], cluster_id=cluster_id, controller_id=controller, topics=list(topics))


def test_the_first_response() -> None:
    view = next_view(ClusterView(), response(topic("t", partition(0, 1, 5))), None)

    assert view.cluster_id == "c"
    assert view.controller_id == 1
    assert view.brokers == {1: BrokerView("h", 9, "r")}
    assert view.topics["t"].partitions == {0: PartitionView(1, 5, (1,), 0, 0)}
    assert view.topics["t"].topic_id == ID.bytes
    assert view.topics["t"].id_text == "AAAAAAAAAAAAAAAAAAAABw"
    assert view.complete
    assert view.partition_count == 1


def test_asking_for_some_topics_leaves_the_others() -> None:
    view = next_view(ClusterView(), response(topic("a", partition(0, 1)), topic("b", partition(0, 1))), None)

    later = next_view(view, response(topic("b", partition(0, 2, 1))), {"b"})

    assert later.topics["a"] is view.topics["a"]
    assert later.topics["b"].partitions[0].leader == 2
    assert later.complete


def test_topics_that_do_not_exist_leave_the_view() -> None:
    view = next_view(ClusterView(), response(topic("a"), topic("b")), None)
    gone = topic("a", error=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    bad = topic("b", error=int(ErrorCode.INVALID_TOPIC_EXCEPTION))

    assert next_view(view, response(gone, bad), {"a", "b"}).topics == {}
    assert next_view(view, response(), None).topics == {}


def test_a_topic_that_may_not_be_seen_stays_with_its_error() -> None:
    denied = topic("a", error=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    assert next_view(ClusterView(), response(denied), {"a"}).topics["a"].error == 29


def test_a_broker_that_lags_behind_does_not_bring_an_old_leader_back() -> None:
    view = next_view(ClusterView(), response(topic("t", partition(0, 2, 6), partition(1, 2, 6))), None)

    later = next_view(view, response(topic("t", partition(0, 1, 5), partition(1, 1, 7))), {"t"})

    assert [later.topics["t"].partitions[p].leader for p in (0, 1)] == [2, 1]


def test_a_broker_that_lags_behind_takes_no_partition_away() -> None:
    view = next_view(ClusterView(), response(topic("t", partition(0, 2), partition(1, 2, 3))), None)

    later = next_view(view, response(topic("t", partition(0, 2))), {"t"})

    assert later.topics["t"] is view.topics["t"]


def test_a_topic_without_an_id_may_have_been_made_again_with_fewer_partitions() -> None:
    nameless = uuid.UUID(int=0)
    two = topic("t", partition(0, 2), partition(1, 2), topic_id=nameless)
    view = next_view(ClusterView(), response(two), None)

    later = next_view(view, response(topic("t", partition(0, 2), topic_id=nameless)), {"t"})

    assert list(later.topics["t"].partitions) == [0]


def test_a_topic_made_again_begins_again() -> None:
    view = next_view(ClusterView(), response(topic("t", partition(0, 2, 6))), None)
    again = topic("t", partition(0, 1, 0), topic_id=uuid.UUID(int=8))

    assert next_view(view, response(again), {"t"}).topics["t"].partitions[0].leader == 1


def test_old_brokers_without_epochs_and_ids() -> None:
    view = next_view(ClusterView(), response(topic("t", partition(0, 2, -1))), None)
    old = topic("t", partition(0, 1, -1))
    old.topic_id = None

    later = next_view(view, response(old, controller=-1, cluster_id=""), {"t"})

    assert later.topics["t"].partitions[0].leader == 1
    assert later.topics["t"].topic_id == bytes(16)
    assert later.controller_id is None
    assert later.cluster_id == "c"
