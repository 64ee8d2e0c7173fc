"""The tables of verbs in docs/reference/cli.md, from `control/verbs.py`: `python -m tests.support.pages.verbs_page`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.control.verbs import VERBS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
PLANS = {"link acls plan": "what the next round of ACL sync would change ([Rights](../guides/access.md))"}


def page(text: str) -> str:
    """The page, with both tables as they should be."""
    for heading, rows in (("## Dry runs", _dry_runs()), ("## Asked again", _asked_again())):
        before, _, rest = text.partition(f"\n{heading}\n")
        lines = rest.split("\n")
        first = lines.index("|---|---|") + 1
        last = next(index for index in range(first, len(lines)) if not lines[index].startswith("|"))
        text = f"{before}\n{heading}\n" + "\n".join([*lines[:first], *rows, *lines[last:]])
    return text


def _dry_runs() -> Iterator[str]:
    """Commands of which the same is said are one row."""
    commands: dict[str, list[str]] = defaultdict(list)
    for name, verb in VERBS.items():
        if verb.dry_run:
            commands[verb.dry_run].append(name)
    for name, told in PLANS.items():
        commands[told].append(name)
    for told, names in commands.items():
        yield f"| {', '.join(f'`{name}`' for name in names)} | {told} |"


def _asked_again() -> Iterator[str]:
    for name, verb in VERBS.items():
        yield f"| {name if name.startswith('`') else f'`{name}`'} | {verb.said} |"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")


if __name__ == "__main__":
    main()
