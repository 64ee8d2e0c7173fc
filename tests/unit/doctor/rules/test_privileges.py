from dataclasses import replace

from gateway.doctor.rules.facts import Inquiry, OwnTopicFacts, RightsFacts, SeenCluster, Side
from gateway.doctor.rules.finding import DoctorFinding, Level
from gateway.doctor.rules.privileges import check_rights

ALL = 0x7FFF
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS = (1 << bit for bit in (3, 4, 5, 6, 7, 8, 10))
STATE = "__lockgate_state"
TARGET = Inquiry(
    side=Side.TARGET,
    own_topics=(STATE,),
    fleet="__lockgate.fleet",
    transactional_ids=("__lockgate-state",),
    topics=("orders", "payments"),
    groups=("billing",),
)
MAY_ALL = RightsFacts(
    on_cluster=ALL,
    topics={STATE: ALL, "orders": ALL, "payments": ALL},
    groups={"__lockgate.fleet": ALL, "billing": ALL},
    transactional_ids={"__lockgate-state": ""},
)
SOURCE = Inquiry(side=Side.SOURCE, topics=("orders",), groups=("billing",), writes=True)
MAY_READ = RightsFacts(on_cluster=DESCRIBE, topics={"orders": READ | DESCRIBE_CONFIGS}, groups={"billing": DESCRIBE})


def of(asked: Inquiry, rights: RightsFacts, *own: OwnTopicFacts, user: str = "gateway") -> list[DoctorFinding]:
    facts = SeenCluster(name=str(asked.side), asked=asked, user=user, rights=rights, own_topics=own)
    return list(check_rights(facts))


def test_who_may_all() -> None:
    (found,) = of(TARGET, MAY_ALL)
    assert (found.level, found.value) == (Level.OK, "on the cluster, 3 topics, 2 groups: nothing is missing")


def test_one_right_on_two_topics_is_one_line_with_the_command() -> None:
    rights = replace(MAY_ALL, topics={STATE: ALL, "orders": ALL & ~WRITE, "payments": ALL & ~WRITE})
    (found,) = of(TARGET, rights)
    assert found.level is Level.FAIL
    assert found.value == "Write is missing on topics orders, payments: records are appended to it"
    assert found.remedy == (
        "kafka-acls --add --allow-principal User:gateway --operation Write --topic orders, and so for each"
    )


def test_who_it_is_may_be_unknown() -> None:
    (found,) = of(TARGET, replace(MAY_ALL, groups={"__lockgate.fleet": 0, "billing": ALL}), user="")
    assert (
        "--allow-principal User:NAME --operation Read --group __lockgate --resource-pattern-type prefixed"
        in found.remedy
    )


def test_alter_and_the_cluster_are_warnings_on_the_target() -> None:
    rights = replace(MAY_ALL, on_cluster=0, topics={**MAY_ALL.topics, "orders": ALL & ~ALTER})
    assert [one.level for one in of(TARGET, rights)] == [Level.WARN, Level.WARN]


def test_records_of_a_compacted_topic_are_not_deleted() -> None:
    rights = replace(MAY_ALL, topics={**MAY_ALL.topics, "orders": ALL & ~DELETE})
    assert [one.level for one in of(TARGET, rights)] == [Level.FAIL]
    compacted = replace(rights, topic_configs={"orders": {"cleanup.policy": "compact"}})
    assert [one.level for one in of(TARGET, compacted)] == [Level.OK]


def test_an_own_topic_that_is_not_there_takes_create_on_it_or_on_the_cluster() -> None:
    rights = replace(MAY_ALL, on_cluster=ALL & ~CREATE, topics={**MAY_ALL.topics, STATE: ALL & ~CREATE})
    absent = OwnTopicFacts(name=STATE)
    (found,) = of(TARGET, rights, absent)
    assert (found.level, found.value.startswith("Create is missing on topic __lockgate_state")) == (Level.FAIL, True)
    assert [one.level for one in of(TARGET, replace(rights, on_cluster=ALL), absent)] == [Level.OK]
    assert [one.level for one in of(TARGET, rights, OwnTopicFacts(name=STATE, partitions=1))] == [Level.OK]


def test_the_transactional_id_of_the_state() -> None:
    refused = {"__lockgate-state": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
    (found,) = of(TARGET, replace(MAY_ALL, transactional_ids=refused))
    assert (found.level, "--transactional-id __lockgate --resource-pattern-type prefixed" in found.remedy) == (
        Level.FAIL,
        True,
    )


def test_a_source_is_written_where_links_write() -> None:
    (found,) = of(SOURCE, MAY_READ)
    assert (found.level, found.value.startswith("Write is missing on topic orders")) == (Level.FAIL, True)
    assert [one.level for one in of(replace(SOURCE, writes=False), MAY_READ)] == [Level.OK]


def test_a_source_whose_groups_are_not_told() -> None:
    rights = replace(MAY_READ, on_cluster=0, groups={"billing": 0})
    found = of(replace(SOURCE, writes=False), rights)
    assert [(one.level, one.value.partition(":")[0]) for one in found] == [
        (Level.FAIL, "Describe is missing on group billing"),
        (Level.FAIL, "Describe is missing on the cluster"),
    ]


def test_what_is_not_told_is_a_warning_and_nothing_more() -> None:
    (found,) = of(SOURCE, RightsFacts(untold={"rights on topics": "no answer"}))
    assert (found.level, found.value) == (Level.WARN, "rights on topics are not told (no answer)")
