"""The two registries: Apicurio, as Maven has it, on the source's side; and one that keeps ids on the target's.

Keeping ids takes a registry with mode IMPORT. Confluent's is not in Maven Central, and Apicurio says IMPORT and gives
ids of its own. So the target's is the strict registry of the tests, which goes by Confluent's rules; the demo says so.
It is served by this process.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from demo.carry.registry import Registry
from demo.process import Child
from gateway.devcluster import claim_ports
from tests.support.registries import apicurio
from tests.support.registries.served import served
from tests.support.registries.strict_registry import StrictRegistry

SOURCE_KIND: Final = f"Apicurio {apicurio.V2}"
TARGET_KIND: Final = "a strict registry of the tests with mode IMPORT"
_ARTIFACT: Final = "apicurio-registry-app"


def fetch() -> None:
    """Have Maven bring the source's registry, unless it is there."""
    apicurio.home(_ARTIFACT, apicurio.V2)


class Registries:
    """`source` and `target` as clients see them. `log_folder`: of what the source's prints."""

    def __init__(self, log_folder: Path) -> None:
        ports = claim_ports(2)
        command, environment = apicurio.start_of(apicurio.V2, apicurio.home(_ARTIFACT, apicurio.V2), ports)
        self._child: Child | None = Child("registry", command, log_folder, environment)
        self._open = ExitStack()
        self._strict = StrictRegistry()
        self.source = Registry(f"http://127.0.0.1:{ports[0]}/apis/ccompat/v7")
        self.target = Registry(self._open.enter_context(served(self._strict)))

    @property
    def offences(self) -> tuple[str, ...]:
        """What no careful client would have asked of the target's registry."""
        return tuple(self._strict.offences)

    def check(self) -> None:
        """Raise DemoError when one of them has ended by itself."""
        if self._child is not None:
            self._child.check_alive()

    def stop(self) -> None:
        """End both; safe to call again."""
        child, self._child = self._child, None
        if child is not None:
            child.end(10.0)
        self.source.close()
        self.target.close()
        self._open.close()
