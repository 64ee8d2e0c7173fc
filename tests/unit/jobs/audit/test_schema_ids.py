"""Topics whose schema ids are written anew: compared through the id map, and never identical without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack

import pytest

from gateway.jobs.audit.schema_ids import MOST_TOLD, IdTranslation
from gateway.jobs.audit.verdict import AuditVerdict, PartitionVerdict
from gateway.state.records import MirrorRecord, PartitionStart
from gateway.state.schemas.schema_options import ID_PLACES
from protocol.batch.schema_ids import SchemaIdPlaces, translated
from tests.support.jobs.audit_logs import T0, TRANSACTIONAL, Log, Logs, audit, copied, facts_of
from tests.support.mirror.source_log import Given

IDS = {1: 11, 2: 12, 3: 13}
RECORD = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),), translates_ids=ID_PLACES
)


def framed(schema_id: int) -> bytes:
    return b"\0" + pack(">i", schema_id) + b"x"


def source_of(ids: Sequence[int], codec: int = 0) -> Log:
    """Batches of three records; keys and headers have ids, too."""
    log = Log()
    for base in range(0, len(ids), 3):
        log.add(
            [
                Given(base + at, T0 + at, framed(one), framed(one), (("__value_schema_id", framed(one)[:5]),))
                for at, one in enumerate(ids[base : base + 3])
            ],
            codec=codec,
        )
    return log


def mirrored(source: Log, ids: Mapping[int, int] = IDS, places: SchemaIdPlaces = SchemaIdPlaces()) -> Log:  # noqa: B008 - a value
    """The copy as a mirror makes it that writes ids anew."""
    made = [(bytes(translated(memoryview(batch), ids, places).batch), aborted) for batch, aborted in source.batches]
    return copied(Log(made))


def look(source: Log, target: Log, ids: Mapping[int, int] = IDS, same: Mapping[int, int] = {}) -> PartitionVerdict:
    logs = Logs(source, target)
    return audit(facts_of(logs, record=RECORD), logs, ids=IdTranslation(ids=ids, same=same, places=ID_PLACES))


@pytest.mark.parametrize("codec", range(5))
def test_what_the_mirror_made_is_identical_through_the_map(codec: int) -> None:
    source = source_of([1, 2, 3, 1, 2, 3, 1], codec)
    finding = look(source, mirrored(source))
    assert finding.sentence == "IDENTICAL through the id map up to offset 7"
    assert (finding.sums.compared, finding.closes) == (7, True)


def test_bytes_that_are_the_sources_differ() -> None:
    source = source_of([1, 2, 3])
    assert look(source, copied(source)).sentence == "DIFFERENT through the id map at offset 0: key; 3 in all"


@pytest.mark.parametrize(
    ("places", "kind"), [(SchemaIdPlaces(key=False), "key"), (SchemaIdPlaces(value=False), "value")]
)
def test_one_place_that_was_left_out_is_found(places: SchemaIdPlaces, kind: str) -> None:
    source = source_of([1, 2, 3])
    finding = look(source, mirrored(source, places=places))
    assert finding.sums.first is not None
    assert (finding.verdict, finding.sums.first.kind) == (AuditVerdict.DIFFERENT, kind)


def test_another_id_is_found() -> None:
    source = source_of([1, 2, 3, 1, 2, 3])
    assert look(source, mirrored(source, {**IDS, 2: 13})).sums.different == 2


def test_an_id_that_the_map_lacks_vouches_for_nothing() -> None:
    """Also where both logs have the same bytes."""
    source = source_of([1, 2, 9])
    finding = look(source, mirrored(source))
    assert finding.verdict is AuditVerdict.INCOMPLETE
    assert finding.sentence == (
        "INCOMPLETE: records of the source have schema ids that are not in the link's id map: 9; 3 records are equal "
        "through the id map, none differs"
    )


def test_ids_that_are_told_are_bounded() -> None:
    source = source_of(range(100, 100 + 3 * MOST_TOLD))
    assert len(look(source, Log()).sums.unknown_ids) <= 3 * MOST_TOLD  # of three pieces
    assert look(source, Log()).reasons[-1].endswith("100, 101, 102, 103, 104 and others")


def test_either_of_two_ids_of_a_schema_is_right() -> None:
    """The lower one came to the target later, and counts since."""
    source = source_of([1, 2, 1])
    target = mirrored(source, {1: 15, 2: 12})
    assert look(source, target).verdict is AuditVerdict.DIFFERENT
    assert look(source, target, same={15: 11}).verdict is AuditVerdict.IDENTICAL


def test_aborted_records_and_markers_have_none() -> None:
    source = Log().add([Given(0, T0, None, framed(1))])
    source.add([Given(1, T0, None, framed(9))], aborted=True, attributes=TRANSACTIONAL, producer_id=7)
    source.add_marker(abort=True)
    target = copied(Log([(bytes(translated(memoryview(source.batches[0][0]), IDS).batch), False)]))
    assert look(source, target).sums.unknown_ids == set()
