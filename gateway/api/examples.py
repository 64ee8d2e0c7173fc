"""What a body of a request looks like: one example each, which `/openapi.json` and `/docs` show.

By the name of the model. `tests/unit/api/test_examples.py` reads each by its model, and misses none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from fastapi import FastAPI

_App = TypeVar("_App", bound=FastAPI)

SERVERS: Final = (
    {"url": "/", "description": "the gateway that tells this; any of the fleet answers"},
    {"url": "http://127.0.0.1:8642", "description": "a gateway of this machine, as it listens by default"},
)
_TOPICS: Final = {"mirror_topic_names": ["orders", "payments"]}
_CONFIGS: Final = [{"name": "bootstrap.servers", "value": "source-1:9092,source-2:9092"}]
_MIRROR: Final = {"source_topic_name": "orders", "mirror_topic_name": "orders"}
_LATER: Final = {"data": [{"name": "failback.keep.ms", "value": "86400000"}]}

EXAMPLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "CreateLink": {"link_name": "west", "configs": _CONFIGS},
    "AlterConfigs": _LATER,
    "ConfigValue": {"value": "86400000"},
    "CreateMirror": {**_MIRROR, "start": "earliest", "configs": [{"name": "retention.ms", "value": "604800000"}]},
    "MirrorNames": _TOPICS,
    "PromoteMirror": {"mirror_direction": "FORWARD"},
    "AlterMirrors": {**_TOPICS, "group_names": ["billing"], "mirror_direction": "FORWARD"},
    "RehearsePromote": {**_TOPICS, "bound_ms": 500},
    "ReverseMirrors": _TOPICS,
    "UndoNames": {**_TOPICS, "group_names": ["billing"], "keep_late_writes": False},
    "RepairMirror": {"action": "resume"},
    "ForceOption": {"force": False},
    "CreateGroup": {"group": "billing"},
    "RemoveMembers": {"member_ids": ["billing-1-0b7e"], "force": False},
    "ApplyUsers": {"users": ["alice"], "credentials": []},
    "ApplyQuotas": {"factor": 1.0, "overwrite": False},
    "SyncSchemas": {"ids": [42]},
    "PromoteSchemas": {"force": False},
    "ReportCatchUp": {"by": "spark-1", "state": "running", "topics": []},
    "MigrationFile": {
        "migration": "west",
        "link": "west",
        "applications": [{"name": "shop", "topics": ["orders", "payments"], "groups": ["billing"]}],
        "failback_keep": "24h",
    },
    "MigrationText": {"text": "{migration: west, link: west, applications: [{name: shop, topics: [orders]}]}"},
    "CreateLinkRequest": {"configs": _CONFIGS},
    "AlterConfigsRequest": _LATER,
    "CreateMirrorRequest": _MIRROR,
    "AlterMirrorsRequest": _TOPICS,
}


def with_examples(app: _App) -> _App:
    """The application, whose description has them."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        found: dict[str, Any] = described()
        schemas = found.get("components", {}).get("schemas", {})
        for name, example in EXAMPLES.items():
            if name in schemas:
                schemas[name]["examples"] = [example]
        return found

    app.openapi = openapi  # type: ignore[method-assign]
    return app
