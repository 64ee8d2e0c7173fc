"""What refuses many groups says the same as if they were decoded."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body
from protocol.errors import MalformedFrame
from protocol.messages import OffsetFetchRequest
from protocol.offset_fetch import refused

KIND = OffsetFetchRequest.OffsetFetchRequestGroup
NAMES = st.text(max_size=200)
MOST = 1_000
TOPICS = st.none() | st.dictionaries(NAMES, st.lists(st.integers(0, 2**31 - 1), max_size=3), max_size=3)


def request(version: int, groups: list[tuple[str, dict[str, list[int]] | None]]) -> bytes:
    asked = []
    for group, topics in groups:
        named = topics and [
            KIND.OffsetFetchRequestTopics(name=name, partition_indexes=parts) for name, parts in topics.items()
        ]
        asked.append(KIND(group_id=group, member_id="m" if group else None, member_epoch=7, topics=named or topics))
    for each in asked:
        if isinstance(each.topics, dict):
            each.topics = []
    return encode_body(OffsetFetchRequest(groups=asked, require_stable=True), version)


@given(st.sampled_from([8, 9]), st.lists(st.tuples(NAMES, TOPICS), max_size=5))
def test_each_group_has_the_error(version: int, groups: list[tuple[str, dict[str, list[int]] | None]]) -> None:
    body = refused(request(version, groups), version, 42, MOST)
    answer = decode_response(ApiKey.OFFSET_FETCH, version, body)
    assert answer.throttle_time_ms == 0
    assert [(each.group_id, each.topics, each.error_code) for each in answer.groups] == [(g, [], 42) for g, _ in groups]
    assert encode_body(answer, version) == body


@given(st.sampled_from([8, 9]), st.lists(st.tuples(NAMES, TOPICS), min_size=1, max_size=3), st.data())
def test_what_is_cut_off_is_malformed(
    version: int, groups: list[tuple[str, dict[str, list[int]] | None]], data: st.DataObject
) -> None:
    body = request(version, groups)[:-2]  # without require_stable and its tags
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(MalformedFrame):
        refused(body[:cut], version, 42, MOST)


@given(st.binary(max_size=100))
def test_garbage_is_malformed_or_an_answer(garbage: bytes) -> None:
    with suppress(MalformedFrame):
        decode_response(ApiKey.OFFSET_FETCH, 9, refused(garbage, 9, 42, MOST))


@pytest.mark.parametrize(("groups", "topics"), [(11, 0), (1, 10), (5, 2)])
def test_no_more_is_looked_at_than_is_said(groups: int, topics: int) -> None:
    asked = [(f"g{number}", {f"t{topic}": [0] for topic in range(topics)}) for number in range(groups)]
    body = request(8, [(name, named or None) for name, named in asked])
    assert refused(body, 8, 42, groups + groups * topics)
    with pytest.raises(MalformedFrame):
        refused(body, 8, 42, groups + groups * topics - 1)
