"""What processes of a gateway counted that do not answer a scrape, or have ended: sums must not fall. Pure, but for
what it keeps.

    before = CountedBefore()
    texts = [own, *told, *before.beside(own, {name: Told(process, text)})]     # at each scrape, then `summed(texts)`

A sum that falls is a restart to Prometheus, which takes all that it shows then for new. When the process that is
scraped is started again, its own counters begin with nothing, and what it kept of the others is gone: the sum does
fall. So each of the others tells it only what no scrape of the process before it has had:

    since = CountedSince()
    said = since.told(asker, text)                                             # at each question
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.telemetry.sum_of_processes import beyond, counted, not_above, of_known, summed


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


class CountedSince:
    """Of one worker: what it tells the process that is scraped."""

    def __init__(self) -> None:
        self._asker = ""
        self._last = ""
        self._base = ""

    def told(self, asker: str, text: str) -> str:
        """The text with what counts for this asker: all, for the first that ever asked; for the next one, what was
        counted since the one before it asked last. `asker`: names the process; '' of one that does not say it."""
        if not asker:
            return text
        if asker != self._asker:
            self._asker, self._base = asker, counted(self._last)
        self._last = text
        if not self._base:
            return text
        self._base = not_above(self._base, text)
        return beyond(text, self._base)
