"""The gateway's ApiVersions answer: what a broker offers, cut to what the gateway can serve."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from protocol.api_versions import gateway_response, unsupported_version_response
from protocol.apis import ADVERTISED, ApiKey
from protocol.codec import decode_response, encode_body
from protocol.messages import ApiVersionsResponse
from tests.unit.protocol import oracle

KEY = ApiKey.API_VERSIONS
VERSIONS = range(5)


def broker_response(ranges: dict[int, tuple[int, int]], **fields: Any) -> ApiVersionsResponse:
    api = ApiVersionsResponse.ApiVersion
    keys = [api(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()]
    return ApiVersionsResponse(error_code=0, api_keys=keys, **fields)


def offered(ranges: dict[int, tuple[int, int]], version: int = 3) -> dict[int, tuple[int, int]]:
    body = gateway_response(encode_body(broker_response(ranges), version), version)
    read = decode_response(KEY, version, body)
    return {api.api_key: (api.min_version, api.max_version) for api in read.api_keys}


@pytest.mark.parametrize("version", VERSIONS)
def test_ranges_are_intersected(version: int) -> None:
    assert offered({0: (0, 13), 1: (4, 18), 3: (0, 13), 18: (0, 5)}, version) == {
        0: (0, 9),
        1: (4, 15),
        3: (0, 13),
        18: (0, 4),
    }


def test_an_old_broker_keeps_its_lower_maximum() -> None:
    assert offered({0: (0, 7), 1: (0, 11), 8: (0, 7)}) == {0: (0, 7), 1: (4, 11), 8: (2, 7)}


def test_produce_is_shown_from_version_0_on_whatever_the_broker_says() -> None:
    assert offered({0: (3, 13)}) == {0: (0, 9)}


def test_keys_that_are_hidden_unknown_or_without_a_common_version_are_left_out() -> None:
    assert offered({84: (0, 0), 71: (0, 0), 52: (0, 2), 999: (0, 1), 1: (16, 18), 12: (0, 4)}) == {12: (0, 4)}


@pytest.mark.parametrize("version", [3, 4])
def test_transactions_v2_is_hidden_and_other_features_stay(version: int) -> None:
    supported, final = ApiVersionsResponse.SupportedFeatureKey, ApiVersionsResponse.FinalizedFeatureKey
    message = broker_response(
        {},
        throttle_time_ms=5,
        finalized_features_epoch=77,
        supported_features=[
            supported(name="transaction.version", min_version=0, max_version=2),
            supported(name="group.version", min_version=0, max_version=1),
        ],
        finalized_features=[
            final(name="transaction.version", max_version_level=2, min_version_level=2),
            final(name="metadata.version", max_version_level=29, min_version_level=29),
        ],
    )
    body = gateway_response(encode_body(message, version), version)
    theirs = oracle.decode(oracle.entity(KEY, version, "response"), body)
    assert [feature.name for feature in theirs.supported_features] == ["group.version"]
    assert [(f.name, f.max_version_level) for f in theirs.finalized_features] == [("metadata.version", 29)]
    assert theirs.finalized_features_epoch == 77
    assert theirs.throttle_time.total_seconds() == 0.005


@pytest.mark.parametrize("version", VERSIONS)
@oracle.PER_VERSION
@given(data=st.data())
def test_any_broker_answer_gives_a_valid_one(version: int, data: st.DataObject) -> None:
    theirs = data.draw(oracle.instances(KEY, version, "response"))
    assume(theirs.error_code != 35)  # told in version 0, see the next test
    ours = oracle.decode(oracle.entity(KEY, version, "response"), gateway_response(oracle.encode(theirs), version))
    assert ours.error_code == theirs.error_code
    for api in ours.api_keys:
        assert api.api_key in ADVERTISED
        assert api.max_version <= ADVERTISED[api.api_key][1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_by_an_old_broker_stays_one(version: int) -> None:
    own = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)
    refusal = encode_body(ApiVersionsResponse(error_code=35, api_keys=[own]), 0)
    assert gateway_response(refusal, version) == refusal


def test_the_answer_to_a_version_from_the_future() -> None:
    framed = unsupported_version_response(42)
    assert framed[:8] == (len(framed) - 4).to_bytes(4, "big") + (42).to_bytes(4, "big")
    theirs = oracle.decode(oracle.entity(KEY, 0, "response"), framed[8:])
    assert theirs.error_code == 35
    assert [(k.api_key, k.min_version, k.max_version) for k in theirs.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_broken_bodies_raise_nothing_else(version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(KEY, version, "response")))
    oracle.only_malformed(gateway_response, data.draw(oracle.mutations(body)), version)
