"""Whether a subject of the target still is what a change was decided from. Pure.

No registry compares and sets. What there is instead, by the rules of Confluent's:

* In mode IMPORT a subject takes no registration without an id, so none of a client; in any other mode none with one.
  The registry orders both kinds: what a client has registered before the mode was set, whoever sees the mode sees, too.
  So behind a mode that is *read back* as IMPORT the versions that are there are all that clients have registered.
* A soft delete of the last active version takes the subject's mode away. So the mode is read before each registration.
* IMPORT with `force`, which a subject with versions needs, asks for nothing; without it a subject that has got active
  versions meanwhile is refused.
* A registration in IMPORT overwrites a version of its number, whatever it is; an id that means another schema is
  refused.

What is left is another importer, which registers with ids as well. It is seen between two registrations, not within
one: there is one importer of a subject, as a rule for operators (docs/schemas.md).
"""

from __future__ import annotations

from collections.abc import Collection

from gateway.schemas.rules.model import IMPORT


def why_not_imported(mode: str, there: Collection[int], known: Collection[int]) -> str:
    """Why no version may be imported into a subject; "" when it may.

    Args:
        mode: of the subject, now.
        there: numbers of the versions that it has now, read behind the mode.
        known: those that the decision has seen there, and those that the link has registered since.
    """
    if mode != IMPORT:
        return f"its mode is {mode or 'not its own'} and not {IMPORT}, so clients may register there"
    return why_not_as_seen(there, known)


def why_not_as_seen(there: Collection[int], known: Collection[int]) -> str:
    """Why what was decided does not hold any more: somebody has registered meanwhile; "" when nobody has."""
    strange = sorted(set(there) - set(known))
    return f"version {strange[0]} came to it since it was looked at, and is not the link's" if strange else ""
