import threading
from typing import Any

import pytest

from tests.chaos.clients import python_producer
from tests.chaos.clients.python_producer import KafkaPythonProducer, stacks_of
from tests.support.clients.recorder import Recorder


class Silent:
    """A library that neither answers nor gives up."""

    def __init__(self, **_config: Any) -> None:
        self.closed = False

    def send(self, _topic: str, **_record: Any) -> Any:
        return self

    def add_callback(self, _call: Any) -> None: ...

    def add_errback(self, _call: Any) -> None: ...

    def flush(self, timeout: float) -> None:
        raise AssertionError("it would be waited for")

    def close(self, timeout: float) -> None:
        self.closed = True


def test_a_library_that_hangs_ends_its_life(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_producer, "KafkaProducer", Silent)
    monkeypatch.setattr(python_producer, "_HUNG_S", 0.05)
    recorder = Recorder(tmp_path / "history.jsonl")
    producer = KafkaPythonProducer(recorder, "python", [("t", 0)], 1000.0)
    producer.lives = 2

    producer.live()
    recorder.close()

    assert producer.hung == ["python.2"]
    assert "hangs" in producer.errors[0]


def test_what_a_thread_is_doing() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def wait_for_ever() -> None:
        asked.set()
        go_on.wait()

    thread = threading.Thread(target=wait_for_ever, name="kafka-io-python.2")
    thread.start()
    asked.wait()
    told = stacks_of("python.2")
    go_on.set()
    thread.join()

    assert told.startswith("kafka-io-python.2:")
    assert "wait_for_ever" in told
