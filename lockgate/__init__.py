"""What others may import of lockgate, and where its command begins: `lockgate.spark`, `lockgate.command`.

The code is in two packages beside this one, `gateway` and `protocol`. Their names are common words: another
distribution may bring a package of the same name, and Python imports whichever comes first on its path. This package
has a name of its own, and checks where the two would come from before it imports anything from them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("gateway", "protocol")
"""Of this distribution, beside this package."""


class HiddenPackage(ImportError):
    """Python would import somebody else's package in the place of one of lockgate's."""


def require_own_packages() -> None:
    """Look where Python would import lockgate's packages from. Nothing of them is imported.

    Raises:
        HiddenPackage: one is not there, or another distribution's is found first. One line, with the remedy.
    """
    here = Path(__file__).parents[1]
    for name in PACKAGES:
        found = find_spec(name)
        places = [] if found is None else list(found.submodule_search_locations or [found.origin or ""])
        if here / name not in map(Path, places):
            where = places[0] if places else "nowhere"
            raise HiddenPackage(
                f"lockgate's package '{name}' is hidden by another one of that name ({where}): install lockgate into "
                "an environment of its own, with `python3 -m venv` or pipx"
            )
