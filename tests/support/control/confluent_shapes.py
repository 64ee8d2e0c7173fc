"""The shapes of Confluent's answers about links and mirrors, as a client that takes nothing else reads them.

Field -> what its value may be, None where it may be null. A field that is not listed must not be there: clients that
are generated from a description may refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

METADATA: Final = {"self": str, "resource_name": None}
LIST_METADATA: Final = {"self": str, "next": None}
LAG: Final = {"partition": int, "lag": int, "last_source_fetch_offset": int}
ERROR: Final = {"error_code": str, "error_message": str}
LINK: Final = {
    "kind": "KafkaLinkData",
    "metadata": METADATA,
    "source_cluster_id": str,
    "destination_cluster_id": None,
    "remote_cluster_id": None,
    "link_name": str,
    "link_id": str,
    "cluster_link_id": str,
    "topic_names": [str],
    "link_error": str,
    "link_error_message": (str, None),
    "link_state": str,
    "tasks": ([{"task_name": str, "state": str, "errors": [ERROR]}], None),
    "category_counts": [{"state_category": str, "count": int}],
}
CONFIG: Final = {
    "kind": "KafkaLinkConfigData",
    "metadata": METADATA,
    "cluster_id": str,
    "link_name": str,
    "name": str,
    "value": str,
    "is_default": bool,
    "is_read_only": bool,
    "is_sensitive": bool,
    "source": "DYNAMIC_CLUSTER_LINK_CONFIG",
    "synonyms": [str],
}
MIRROR: Final = {
    "kind": "KafkaMirrorData",
    "metadata": METADATA,
    "link_name": str,
    "mirror_topic_name": str,
    "source_topic_name": str,
    "num_partitions": int,
    "mirror_lags": [LAG],
    "mirror_status": str,
    "mirror_topic_error": str,
    "state_time_ms": int,
}
MIRROR_WITH_ERRORS: Final = {**MIRROR, "mirror_state_transition_errors": [ERROR]}
ALTERED: Final = {
    "kind": "AlterMirrorsData",
    "metadata": METADATA,
    "mirror_topic_name": str,
    "error_code": (int, None),
    "error_message": (str, None),
    "mirror_lags": [LAG],
    "messages_truncated": (int, None),
    "partition_level_truncation_data": [{"partition_id": int, "offset_truncated_to": int, "messages_truncated": int}],
}


def list_of(kind: str, each: Mapping[str, Any]) -> Mapping[str, Any]:
    """A list's shape."""
    return {"kind": kind, "metadata": LIST_METADATA, "data": [each]}


def assert_shape(found: Any, shape: Any, where: str = "body") -> None:
    """Fails naming the first field that is otherwise."""
    if isinstance(shape, tuple):
        if found is None:
            assert None in shape, where
            return
        shape = next(each for each in shape if each is not None)
    if isinstance(shape, Mapping):
        assert isinstance(found, dict), where
        assert found.keys() == shape.keys(), (where, found.keys() ^ shape.keys())
        for name, each in shape.items():
            assert_shape(found[name], each, f"{where}.{name}")
    elif isinstance(shape, list):
        assert isinstance(found, list), where
        for index, one in enumerate(found):
            assert_shape(one, shape[0], f"{where}[{index}]")
    elif isinstance(shape, type):
        assert type(found) is shape, (where, found)
    else:
        assert found == shape, (where, found)
