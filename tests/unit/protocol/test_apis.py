"""The API table against kio's and against what the gateway promises to keep off its hot path."""

import pytest

from protocol.apis import ADVERTISED, APIS, ApiKey, api_name, is_supported
from tests.unit.protocol import oracle

# Between brokers and controllers only: no client listener serves them.
INTERNAL = {4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}


def test_every_api_of_kafka_that_clients_may_use_is_there() -> None:
    assert set(APIS) == set(oracle.packages()) - INTERNAL
    assert set(APIS) == {int(key) for key in ApiKey}


@pytest.mark.parametrize("key", sorted(APIS), ids=api_name)
def test_names_versions_and_flexibility_are_kios(key: int) -> None:
    api = APIS[key]
    versions = oracle.versions(key)
    assert (api.min_version, api.max_version) == (versions[0], versions[-1])
    assert oracle.entity(key, versions[0], "request").__name__ == api.name + "Request"
    flexible = [v for v in versions if oracle.entity(key, v, "request").__flexible__]
    assert api.flexible_from == (flexible[0] if flexible else None)
    assert flexible == [v for v in versions if api.flexible_from is not None and v >= api.flexible_from]


def test_what_is_advertised_is_within_the_table() -> None:
    for key, (low, high) in ADVERTISED.items():
        assert high <= APIS[key].max_version
        assert low >= APIS[key].min_version or key == ApiKey.PRODUCE
        assert low <= high


@pytest.mark.parametrize(
    ("key", "version", "leak"),
    [
        (ApiKey.PRODUCE, 10, "node endpoints"),
        (ApiKey.PRODUCE, 12, "transactions v2"),
        (ApiKey.FETCH, 16, "node endpoints"),
        (ApiKey.OFFSET_COMMIT, 10, "topic ids"),
        (ApiKey.OFFSET_FETCH, 10, "topic ids"),
        (ApiKey.API_VERSIONS, 5, "node id"),
        (ApiKey.DESCRIBE_QUORUM, 2, "controller addresses"),
        (ApiKey.END_TXN, 5, "transactions v2"),
        (ApiKey.TXN_OFFSET_COMMIT, 5, "transactions v2"),
        (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, "telemetry"),
        (ApiKey.SASL_HANDSHAKE, 0, "tokens without headers"),
    ],
)
def test_what_would_leak_is_not_served(key: int, version: int, leak: str) -> None:
    assert not is_supported(key, version), leak


def test_what_is_served() -> None:
    assert is_supported(ApiKey.PRODUCE, 3)
    assert is_supported(ApiKey.PRODUCE, 9)
    assert not is_supported(ApiKey.PRODUCE, 2)  # advertised, but no broker has had it since 4.0
    assert is_supported(ApiKey.METADATA, 0)
    assert not is_supported(ApiKey.METADATA, 14)
    assert not is_supported(999, 0)
    assert ADVERTISED[ApiKey.PRODUCE][0] == 0


def test_names() -> None:
    assert api_name(3) == "Metadata"
    assert api_name(999) == "Api999"
