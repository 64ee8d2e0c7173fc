"""`python -m bench.strangers`: measure each attack, write the JSON file, print the last line.

Exit code 0 when all attacks could be measured and none cost more than `figures.py` says, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from bench.errors import BenchError
from bench.machine import machine, versions
from bench.proc import cpu_seconds, memory_kb
from bench.process import ROOT
from bench.strangers.figures import Cost, last_line, stalls_in
from bench.strangers.lab import StrangersLab
from bench.strangers.registry import Manner
from bench.strangers.strangers import ATTACKS, bombs
from gateway.devcluster import DevClusterError

_BY_REGISTRY: Final = {f"registry_{manner}": manner for manner in (Manner.BOMB, Manner.TRICKLE)}
_FAILURES: Final = (BenchError, DevClusterError, httpx.HTTPError, OSError)
_LOOK_S: Final = 0.25
_CALM_S: Final = 3.0


def main() -> int:
    """Run, write, print."""
    names = sorted([*ATTACKS, *_BY_REGISTRY], key=_leaves_work)
    parser = argparse.ArgumentParser(prog="python -m bench.strangers", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=names, default=names, metavar="ATTACK", help=", ".join(names))
    parser.add_argument("--seconds", type=float, default=15.0, help="of each attack (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench-strangers", help="logs and data")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "bench-strangers.json")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    costs, failures = list[Cost](), list[str]()
    lab = StrangersLab(args.folder.absolute())
    try:
        lab.start()
        for name in sorted(args.only, key=_leaves_work):
            try:
                costs.append(_measured(lab, name, args.seconds))
            except _FAILURES as error:  # the other attacks are measured all the same
                failures.append(f"{name}: {str(error) or type(error).__name__}")
            else:
                _say(costs[-1])
    except KeyboardInterrupt as interrupt:
        failures.append(f"interrupted by {str(interrupt) or 'Ctrl-C'}")
    except _FAILURES as error:
        failures.append(str(error) or type(error).__name__)
    finally:
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave brokers behind
        lab.close()
        signal.signal(signal.SIGINT, previous)
    for trouble in (*failures, *(trouble for cost in costs for trouble in cost.troubles())):
        sys.stderr.write(f"{trouble}\n")
    content = {"machine": machine(), "versions": versions(), "failures": failures, "costs": [asdict(c) for c in costs]}
    args.report.parent.mkdir(parents=True, exist_ok=True)
    args.report.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    line = last_line(costs, failures)
    sys.stdout.write(line + "\n")
    return 0 if ": PASS" in line else 1


def _measured(lab: StrangersLab, name: str, seconds: float) -> Cost:
    """The honest client alone, then beside the attack."""
    pid = lab.gateway.pid
    assert pid is not None
    time.sleep(_CALM_S)  # what the attack before has left is over
    lab.felt("mark")
    alone = lab.cpu_seconds()
    time.sleep(seconds)
    before = lab.felt()
    alone = {name: (now - alone[name]) / seconds for name, now in lab.cpu_seconds().items()}
    memory, log, stalls = memory_kb(pid), lab.log_bytes(), stalls_in(lab.gateway.metrics())
    most, began = memory, time.monotonic()
    with _attack(lab, name) as attacker:
        lab.felt("mark")
        had, at_first = cpu_seconds(attacker) if attacker else 0.0, lab.cpu_seconds()
        marked = time.monotonic()
        while time.monotonic() - began < seconds:
            most = max(most, memory_kb(pid))
            time.sleep(_LOOK_S)
        beside = lab.felt()
        both = {name: (now - at_first[name]) / (time.monotonic() - marked) for name, now in lab.cpu_seconds().items()}
        attack_s = cpu_seconds(attacker) - had if attacker else 0.0
    lasted = time.monotonic() - began
    cost = Cost(
        attack=name,
        before=before,
        beside=beside,
        memory_mb=(most - memory) / 1024,
        log_kb_s=(lab.log_bytes() - log) / 1024 / lasted,
        stalls=stalls_in(lab.gateway.metrics()) - stalls,
        attack_cores=round(attack_s / lasted, 2),
        cores={name: (round(alone[name], 2), round(both[name], 2)) for name in alone},
    )
    return replace(cost, control=_control(lab, cost, seconds)) if cost.wants_control else cost


def _control(lab: StrangersLab, cost: Cost, seconds: float) -> dict[str, Any]:
    """What the honest client feels of the attack's CPU alone."""
    time.sleep(_CALM_S)
    burning = lab.burn(cost.attack_cores, cost.others_cores)
    try:
        lab.felt("mark")
        time.sleep(seconds)
        return lab.felt()
    finally:
        burning.end()


def _leaves_work(name: str) -> bool:
    """What the mirror still has to do when the attack is over is not to be the next one's: it comes last."""
    return name == bombs.__name__


@contextmanager
def _attack(lab: StrangersLab, name: str) -> Iterator[int]:
    """The process id of who attacks; 0: nobody's of its own."""
    ended: Callable[[], None]
    attacker = 0
    if name in _BY_REGISTRY:
        lab.registry.answer_as(_BY_REGISTRY[name])
        ended = partial(lab.registry.answer_as, Manner.EMPTY)
    else:
        attack = lab.attack(name)
        ended, attacker = attack.end, attack.pid
    try:
        yield attacker
    finally:
        ended()


def _say(cost: Cost) -> None:
    def told(name: str) -> str:
        return f"{name} {cost.before[name]:.1f} -> {cost.beside[name]:.1f}"

    without = ""
    if cost.control:
        shown = ", ".join(f"{cost.control[name]:.1f}" for name in ("asked_p99_ms", "written_p99_ms"))
        without = f"the same CPU burned without an attack {shown}, {cost.gateway_x:.1f} times that, "
    parts: Sequence[str] = [told(name) for name in ("asked_p99_ms", "written_p99_ms", "longest_ms", "asked_per_s")]
    sys.stderr.write(
        f"{cost.attack}: {', '.join(parts)}, {without}memory +{cost.memory_mb:.0f} MB, log {cost.log_kb_s:.1f} KB/s, "
        f"stalls {cost.stalls}, attack {cost.attack_cores:.2f} cores, "
        + "".join(f"{name} {alone:.2f} -> {both:.2f}, " for name, (alone, both) in cost.cores.items())
        + f"assignments lost {cost.beside['lost']}\n"
    )


def _interrupt(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main())
