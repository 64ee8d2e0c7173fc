"""The broker model answers as real brokers did: recorded sequences of requests, run on the model alone.

The recordings are made by `python -m tests.broker_model --record FILE`, on the cluster that their names tell.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker_model.normal import unlike
from tests.broker_model.recording import Recording

RECORDED = sorted((Path(__file__).parents[3] / "broker_model" / "recorded").glob("*.json.gz"))


def test_there_are_recordings() -> None:
    assert RECORDED


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_the_model_answers_as_real_brokers_did(path: Path) -> None:
    recording = Recording.load(path)
    for seed in recording.sequences:
        found, _ = recording.compare(seed)
        lines = [] if found is None else unlike(found.real, found.model)
        assert not lines, f"seed {seed}, step {found.step if found else 0}: {lines}"


def test_another_answer_would_be_noticed() -> None:
    recording = Recording.load(RECORDED[0])
    seed = next(iter(recording.sequences))
    answered = next(entries for entries in recording.sequences[seed].trace if entries)
    answered[0] = (answered[0][0] + "!", answered[0][1])
    assert recording.compare(seed)[0] is not None
