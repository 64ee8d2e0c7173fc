"""A conversation: what clients, peers and callers of REST do to a gateway, step by step, as data.

Steps hold the very bytes, so a conversation can be written down, run again, and made smaller by leaving steps out.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any


class Do(StrEnum):
    """What a step does."""

    OPEN = "open"  # a connection, to `place`
    SEND = "send"  # `data`, cut at `cuts`, with `seconds` between the pieces
    WAIT = "wait"  # `seconds` pass
    MUTE = "mute"  # answers are not taken any more
    UNMUTE = "unmute"
    EOF = "eof"  # no more bytes, but answers are taken
    CLOSE = "close"
    RESET = "reset"
    REST = "rest"  # `place` is method and path, `data` the body
    TROUBLE = "trouble"  # with a cluster: `place` says what


@dataclass(frozen=True, slots=True)
class Step:
    """`conn`: the connection's number (-1: none). `note`: for readers of the story. `frames`: requests in `data`."""

    do: Do
    conn: int = -1
    place: str = ""
    data: bytes = b""
    cuts: tuple[int, ...] = ()
    seconds: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()
    frames: int = 0
    note: str = ""

    def pieces(self) -> list[bytes]:
        """What is sent at a time."""
        at = [0, *sorted(cut for cut in set(self.cuts) if 0 < cut < len(self.data)), len(self.data)]
        return [self.data[begin:end] for begin, end in pairwise(at)]

    def as_json(self) -> dict[str, Any]:
        """Plain values, without what is as by default."""
        values = asdict(self) | {"data": b64encode(self.data).decode()}
        return {name: value for name, value in values.items() if value or name == "conn"}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Step:
        """What `as_json` made."""
        given = dict(values)
        given["do"] = Do(given["do"])
        given["data"] = b64decode(given.get("data", ""))
        given["cuts"] = tuple(given.get("cuts", ()))
        given["headers"] = tuple((name, value) for name, value in given.get("headers", ()))
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Conversation:
    """`stage`: the name of the settings it takes place with."""

    seed: int
    stage: str
    steps: tuple[Step, ...] = field(default=())

    def of(self, steps: tuple[Step, ...]) -> Conversation:
        """The same with other steps."""
        return replace(self, steps=steps)

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return {"seed": self.seed, "stage": self.stage, "steps": [step.as_json() for step in self.steps]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Conversation:
        """What `as_json` made."""
        return cls(values["seed"], values["stage"], tuple(Step.from_json(step) for step in values["steps"]))
