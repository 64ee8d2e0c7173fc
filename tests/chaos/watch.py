"""Looks at each gateway's process every few seconds: memory, file descriptors, tasks of its event loop."""

from __future__ import annotations

import re
import threading
import time
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx

from tests.chaos.gateways import GatewayNode

EVERY_S: Final = 2.0
LONG_S: Final = 300.0
ALLOWED: Final = {"rss_mb": (1.25, 20.0), "fds": (1.5, 50.0), "tasks": (1.5, 50.0)}
"""Of a process that lived for `LONG_S` and longer: late at most so many times early, and so much more."""
_TASKS: Final = re.compile(r"^lockgate_asyncio_tasks (\d+)", re.MULTILINE)
_RSS: Final = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)


class Watch(threading.Thread):
    """`samples`: one dict per look and gateway. `tasks` is None when the gateway did not answer."""

    def __init__(self, gateways: list[GatewayNode], began: float) -> None:
        super().__init__(name="watch", daemon=True)
        self.samples: list[dict[str, Any]] = []
        self._gateways, self._began = gateways, began
        self._over = threading.Event()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self.join(10.0)

    def run(self) -> None:
        """Look until `stop`."""
        with httpx.Client(timeout=1.0, trust_env=False) as api:
            while not self._over.wait(EVERY_S):
                for gateway in self._gateways:
                    self._look(api, gateway)

    def _look(self, api: httpx.Client, gateway: GatewayNode) -> None:
        pid, life = gateway.pid, gateway.started
        if pid is None:
            return
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            return  # it ended in between
        rss = _RSS.search(status)
        try:
            tasks = _TASKS.search(api.get(f"{gateway.url}/metrics", auth=gateway.auth).text)
        except httpx.HTTPError:
            tasks = None
        self.samples.append(
            {
                "t_s": round(time.monotonic() - self._began, 1),
                "gateway": gateway.number,
                "life": life,
                "rss_mb": round(int(rss[1]) / 1024, 1) if rss else None,
                "fds": descriptors,
                "tasks": int(tasks[1]) if tasks else None,
            }
        )

    def growth(self) -> list[dict[str, Any]]:
        """Of every process that lived for a minute and longer: medians of its second quarter and of its last one."""

        def who(sample: dict[str, Any]) -> tuple[int, int]:
            return sample["gateway"], sample["life"]

        found = []
        for (gateway, life), group in groupby(sorted(self.samples, key=who), who):
            samples = list(group)
            if len(samples) < 8 or samples[-1]["t_s"] - samples[0]["t_s"] < 60:
                continue
            quarter = len(samples) // 4
            row: dict[str, Any] = {
                "gateway": gateway,
                "life": life,
                "from_s": samples[0]["t_s"],
                "to_s": samples[-1]["t_s"],
            }
            for name in ("rss_mb", "fds", "tasks"):
                early = [s[name] for s in samples[quarter : 2 * quarter] if s[name] is not None]
                late = [s[name] for s in samples[-quarter:] if s[name] is not None]
                row[name] = [median(early), median(late)] if early and late else None
            found.append(row)
        return found


def leaks(growth: list[dict[str, Any]]) -> str:
    """The first process that grew beyond what is allowed, in one line; '' when there is none."""
    for row in growth:
        for name, (times, more) in ALLOWED.items():
            if row["to_s"] - row["from_s"] >= LONG_S and row[name] and row[name][1] > row[name][0] * times + more:
                early, late = row[name]
                return (
                    f"gateway {row['gateway']} grows: {name} {early:g} early, {late:g} late in its life {row['life']}"
                )
    return ""
