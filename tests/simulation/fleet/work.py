"""What a gateway computes takes time: its event loop stands still meanwhile, unless a thread does it (`SimLoop.works`).

Charged is what grows with what is stored and told, by what goes in or comes out of a few functions that all of it goes
through, whatever its shape is: JSON by its values and bytes, compression and base64 by their bytes, producer tables by
their batches. All else takes no time: it is little, or each batch's own (CRC, merging).
"""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Callable, Iterator, Sized
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import cramjam

from gateway.mirror.partition.rules.producer_table import ProducerTable
from gateway.state.producer_entries import PackedProducers
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.node import Node

Before = Callable[[tuple[Any, ...]], float]
"""Seconds that a call takes, by its arguments, before it is made."""
After = Callable[[Any], float]
"""The same by what it has returned."""

LONGEST_S: Final = 0.05
"""So long may an event loop stand still. Longer turns are what a gateway counts as stalls, too (`loop_watch.py`)."""

# Measured once with CPython 3.11 on a core of 2.x GHz that others used, too: 10,000 producers of five batches each
# (1.3 MB of rows, 0.3 MB of them compressed), and lists of 100,000 topic names. What turns objects into JSON's values,
# and back, is counted with it: it takes four times as long as JSON itself.
_ENCODED_VALUE_S: Final = 480e-9
_DECODED_VALUE_S: Final = 690e-9
_JSON_BYTE_S: Final = 1.5e-9
_ZSTD_BYTE_S: Final = 2.5e-9
_UNZSTD_BYTE_S: Final = 1e-9
_ZLIB_BYTE_S: Final = 25e-9
_BASE64_BYTE_S: Final = 1.5e-9
_PACKED_ROW_S: Final = 160e-9
_INDEXED_ROW_S: Final = 130e-9
_UNPACKED_ROW_S: Final = 800e-9
_NOTED_ROW_S: Final = 650e-9
_TAKEN_APART_ROW_S: Final = 200e-9


def _dumped(text: str) -> float:
    return text.count(",") * _ENCODED_VALUE_S + len(text) * _JSON_BYTE_S


def _loaded(args: tuple[Any, ...]) -> float:
    text = args[0]
    values: int = text.count("," if isinstance(text, str) else b",")
    return values * _DECODED_VALUE_S + len(text) * _JSON_BYTE_S


def _each(seconds: float) -> Before:
    """By what goes in first."""
    return lambda args: len(args[0]) * seconds


def _indexed(args: tuple[Any, ...]) -> float:
    """Once: an index is kept."""
    table: PackedProducers = args[0]
    return len(table) * _INDEXED_ROW_S if table._index is None else 0.0


def _packed(args: tuple[Any, ...]) -> float:
    """Of batches that are objects."""
    entries = args[0]
    is_packed = isinstance(entries, PackedProducers)
    return len(entries) * _PACKED_ROW_S if isinstance(entries, Sized) and not is_packed else 0.0


def _taken_apart(args: tuple[Any, ...]) -> float:
    carried: PackedProducers | None = args[0]._carried
    return 0.0 if carried is None else len(carried) * _TAKEN_APART_ROW_S


BY_INPUT: Final[tuple[tuple[Any, str, Before], ...]] = (
    (json, "loads", _loaded),
    (cramjam.zstd, "compress", _each(_ZSTD_BYTE_S)),
    (zlib, "compress", _each(_ZLIB_BYTE_S)),
    (base64, "b64encode", _each(_BASE64_BYTE_S)),
    (base64, "b64decode", _each(_BASE64_BYTE_S)),
    (PackedProducers, "__iter__", _each(_UNPACKED_ROW_S)),
    (PackedProducers, "producers", _indexed),
    (PackedProducers, "of", _packed),
    (ProducerTable, "saw", lambda _: _NOTED_ROW_S),
    (ProducerTable, "_take_apart", _taken_apart),
)
BY_OUTPUT: Final[tuple[tuple[Any, str, After], ...]] = (
    (json, "dumps", _dumped),
    (cramjam.zstd, "decompress", lambda found: len(found) * _UNZSTD_BYTE_S),
)
"""Owner, attribute, cost. Whoever calls it looks it up there each time, so what stands in for it is called."""


class Work:
    """Of one run. `tell`: of each event loop that stood still for a millisecond or more.

    Attributes:
        stalls: those that stood still for too long, each as one line.
    """

    def __init__(self, loop: SimLoop, tell: Callable[[str, str], None]) -> None:
        self.stalls: list[str] = []
        self._loop = loop
        self._tell = tell
        self._done: dict[str, float] = {}  # by what was called, in one callback
        loop.on_work.append(self._stood_still)

    def _stood_still(self, node: Node, seconds: float) -> None:
        most = max(self._done, key=lambda name: self._done[name], default="")
        self._done.clear()
        what = f"its event loop stands still for {seconds * 1000:.1f} ms, most of all for {most}"
        self._tell(node.name, what)
        if seconds > LONGEST_S:
            self.stalls.append(f"{node.name}: {what}")

    def _charge(self, name: str, seconds: float) -> None:
        so_far = self._loop.works(seconds)
        if so_far == seconds:
            self._done.clear()  # another callback's
        if so_far:
            self._done[name] = self._done.get(name, 0.0) + seconds

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Charge for it while the block runs.

        Raises:
            AttributeError: the product has no such place any more: the tables are to be kept as the code is.
        """
        with ExitStack() as undo:
            for owner, name, before in BY_INPUT:
                call = getattr(owner, name)
                _put(undo, owner, name, self._before(f"{owner.__name__}.{name}", before, call))
            for owner, name, after in BY_OUTPUT:
                call = getattr(owner, name)
                _put(undo, owner, name, self._after(f"{owner.__name__}.{name}", after, call))
            yield

    def _before(self, name: str, cost: Before, call: Callable[..., Any]) -> Callable[..., Any]:
        charge = self._charge

        @functools.wraps(call)
        def charged(*args: Any, **named: Any) -> Any:
            if seconds := cost(args):
                charge(name, seconds)
            return call(*args, **named)

        return charged

    def _after(self, name: str, cost: After, call: Callable[..., Any]) -> Callable[..., Any]:
        charge = self._charge

        @functools.wraps(call)
        def charged(*args: Any, **named: Any) -> Any:
            found = call(*args, **named)
            if seconds := cost(found):
                charge(name, seconds)
            return found

        return charged


def _put(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    before = vars(owner)[name]  # a class method comes back as one
    setattr(owner, name, value)
    undo.callback(setattr, owner, name, before)
