"""What processes of a gateway counted that do not answer a scrape, or have ended: sums must not fall. Pure, but for
what it keeps.

    before = CountedBefore()
    texts = [own, *told, *before.beside(own, {name: Told(process, text)})]     # at each scrape, then `summed(texts)`

A sum that falls is a restart to Prometheus, which takes all that was ever counted for new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.telemetry.sum_of_processes import counted, of_known, summed


@dataclass(frozen=True, slots=True)
class Told:
    """An answer. `process`: another one once the worker of this name was started again."""

    process: str
    text: str


class CountedBefore:
    """Of the workers beside the one that is scraped."""

    def __init__(self) -> None:
        self._last: dict[str, Told] = {}
        self._ended = ""

    def beside(self, own: str, told: Mapping[str, Told]) -> list[str]:
        """The texts that count beside those of the workers that answer now.

        Of processes that have ended only samples whose labels somebody still counts: others would stay for ever. When
        such a one comes back, it begins anew, which a rate takes for what it is.
        """
        for name, now in told.items():
            last = self._last.get(name)
            if last is not None and last.process != now.process:
                self._ended = summed([self._ended, last.text])
            self._last[name] = Told(now.process, counted(now.text))
        self._ended = of_known(self._ended, [own, *(one.text for one in self._last.values())])
        return [*(one.text for name, one in self._last.items() if name not in told), self._ended]
