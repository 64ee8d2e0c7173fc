"""The configs of a link as anybody is told them: one list, whatever an API calls its fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.errors import NotFound
from gateway.links.links import LinkView
from gateway.links.rules.update import FIXED
from gateway.operations.secrets.rules.references import REDACTED, SECRETS
from gateway.state.link_config import canonical, synonyms


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConfig:
    """One config of a link. `given`: somebody set it, so it is not a default. `fixed`: it cannot be changed.

    `value` of a `secret` is hidden, or a reference. `synonyms`: other names under which it may be given.
    """

    name: str
    value: str
    given: bool
    fixed: bool
    secret: bool
    synonyms: Sequence[str]


def shown_configs(view: LinkView) -> list[ShownConfig]:
    """Of a link, by name: the client properties that are set, and every option."""
    given = {*view.client, *canonical(view.record.configs)}
    return [
        ShownConfig(
            name=name,
            value=value,
            given=name in given,
            fixed=name in FIXED,
            secret=name in SECRETS or value == REDACTED,
            synonyms=synonyms(name),
        )
        for name, value in sorted({**view.client, **view.configs}.items())
    ]


def shown_config(view: LinkView, name: str) -> ShownConfig:
    """The one of this name, or of which it is a synonym.

    Raises:
        NotFound: there is none.
    """
    for one in shown_configs(view):
        if name in (one.name, *one.synonyms):
            return one
    raise NotFound(f"link '{view.record.name}' has no config '{name}'")
