"""What a resolver answers: the next step of an operation, of which there is one shape for all of them.

A resolver is a pure function from a snapshot to a `Step`; a run carries the step out and takes the next snapshot. Each
operation has its own kinds of steps.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Kind = TypeVar("Kind")


class Step(NamedTuple, Generic[Kind]):
    """The next step. `reason` is for people: what is waited for, or why the operation is given up.

    `delay_s`: how long to let the world go on before; `limit_s`: how long the step may take, 0 where it has no limit of
    its own.
    """

    kind: Kind
    reason: str = ""
    delay_s: float = 0.0
    limit_s: float = 0.0
