"""A producer keeps its rate, and does not make up for a long block in one burst."""

from __future__ import annotations

from demo.clients.common import send_at_rate


class Scripted:
    """A clock that moves only while the producer idles, and a stop after a number of ticks."""

    def __init__(self, steps: list[float]) -> None:
        self.steps, self.now = list(steps), 0.0
        self.sent: list[tuple[float, int]] = []

    def is_set(self) -> bool:
        return not self.steps

    def send(self, seq: int) -> None:
        self.sent.append((self.now, seq))

    def idle(self, _seconds: float) -> None:
        self.now += self.steps.pop(0)

    def clock(self) -> float:
        return self.now


def run(rate: float, first: int, steps: list[float]) -> tuple[Scripted, int]:
    scripted = Scripted(steps)
    return scripted, send_at_rate(rate, first, scripted, scripted.send, scripted.idle, scripted.clock)


def test_the_rate_is_kept_and_numbers_follow_one_another() -> None:
    scripted, following = run(100.0, 7, [0.03125] * 32)
    assert [seq for _, seq in scripted.sent] == list(range(7, following))
    assert following - 7 == int(100 * 0.03125 * 31)


def test_a_block_is_not_followed_by_a_burst() -> None:
    scripted, _ = run(100.0, 0, [0.5, 60.0, 0.5, 0.5])
    assert len([seq for at, seq in scripted.sent if at == 60.5]) == 100
