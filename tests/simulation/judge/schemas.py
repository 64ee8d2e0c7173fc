"""Whether the target's registry has the versions of the source's, and what is its own still as it was. Pure.

Said anew here, not asked of the product: a subject in which a client of the target has registered is the target's own.
Of it nothing is overwritten nor deleted, and clients may register there. Each other one is as on the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Version: TypeAlias = tuple[int, Any, bool]
"""(id, what the id means, soft-deleted)."""
Content: TypeAlias = Mapping[str, Mapping[int, Version]]
"""Subject -> version."""


def wrong_schemas(
    source: Content, target: Content, theirs: Mapping[tuple[str, int], Version], modes: Mapping[str, str]
) -> Iterator[str]:
    """A line each.

    Args:
        theirs: what clients of the target have registered there, by subject and version.
        modes: of the target's subjects that have one of their own.
    """
    own = {subject for subject, _ in theirs}
    for (subject, number), version in sorted(theirs.items()):
        found = target.get(subject, {}).get(number)
        if found != version:
            yield f"version {number} of {subject}, which a client has registered, was {version} and is {found}"
    for subject in sorted(own):
        of_link = target.get(subject, {}).keys() - {number for name, number in theirs if name == subject}
        if not of_link and modes.get(subject) == "IMPORT":
            yield f"{subject} is the target's own, and takes no registration: its mode is IMPORT"
    for subject in sorted(source.keys() - own):
        for number, version in sorted(source[subject].items()):
            found = target.get(subject, {}).get(number)
            if found != version:
                yield f"version {number} of {subject} is {version} on the source, and {found} on the target"
    for subject in sorted(target.keys() - source.keys() - own):
        yield f"{subject} is on the target, and nobody has registered it"
