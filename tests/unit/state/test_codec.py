"""State records survive the way through JSON, and two versions of lockgate can read each other's."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.state.codec import VERSION, StateFormatError, decode, encode, key_of
from gateway.state.failback_records import FailbackEpochRecord
from gateway.state.gateway_records import PortRecord
from gateway.state.migration_records import JOURNAL, JournalEntry, MigrationRecord, MigrationState
from gateway.state.per_partition import of_this_version
from gateway.state.records import (
    CarriedOffset,
    Cutover,
    GroupRecord,
    GroupState,
    LinkRecord,
    MirrorCutover,
    MirrorDirection,
    MirrorError,
    MirrorFailback,
    MirrorMode,
    MirrorRecord,
    MirrorState,
    OriginRecord,
    PartitionStart,
    ProducerEntry,
    SequenceRecord,
    Upstream,
)
from gateway.state.schemas.schema_records import SchemaEntry, SchemaRecord
from tests.support.control.mirror_records import changed

MIRROR = MirrorRecord(link="a", source_topic="b", mirror_topic="b", mirror_id=1)

names = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
texts = st.text(max_size=20)
int64 = st.integers(-(2**63), 2**63 - 1)
mappings = st.dictionaries(texts, texts, max_size=4)
int32 = st.integers(-(2**31), 2**31 - 1)
entries = st.builds(ProducerEntry, int64, st.integers(-(2**15), 2**15 - 1), int32, int32, int64)

links = st.builds(
    LinkRecord,
    name=names,
    link_id=int64,
    source_cluster_id=texts,
    client=mappings,
    configs=mappings,
    created_ms=int64,
    registries=mappings,
)
ends = st.lists(int64, max_size=4).map(tuple)
both_ends = st.lists(st.tuples(int64, int64), max_size=4).map(lambda pairs: tuple(zip(*pairs, strict=True)) or ((), ()))
starts = st.lists(st.builds(PartitionStart, int64, int64), max_size=4).map(tuple)
cutovers = st.builds(
    lambda both, **values: MirrorCutover(stopped_at=both[0], stopped_copy_at=both[1], **values),
    both_ends,
    pause_epoch=int64,
    at_ms=int64,
    producers=st.lists(st.lists(entries, max_size=3).map(tuple), max_size=3).map(tuple),
    not_mirrored=ends,
    source_answered=st.booleans(),
    promoted_with=st.lists(names, max_size=2).map(tuple),
    retries_unknown=ends,
)
failbacks = st.builds(
    lambda both, **values: MirrorFailback(handed_over_at=both[0], handed_over_from=both[1], **values),
    both_ends,
    direction=st.sampled_from(MirrorDirection),
    epoch=int64,
    reverse_starts=starts,
    then_pause=st.booleans(),
    recreate=mappings,
    cutovers=st.lists(st.builds(Cutover, ends, ends), max_size=2).map(tuple),
)
mirrors = st.builds(
    MirrorRecord,
    link=names,
    source_topic=names,
    mirror_topic=names,
    mirror_id=int64,
    source_topic_id=texts,
    mirror_topic_id=texts,
    state=st.sampled_from(MirrorState),
    state_since_ms=int64,
    mode=st.sampled_from(MirrorMode),
    mode_reason=texts,
    starts=starts,
    error=st.sampled_from(MirrorError),
    error_message=texts,
    cutover=cutovers,
    failback=failbacks,
    restore_configs=mappings,
    readable=st.booleans(),
    upstream=st.lists(st.builds(Upstream, names, names, names, ends), max_size=2).map(tuple),
).map(of_this_version)
groups = st.builds(
    GroupRecord,
    link=names,
    group=st.text(min_size=1, max_size=20),  # a group may be called anything, slashes too
    state=st.sampled_from(GroupState),
    state_since_ms=int64,
    offsets=st.lists(st.builds(CarriedOffset, names, int64, int64, int64, texts), max_size=4).map(tuple),
    error_message=texts,
)
records = st.one_of(
    links,
    mirrors,
    groups,
    st.builds(PortRecord, int64, int64),
    st.builds(SequenceRecord, names, int64),
    st.builds(OriginRecord, int64, names, names, int64),
    st.builds(FailbackEpochRecord, mirror_topic=names, epoch=int64, source_topic=names, on_target=st.booleans()),
    st.builds(
        SchemaRecord,
        link=names,
        link_id=int64,
        subject=st.text(min_size=1, max_size=20),
        entries=st.lists(st.builds(SchemaEntry, int64, int64, int64, int64, st.booleans()), max_size=3).map(tuple),
        level=texts,
        imports=st.booleans(),
    ),
)


@given(records)
def test_round_trip(record):
    assert decode(key_of(record), encode(record)) == record


@given(records, st.dictionaries(names.map(lambda name: f"x.{name}"), st.integers()))
def test_unknown_fields_are_ignored(record, more):
    body = json.loads(encode(record)) | more

    assert decode(key_of(record), json.dumps(body).encode()) == record


@given(mirrors)
def test_longer_arrays_of_a_later_version_are_read_by_what_is_known(mirror):
    body = json.loads(encode(mirror))
    body["starts"] = [[*start, "later"] for start in body["starts"]]

    assert decode(key_of(mirror), json.dumps(body).encode()) == mirror


@given(mirrors)
def test_missing_fields_get_their_default(mirror):
    body = json.loads(encode(mirror))
    del body["readable"], body["producers"]

    assert decode(key_of(mirror), json.dumps(body).encode()) == changed(mirror, readable=False, producers=())


@given(st.sampled_from(["link/a", "mirror/a/b", "group/a/b", "port/1", "sequence/s"]), st.binary())
def test_garbage_is_a_format_error_that_names_the_key(key, value):
    with pytest.raises(StateFormatError, match=key):
        decode(key, value)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | texts, lambda s: st.lists(s) | st.dictionaries(texts, s))
)
def test_other_json_is_a_format_error(value):
    with pytest.raises(StateFormatError):
        decode("link/a", json.dumps(value).encode())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("link_id", "1"),
        ("link_id", True),
        ("client", ["a"]),
        ("client", {"a": 1}),
        ("name", None),
    ],
)
def test_a_value_of_the_wrong_type_is_a_format_error(field, value):
    link = LinkRecord(name="a", link_id=1, source_cluster_id="S", client={})
    body = json.loads(encode(link)) | {field: value}

    with pytest.raises(StateFormatError, match="link/a"):
        decode("link/a", json.dumps(body).encode())


def test_a_missing_required_field_is_named():
    with pytest.raises(StateFormatError, match="node_id"):
        decode("port/1", b'{"v":1,"port":9293}')


def test_an_unknown_state_is_a_format_error():
    mirror = MirrorRecord(link="a", source_topic="b", mirror_topic="b", mirror_id=1)
    body = json.loads(encode(mirror)) | {"state": "LEVITATING"}

    with pytest.raises(StateFormatError, match="LEVITATING"):
        decode("mirror/a/b", json.dumps(body).encode())


def test_a_newer_version_is_refused():
    body = json.loads(encode(PortRecord(1, 2))) | {"v": VERSION + 1}

    with pytest.raises(StateFormatError, match="newer lockgate"):
        decode("port/1", json.dumps(body).encode())


def test_a_value_under_the_wrong_key_is_refused():
    with pytest.raises(StateFormatError, match="port/2"):
        decode("port/2", encode(PortRecord(1, 2)))


@pytest.mark.parametrize("key", ["writer", "lease/x", "", "links/a"])
def test_other_kinds_are_skipped(key):
    assert decode(key, b"anything") is None


def test_what_an_older_version_wrote_is_read_in_the_words_of_this_one():
    """It left out the copy's ends where offsets are equal, and did not lengthen lists with the topic."""
    starts = (PartitionStart(0, 0),) * 2
    base = MirrorRecord(link="a", source_topic="b", mirror_topic="b", mirror_id=1, starts=starts)
    once = json.loads(encode(base)) | {"stopped_at": [5, 6]}
    stopped = decode("mirror/a/b", json.dumps(once).encode())
    assert stopped == changed(base, stopped_at=(5, 6), stopped_copy_at=(5, 6))
    grown = decode("mirror/a/b", encode(changed(base, handed_over_at=(5,), handed_over_from=(4,), producers=((),))))
    assert grown == changed(base, handed_over_at=(5, 0), handed_over_from=(4, 0), producers=((), ()))


@pytest.mark.parametrize(
    "lost",
    [
        {"handed_over_at": (5, 6)},
        {"handed_over_at": (5, 6), "handed_over_from": (4,)},
        {"stopped_copy_at": (1,)},
        {"stopped_at": (1, 2), "stopped_copy_at": (1,)},
    ],
)
def test_a_cutover_that_is_there_by_halves_is_a_format_error(lost):
    """As one was once written that had taken "not here" for an answer: nothing is guessed."""
    base = MirrorRecord(link="a", source_topic="b", mirror_topic="b", mirror_id=1, mode=MirrorMode.TRANSLATE)
    body = json.loads(encode(base)) | lost
    with pytest.raises(StateFormatError, match="mirror/a/b.*belong together"):
        decode("mirror/a/b", json.dumps(body).encode())


def test_a_cutover_cannot_be_built_by_halves():
    with pytest.raises(ValueError, match="stopped_at has 2 entries, stopped_copy_at 1"):
        MirrorCutover(stopped_at=(1, 2), stopped_copy_at=(1,))
    with pytest.raises(ValueError, match="handed_over_at has 0 entries, handed_over_from 1"):
        MirrorFailback(handed_over_from=(1,))


def test_parts_of_a_mirror_stand_beside_its_own_fields():
    body = json.loads(encode(changed(MIRROR, failback_epoch=2, cutover_ms=7, stopped_at=(5,))))
    assert (body["failback_epoch"], body["cutover_ms"], body["stopped_at"]) == (2, 7, [5])
    assert not {"cutover", "failback", "epoch", "at_ms"} & set(body)


def test_values_are_small():
    """A promoted topic may carry thousands of these: one must stay well under 100 bytes."""
    entry = ProducerEntry(2**49 + 1234, 3, 1_000_000, 1_000_100, 123_456_789)
    mirror = MirrorRecord(link="a", source_topic="b", mirror_topic="b", mirror_id=1)

    grown = len(encode(changed(mirror, producers=((entry,) * 100,)))) - len(encode(mirror))

    assert grown < 60 * 100


def test_a_mirror_of_before_there_were_failbacks_goes_forward():
    old = b'{"v":1,"link":"l","source_topic":"t","mirror_topic":"t","mirror_id":1,"state":"STOPPED","stopped_at":[5]}'
    record = decode("mirror/l/t", old)
    assert isinstance(record, MirrorRecord)
    assert (record.failback.direction, record.failback.epoch, record.is_reverse) == (MirrorDirection.FORWARD, 0, False)
    assert decode("mirror/l/t", encode(record)) == record


def test_a_migration_survives_with_its_journal():
    entry = JournalEntry(5, "CREATE_MIRROR", "billing", ("orders", "payments"), "ann", "why", 31)
    record = MigrationRecord(name="west", link="l", file='{"a":1}', state=MigrationState.PAUSED, journal=(entry,))
    assert key_of(record) == "migration/west"
    assert decode("migration/west", encode(record)) == record


def test_numbers_of_a_mapping_come_back_as_numbers():
    record = MigrationRecord(name="west", link="l", file="{}", rehearsed={"billing": 1_700_000_000_123})
    assert decode("migration/west", encode(record)) == record
    assert b'"1700000000123"' in encode(record)  # as older versions read it
    with pytest.raises(StateFormatError):
        decode("migration/west", encode(record).replace(b"1700000000123", b"soon"))


def test_a_journal_keeps_the_newest_and_counts_the_others():
    record = MigrationRecord(name="west", link="l", file="{}")
    for number in range(JOURNAL + 3):
        record = record.noted(JournalEntry(number, "X"))
    assert (len(record.journal), record.journal_dropped, record.journal[0].at_ms) == (JOURNAL, 3, 3)
