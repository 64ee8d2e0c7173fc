from gateway.mirror.rules.source_watch import SourceTopicWatch
from gateway.state.records import MirrorError

ID, OTHER, ZERO = "x" * 22, "y" * 22, "A" * 22


def test_the_same_topic() -> None:
    assert SourceTopicWatch("t", ID, 3).found(ID, 3, 100.0) is None
    assert SourceTopicWatch("t", ID, 3).found(ID, 4, 100.0) is None


def test_another_id() -> None:
    found = SourceTopicWatch("t", ID, 3).found(OTHER, 3, 100.0)
    assert found is not None
    assert found[0] is MirrorError.SOURCE_TOPIC_ID_CHANGED


def test_clusters_without_topic_ids() -> None:
    assert SourceTopicWatch("t", "", 3).found(OTHER, 3, 100.0) is None
    assert SourceTopicWatch("t", ID, 3).found(ZERO, 3, 100.0) is None
    assert SourceTopicWatch("t", ZERO, 3).found(ID, 3, 100.0) is None


def test_fewer_partitions_for_long_enough() -> None:
    watch = SourceTopicWatch("t", ID, 3)
    assert watch.found(ID, 2, 100.0) is None
    assert watch.lacks_partitions
    assert watch.found(ID, 2, 399.9) is None
    found = watch.found(ID, 2, 400.0)
    assert found is not None
    assert found[0] is MirrorError.SOURCE_PARTITIONS_DECREASED


def test_missing_for_long_enough() -> None:
    watch = SourceTopicWatch("t", ID, 3)
    assert watch.missing(100.0) is None
    assert watch.missing(399.9) is None
    found = watch.missing(400.0)
    assert found is not None
    assert found[0] is MirrorError.SOURCE_TOPIC_MAY_BE_DELETED


def test_a_topic_that_comes_back_was_not_deleted() -> None:
    watch = SourceTopicWatch("t", ID, 3)
    watch.missing(100.0)
    assert watch.found(ID, 3, 100.0) is None
    assert watch.missing(401.0) is None


def test_a_broker_that_has_not_heard_of_added_partitions_yet() -> None:
    watch = SourceTopicWatch("t", ID, 3)
    assert watch.found(ID, 2, 100.0) is None
    assert watch.found(ID, 3, 101.0) is None
    assert not watch.lacks_partitions
    assert watch.found(ID, 2, 401.0) is None


def test_a_topic_that_may_not_be_seen_for_long_enough() -> None:
    watch = SourceTopicWatch("t", ID, 3, 60.0)
    assert watch.refused(100.0) is None
    assert watch.refused(159.9) is None
    assert watch.found(ID, 3, 159.9) is None
    assert watch.refused(160.0) is None, "it was seen meanwhile"
    found = watch.refused(220.0)
    assert found is not None
    assert found[0] is MirrorError.AUTHORIZATION_ERROR


def test_a_refusal_in_between_is_no_sign_that_the_topic_is_missing() -> None:
    watch = SourceTopicWatch("t", ID, 3, 60.0)
    assert watch.missing(100.0) is None
    assert watch.refused(101.0) is None
    assert watch.refused(150.0) is None
    assert watch.missing(170.0) is None, "it is missing since now"
    assert watch.missing(230.0) is not None
