"""Entries that are refused here: taken out, put back in their places, and never more than are worth the time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.rules.refusals import MOST_IN_PART, Refusal, merged, parts_of, taken
from protocol.errors import MalformedFrame
from protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse


@given(st.lists(st.integers(0, 9)))
def test_what_was_taken_comes_back_to_its_place(entries: list[int]) -> None:
    rest = list(entries)
    found, places = taken(rest, lambda entry: entry < 4)
    assert (found, rest) == ([e for e in entries if e < 4], [e for e in entries if e >= 4])
    answer = merged(SimpleNamespace(entries=rest), Refusal(SimpleNamespace(entries=found), "entries", places))
    assert answer.entries == entries


def test_many_entries_are_fine_while_none_is_refused() -> None:
    entries = list(range(MOST_IN_PART + 1))
    assert taken(entries, lambda _: False) == ([], [])
    with pytest.raises(MalformedFrame, match="1001 entries, of which some are refused: at most 1000"):
        taken(entries, lambda entry: entry == 7)
    del entries[0]
    assert taken(entries, lambda entry: entry == 7) == ([7], [6])


def test_so_are_the_parts_of_one_entry() -> None:
    request = DeleteRecordsRequest.DeleteRecordsTopic
    part = request.DeleteRecordsPartition
    refuse, kind = parts_of(29), DeleteRecordsResponse.DeleteRecordsTopicResult
    parts = [part(partition_index=index, offset=1) for index in range(MOST_IN_PART)]
    answered = refuse(kind, request(name="t", partitions=parts))
    assert [each.partition_index for each in answered.partitions] == list(range(MOST_IN_PART))
    with pytest.raises(MalformedFrame, match="of which some are refused"):
        refuse(kind, request(name="t", partitions=[*parts, parts[0]]))
