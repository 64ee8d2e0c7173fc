import pytest

from gateway.doctor.rules.rights import ALTER, DELETE, NEEDED, NeededRight, may, missing

ALL = -1


def names(rights: tuple[NeededRight, ...]) -> list[str]:
    return [right.name for right in rights]


def test_who_may_do_nothing_lacks_all() -> None:
    assert names(missing(0, {})) == ["READ", "WRITE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "DELETE"]


@pytest.mark.parametrize("right", [*NEEDED, DELETE], ids=lambda right: right.name)
def test_one_that_is_missing(right: NeededRight) -> None:
    assert missing(ALL & ~(1 << right.bit), {"cleanup.policy": "compact,delete"}) == (right,)


def test_records_of_a_compacted_topic_are_not_deleted() -> None:
    assert missing(ALL & ~(1 << DELETE.bit), {"cleanup.policy": "compact"}) == ()


def test_other_rights_do_not_matter() -> None:
    assert missing(sum(1 << right.bit for right in (*NEEDED, DELETE)), {}) == ()
    assert not may(1 << DELETE.bit, ALTER)
