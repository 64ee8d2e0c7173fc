"""docs/reference/states.md, from the table of a mirror's states: `python -m tests.support.pages.states_page`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from gateway.state.mirror_states import is_mirroring
from gateway.state.mirror_transitions import BY_OPERATION, CREATED, TRANSITIONS, WAYS_OUT, WHO, Transition
from gateway.state.records import MirrorState

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "states.md"
_HEAD = """# States of a mirror topic

Read this when `mirror describe` shows a state, and you want to know how it came there and how it leaves it.

Written from `gateway/state/mirror_transitions.py` by `python -m tests.support.pages.states_page`: change it there.

The states have Confluent's names. A mirror goes one of two ways: FORWARD, from the source to the target, and REVERSE,
back to the source. An operator creates it {created}; it ends with its link, or by `mirror delete`. Every change
of state is one of these, made by the gateway that leads: the store writes no other one.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD.format(created=" ".join(each.value for each in CREATED))
    yield "| in state | happens | by | then | that is |"
    yield "|---|---|---|---|---|"
    for state in MirrorState:
        for row in TRANSITIONS:
            if row.before is state:
                yield _row(row)
    yield ""
    mirroring = ", ".join(state.value for state in MirrorState if is_mirroring(state))
    yield f"Records are mirrored in: {mirroring}; while the link is paused all of these show PAUSED, and none is."
    yield from _ways_out()


def _ways_out() -> Iterator[str]:
    yield ""
    yield "## The way out"
    yield ""
    yield "| in state | because | the way out | then |"
    yield "|---|---|---|---|"
    for state, (because, ways) in WAYS_OUT.items():
        for operation, how in ways:
            yield f"| {state.value} | {because} | {how} | {BY_OPERATION[operation, state].after.value} |"


def _row(row: Transition) -> str:
    before = row.before.value if row.only is None else f"{row.before.value}, {row.only.value}"
    after = row.after.value if row.turns is None else f"{row.after.value}, {row.turns.value}"
    who = " or ".join(each.value for each in WHO[row.operation])
    return f"| {before} | {row.operation.value} | {who} | {after} | {row.meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} is written\n")
