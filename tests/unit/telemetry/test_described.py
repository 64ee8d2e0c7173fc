"""Everything that `describe` shows has a metric, or a reason why it has none."""

from __future__ import annotations

import re

import pytest
from pydantic import BaseModel

from tests.support.pages.described import DESCRIBED
from tests.support.pages.metrics_page import families, shown_name

FAMILIES = {shown_name(family) for family in families()}


@pytest.mark.parametrize("model", DESCRIBED, ids=lambda model: model.__name__)
def test_every_field_has_a_row(model: type[BaseModel]) -> None:
    assert DESCRIBED[model].keys() == set(model.model_fields)


def test_the_metrics_exist() -> None:
    named = [name for rows in DESCRIBED.values() for said in rows.values() for name in re.findall(r"`([a-z_]+)`", said)]
    missing = [name for name in named if f"lockgate_{name}" not in FAMILIES and name not in ("describe", "list")]
    assert missing == []
    assert len(set(named)) > 40


def test_no_label_grows_with_clients() -> None:
    """Links, topics, partitions, groups and gateways are what an operator declares; the rest are words of ours."""
    allowed = {
        *("link", "topic", "partition", "group", "job", "migration", "application", "api"),
        *("state", "phase", "step", "error", "cause", "task", "replica", "side", "outcome", "reason", "limit"),
        *("version", "le"),
    }
    labels = {label for family in families() for sample in family.samples for label in sample.labels}
    assert labels <= allowed, labels - allowed
