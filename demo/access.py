"""How the demo itself reaches a cluster, beside its bootstrap address."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Access = Mapping[str, str]
"""Client properties of librdkafka."""

IN_CLEAR: Access = MappingProxyType({})
