"""kafka-python's tables of messages, without the client that they come with.

`protocol/messages.py` takes Kafka's messages from `kafka.protocol`. To import that Python imports `kafka` first, and
with it a whole client: its own sockets, logins and decompression. A gateway has a client of its own, and no use for
what it does not run. So the tables are imported here, once, under a bare package that stands for `kafka` meanwhile.
It is taken away again: whoever wants that client, as tests do, imports it as always.

The image has nothing else of the package (`Dockerfile`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

_PACKAGE: Final = "kafka"
TABLES: Final = ("admin", "api_header", "api_message", "consumer", "metadata", "producer", "sasl")


def load() -> None:
    """Import the tables, unless somebody has imported all of the package."""
    if _PACKAGE in sys.modules:
        return
    spec = find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        return  # whoever needs a table says so
    bare = ModuleType(_PACKAGE)
    bare.__path__ = list(spec.submodule_search_locations)
    sys.modules[_PACKAGE] = bare
    try:
        for table in TABLES:
            import_module(f"{_PACKAGE}.protocol.{table}")
    finally:
        del sys.modules[_PACKAGE]
