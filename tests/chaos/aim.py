"""Faults that are aimed: at the middle of a promote or of a failback, when the record says that it is under way.

Random times meet the fraction of a second between the write pause and the cutover hardly ever; it was a leader that was
restarted in order just there whose cutover stored what it did not have.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.chaos.gateways import GatewayNode
from tests.chaos.lab import Lab
from tests.chaos.plan import Aim
from tests.support.clients.recorder import Recorder

_LOOK_S: Final = 0.01
_LOST_S: Final = 0.7
_WAIT_S: Final = 60.0


class Aimed:
    """One fault that waits for its moment. `begin` before the operation is asked for, `end` when it is done.

    Attributes:
        done: what was hit and when, seconds since `began`; empty when the moment never came.
        failed: why the gateway did not end or come back as it must, '' when all is well.
    """

    def __init__(
        self, aim: Aim, lab: Lab, recorder: Recorder, states: Callable[[], Sequence[str]], began: float, number: int
    ) -> None:
        self._aim, self._lab, self._recorder, self._states = aim, lab, recorder, states
        self._began, self._number = began, number
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"aim {aim.kind}", daemon=True)
        self.done: dict[str, Any] = {}
        self.failed = ""

    def begin(self) -> None:
        """Wait for the moment."""
        self._thread.start()

    def end(self) -> None:
        """The operation is done: what was not hit is let be; what was is up again when this returns."""
        self._over.set()
        self._thread.join(180.0)
        if self._thread.is_alive():
            self.failed = self.failed or f"the aimed {self._aim.kind} did not end"

    def _run(self) -> None:
        try:
            if self._moment():
                self._hit()
        except Exception as error:  # noqa: BLE001 - a thread that died would let the run pass with less done
            self.failed = f"aimed {self._aim.kind}: {error!r}"

    def _moment(self) -> bool:
        """Some topic is being promoted."""
        until = time.monotonic() + _WAIT_S
        while not self._over.wait(_LOOK_S) and time.monotonic() < until:
            if "PENDING_STOPPED" in self._states():
                return not self._over.wait(self._aim.delay_s)
        return False

    def _hit(self) -> None:
        gateway = leader(self._lab)
        if gateway is None:
            return
        begun = time.monotonic()
        value = {"kind": f"aimed-{self._aim.kind}", "gateway": gateway.number}
        self._recorder.write("invoke", "nemesis", "fault", value, self._number)
        try:
            self._DO[self._aim.kind](self, gateway)
        finally:
            ended = time.monotonic()
            self._recorder.write("ok", "nemesis", "fault", value["kind"], self._number)
            times = {"began_s": round(begun - self._began, 2), "ended_s": round(ended - self._began, 2)}
            self.done = {**value, **times, "lane": "aimed", "number": self._number}

    def _restart(self, gateway: GatewayNode) -> None:
        code = gateway.stop()
        if code not in (0, -9):  # -9: the other lane killed it meanwhile
            self.failed = f"gateway {gateway.number} ended with exit code {code} at SIGTERM"
        gateway.wait_up()

    def _kill(self, gateway: GatewayNode) -> None:
        gateway.kill()
        gateway.wait_up()

    def _lose_answers(self, _: GatewayNode) -> None:
        """What the sources answered does not arrive: producers send again, over the cutover."""
        proxies = self._lab.network.around(-1, "source")
        for proxy in proxies:
            proxy.add("timeout", "downstream", timeout=0)
        self._over.wait(_LOST_S)
        for proxy in proxies:
            proxy.cut()
        for proxy in proxies:
            proxy.mend()

    _DO: Final[dict[str, Callable[[Aimed, GatewayNode], None]]] = {
        "restart": _restart,
        "kill": _kill,
        "lost-answers": _lose_answers,
    }


def leader(lab: Lab) -> GatewayNode | None:
    """The gateway that leads, as the fleet says; None when nobody tells."""
    code, answer = lab.operator.ask("GET", "/v3/status")
    name = str(answer.get("leader", "")) if code == 200 else ""
    return next((one for one in lab.gateways if name.endswith(f"{one.host}:{one.bootstrap_port}")), None)
