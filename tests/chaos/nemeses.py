"""Carries out the faults of a plan: two threads, one per lane, each fault recorded from its begin to its end."""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

from tests.chaos.lab import Lab
from tests.chaos.losses import LOSSES, lose
from tests.chaos.network import heal, hurt
from tests.chaos.plan import AFTER_S, APART_S, Nemesis, Plan, is_quiet
from tests.support.clients.recorder import Recorder


class Turns:
    """Lanes go on side by side, until one of them asks to be alone: for a hand-over that can be measured."""

    def __init__(self) -> None:
        self._one, self._nobody_asks = threading.Lock(), threading.Event()
        self._nobody_asks.set()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for the others' faults to end; they begin none."""
        self._nobody_asks.clear()
        with self._one:
            try:
                yield
            finally:
                self._nobody_asks.set()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Not while another lane is alone, or wants to be. For one lane."""
        self._nobody_asks.wait()
        with self._one:
            yield


class Trouble(threading.Thread):
    """One lane. `failed`: the first fault that could not be carried out or undone, in words."""

    def __init__(self, lane: str, plan: Plan, lab: Lab, recorder: Recorder, began: float, turns: Turns) -> None:
        super().__init__(name=f"nemeses {lane}", daemon=True)
        self._turns = turns
        self.lane = lane
        self.done: list[dict[str, Any]] = []
        self.failed = ""
        self._todo = [nemesis for nemesis in plan.nemeses if nemesis.lane == lane]
        self._lab, self._recorder, self._began = lab, recorder, began
        self._over = threading.Event()

    def stop(self) -> None:
        """End what is under way, begin nothing more, and wait for it."""
        self._over.set()
        self.join(240.0)
        if self.is_alive():
            self.failed = self.failed or f"{self.lane}: a fault did not end within 240 s"

    def run(self) -> None:
        """All faults, one after the other."""
        for nemesis in self._todo:
            if self._over.wait(max(0.0, self._began + nemesis.at_s - time.monotonic())):
                return
            try:
                self._in_turn(nemesis)
            except Exception as error:  # noqa: BLE001 - a lane that died would let the run pass with fewer faults
                self.failed = f"{nemesis.kind} (fault {nemesis.number}): {error!r}"
                return

    def _in_turn(self, nemesis: Nemesis) -> None:
        if nemesis.lane == "network":
            with self._turns.beside():
                self._carry_out(nemesis)
        elif is_quiet(nemesis.at_s):
            with self._turns.alone():
                if not self._over.wait(APART_S + 0.5):
                    self._carry_out(nemesis)
                    self._over.wait(AFTER_S + 0.5)
        else:
            self._carry_out(nemesis)

    def _carry_out(self, nemesis: Nemesis) -> None:
        begun = time.monotonic()
        self._recorder.write("invoke", "nemesis", "fault", asdict(nemesis), nemesis.number)
        undo = begin(self._lab, nemesis)
        try:
            self._over.wait(nemesis.hold_s)
        finally:
            undo()
        ended = time.monotonic()
        self._recorder.write("ok", "nemesis", "fault", nemesis.kind, nemesis.number)
        times = {"began_s": round(begun - self._began, 2), "ended_s": round(ended - self._began, 2)}
        self.done.append({**asdict(nemesis), **times, **self._lab.told.get(nemesis.number, {})})


Undo = Callable[[], None]


def begin(lab: Lab, nemesis: Nemesis) -> Undo:
    """Break something; what is returned mends it and waits until it works."""
    proxies = hurt(lab.network, nemesis)
    if proxies is not None:
        return lambda: heal(nemesis, proxies)
    return _OTHERS[nemesis.kind](lab, nemesis)


def _gateway_kill(lab: Lab, nemesis: Nemesis) -> Undo:
    gateway = lab.gateways[nemesis.gateway]
    gateway.kill()
    return gateway.wait_up


def _gateway_restart(lab: Lab, nemesis: Nemesis) -> Undo:
    gateway = lab.gateways[nemesis.gateway]
    code = gateway.stop()
    assert code == 0, f"gateway {gateway.number} ended with exit code {code} at SIGTERM"
    return gateway.wait_up


def _rolling_restart(lab: Lab, nemesis: Nemesis) -> Undo:
    for gateway in lab.gateways:
        _gateway_restart(lab, Nemesis(**{**asdict(nemesis), "gateway": gateway.number}))()
    return _nothing


def _gateway_pause(lab: Lab, nemesis: Nemesis) -> Undo:
    gateway = lab.gateways[nemesis.gateway]
    gateway.signal(signal.SIGSTOP)
    return lambda: gateway.signal(signal.SIGCONT)


def _clock_jump(lab: Lab, nemesis: Nemesis) -> Undo:
    gateway = lab.gateways[nemesis.gateway]
    gateway.set_clock(random.Random(nemesis.number).choice(_JUMPS_S))
    return lambda: gateway.set_clock(0.0)


def _broker_kill(lab: Lab, nemesis: Nemesis) -> Undo:
    return _killed(lab, nemesis.side, nemesis.broker)


def _controller_kill(lab: Lab, nemesis: Nemesis) -> Undo:
    return _killed(lab, nemesis.side, lab.side(nemesis.side).controller())


def _coordinator_kill(lab: Lab, nemesis: Nemesis) -> Undo:
    return _killed(lab, nemesis.side, lab.side(nemesis.side).leader("__consumer_offsets", nemesis.number % 8))


def _killed(lab: Lab, side: str, broker: int) -> Undo:
    cluster = lab.side(side)
    cluster.kill_broker(broker)
    return lambda: cluster.restart_broker(broker)


def _broker_pause(lab: Lab, nemesis: Nemesis) -> Undo:
    cluster = lab.side(nemesis.side)
    node = cluster.nodes[nemesis.broker]
    node.signal(signal.SIGSTOP)

    def go_on() -> None:
        node.signal(signal.SIGCONT)
        cluster.restart_broker(nemesis.broker)

    return go_on


def _disk_full(lab: Lab, nemesis: Nemesis) -> Undo:
    cluster = lab.side(nemesis.side)
    cluster.fill_disk(nemesis.broker)

    def clean_up() -> None:
        cluster.empty_disk(nemesis.broker)
        # A broker takes a directory that failed offline until it is started anew, if it has not ended by itself.
        cluster.kill_broker(nemesis.broker)
        cluster.restart_broker(nemesis.broker)

    return clean_up


def _leaders_move(lab: Lab, nemesis: Nemesis) -> Undo:
    lab.side(nemesis.side).move_leaders()
    return _nothing


def _name_lost(lab: Lab, nemesis: Nemesis) -> Undo:
    """Known connections go, so that names are asked for."""
    chosen = [g for g in lab.gateways if nemesis.gateway in (-1, g.number)]
    for gateway in chosen:
        gateway.names.touch()
    for proxy in lab.network.around(nemesis.gateway, nemesis.side):
        proxy.cut()
        proxy.mend()

    def found_again() -> None:
        for gateway in chosen:
            gateway.names.unlink(missing_ok=True)

    return found_again


def _flapping_client(lab: Lab, nemesis: Nemesis) -> Undo:
    """Connections that come and go, some in the middle of a request."""
    dice = random.Random(nemesis.number)
    over = threading.Event()

    def flap() -> None:
        while not over.wait(0.02):
            gateway = dice.choice(lab.gateways)
            try:
                with socket.create_connection((gateway.host, gateway.bootstrap_port), 0.5) as one:
                    one.sendall(_HALF_A_REQUEST[: dice.randrange(len(_HALF_A_REQUEST))])
            except OSError:
                continue

    thread = threading.Thread(target=flap, name="flapping client", daemon=True)
    thread.start()

    def end() -> None:
        over.set()
        thread.join(5.0)

    return end


def _nothing() -> None:
    pass


_HALF_A_REQUEST: Final = b"\x00\x00\x01\x00\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04flap\x00\x05chaos\x021"
_JUMPS_S: Final = (-86_400.0, -3_600.0, -5.0, 5.0, 3_600.0, 86_400.0)
_OTHERS: Final[dict[str, Callable[[Lab, Nemesis], Undo]]] = {
    "gateway-kill": _gateway_kill,
    "gateway-pause": _gateway_pause,
    "clock-jump": _clock_jump,
    "gateway-restart": _gateway_restart,
    "rolling-restart": _rolling_restart,
    "broker-kill": _broker_kill,
    "controller-kill": _controller_kill,
    "coordinator-kill": _coordinator_kill,
    "broker-pause": _broker_pause,
    "leaders-move": _leaders_move,
    "disk-full": _disk_full,
    "name-lost": _name_lost,
    "flapping-client": _flapping_client,
    **dict.fromkeys(LOSSES, lose),
}
