"""The gateway's own ApiVersions answer (v0-4), made from the target broker's."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from protocol.apis import ADVERTISED, ApiKey
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode
from protocol.header import frame_response
from protocol.messages import ApiVersionsResponse

HIDDEN_FEATURES = frozenset({"transaction.version"})
"""Not shown: with transactions v2 (KIP-890) producers would rely on features that the source may lack."""


@lru_cache(maxsize=16)
def gateway_response(body: bytes, version: int) -> bytes:
    """The broker's ApiVersions response body, cut to what the gateway offers.

    Ranges are intersected with `ADVERTISED`; a key without a common version is left out. Produce is shown from
    version 0 on, as brokers do. Features in `HIDDEN_FEATURES` are dropped, the features' epoch stays the
    broker's. A refusal of the version (a version 0 body, KIP-511) is cut likewise and stays a refusal.
    The last answers are kept: brokers give the same one to every connection.

    Raises:
        MalformedFrame: not such a response.
    """
    response = decode_response(ApiKey.API_VERSIONS, version, body)
    response.api_keys = [kept for offered in response.api_keys if (kept := _intersection(offered)) is not None]
    response.supported_features = _shown(response.supported_features)
    response.finalized_features = _shown(response.finalized_features)
    return encode_body(response, 0 if response.error_code == ErrorCode.UNSUPPORTED_VERSION else version)


def _intersection(offered: Any) -> Any:
    ours = ADVERTISED.get(offered.api_key)
    if ours is None:
        return None
    low, high = max(offered.min_version, ours[0]), min(offered.max_version, ours[1])
    if low > high:
        return None
    if offered.api_key == ApiKey.PRODUCE:
        low = ours[0]
    return ApiVersionsResponse.ApiVersion(api_key=offered.api_key, min_version=low, max_version=high)


def _shown(features: Any) -> list[Any]:
    return [feature for feature in features or () if feature.name not in HIDDEN_FEATURES]


def unsupported_version_response(correlation_id: int) -> bytes:
    """The answer (framed) to an ApiVersions request of a version the gateway does not have (KIP-511).

    It is version 0 with UNSUPPORTED_VERSION and the range of ApiVersions itself, so that the client can ask again.
    """
    low, high = ADVERTISED[ApiKey.API_VERSIONS]
    own = ApiVersionsResponse.ApiVersion(api_key=int(ApiKey.API_VERSIONS), min_version=low, max_version=high)
    response = ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[own])
    return frame_response(ApiKey.API_VERSIONS, 0, correlation_id, encode_body(response, 0))
