"""A deleted link takes its mirrors with it: who remembers something of a mirror is told, and forgets it."""

from __future__ import annotations

from collections.abc import Callable

from gateway.state.records import MirrorRecord


class DeletedMirrors:
    """Told by the operation that deletes a link, once per mirror, after the records are gone."""

    def __init__(self) -> None:
        self._forget: list[Callable[[MirrorRecord], object]] = []

    def subscribe(self, forget: Callable[[MirrorRecord], object]) -> None:
        """`forget` is called with the record of each mirror that is deleted from now on; it must not raise."""
        self._forget.append(forget)

    def tell(self, mirror: MirrorRecord) -> None:
        """This mirror was deleted."""
        for forget in self._forget:
            forget(mirror)
