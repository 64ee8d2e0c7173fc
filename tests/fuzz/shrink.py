"""Makes a failing conversation small: the fewest steps, then the fewest frames, with which the same is still found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.fuzz.steps import Conversation, Do, Step

_BUDGET = 150
Fails = Callable[[Conversation], bool]


class _Shrinking:
    def __init__(self, fails: Fails, budget: int) -> None:
        self._fails = fails
        self._left = budget

    def still(self, candidate: Conversation) -> bool:
        """Whether it fails, as long as it may be tried."""
        self._left -= 1
        return self._left >= 0 and self._fails(candidate)

    def fewer_steps(self, conversation: Conversation) -> Conversation:
        """By halves first (delta debugging), then one by one."""
        size = max(1, len(conversation.steps) // 2)
        while True:
            at = 0
            while at < len(conversation.steps):
                candidate = conversation.of(conversation.steps[:at] + conversation.steps[at + size :])
                if self.still(candidate):
                    conversation = candidate
                else:
                    at += size
            if size == 1:
                return conversation
            size //= 2

    def simpler(self, conversation: Conversation) -> Conversation:
        """Each step that sends: in one piece, and with fewer frames."""
        for at in range(len(conversation.steps)):
            for make in (_whole, _without_first, _without_last):
                while (step := make(conversation.steps[at])) is not None:
                    candidate = conversation.of((*conversation.steps[:at], step, *conversation.steps[at + 1 :]))
                    if not self.still(candidate):
                        break
                    conversation = candidate
        return conversation


def shrink(conversation: Conversation, fails: Fails, budget: int = _BUDGET) -> Conversation:
    """The smallest found that still fails. `budget`: how often one may be tried."""
    shrinking = _Shrinking(fails, budget)
    return shrinking.simpler(shrinking.fewer_steps(conversation))


def _whole(step: Step) -> Step | None:
    return replace(step, cuts=(), seconds=0.0) if step.do is Do.SEND and step.cuts else None


def _without_first(step: Step) -> Step | None:
    return _of(step, frames(step.data)[1:]) if step.do is Do.SEND else None


def _without_last(step: Step) -> Step | None:
    return _of(step, frames(step.data)[:-1]) if step.do is Do.SEND else None


def _of(step: Step, left: Sequence[bytes]) -> Step | None:
    return replace(step, data=b"".join(left), frames=len(left), cuts=()) if left else None


def frames(data: bytes) -> list[bytes]:
    """Cut at the frames' own sizes; what has none that fits is one piece."""
    found, at = [], 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if size < 0 or at + 4 + size > len(data):
            break
        found.append(data[at : at + 4 + size])
        at += 4 + size
    return [*found, data[at:]] if at < len(data) else found
