"""What others may import of lockgate, and where its command begins: `lockgate.spark`, `lockgate.command`.

The code is in two packages beside this one, `gateway` and `protocol`. Their names are common words: another
distribution may bring a package of the same name. Python imports whichever comes first on its path, and pip lets one
overwrite the other in one environment. This package has a name of its own, and checks both before it uses anything of
them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "lockgate"
PACKAGES: Final = ("gateway", "protocol")
"""Of this distribution, beside this package."""


class HiddenPackage(ImportError):
    """Python would import somebody else's package in the place of one of lockgate's."""


def require_own_packages() -> None:
    """Look where Python would import lockgate's packages from, and whose they are. None from elsewhere is imported.

    Raises:
        HiddenPackage: one is not there, another distribution's is found first, or has overwritten it. One line, with
            the remedy.
    """
    here = Path(__file__).parents[1]
    for name in PACKAGES:
        found = find_spec(name)
        places = [] if found is None else list(found.submodule_search_locations or [found.origin or ""])
        if here / name not in map(Path, places):
            where = places[0] if places else "nowhere"
            raise HiddenPackage(_told(name, f"is hidden by another one of that name ({where})"))
        if getattr(import_module(name), "DISTRIBUTION", None) != DISTRIBUTION:
            raise HiddenPackage(_told(name, f"was overwritten by another distribution's ({here / name})"))


def _told(name: str, what: str) -> str:
    remedy = "install lockgate into an environment of its own, with `python3 -m venv` or pipx"
    return f"lockgate's package '{name}' {what}: {remedy}"
