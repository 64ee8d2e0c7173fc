"""The chart's values: each says what it is, and the schema is theirs."""

from __future__ import annotations

import json

import yaml

from tests.support.deploy.values_schema import CHART, OPEN, SCHEMA, comment, written


def test_the_schema_is_written_from_the_values() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == written(), "python -m tests.support.deploy.values_schema"


def test_every_value_says_what_it_is() -> None:
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    lines = text.splitlines()

    def silent(node: yaml.Node | None, path: str) -> list[str]:
        if not isinstance(node, yaml.MappingNode) or not node.value or path in OPEN:
            return []
        found = []
        for key, value in node.value:
            inner = f"{path}.{key.value}".lstrip(".")
            leaf = not isinstance(value, yaml.MappingNode) or not value.value
            leaf = leaf and path != "listeners"
            found += [inner] if leaf and not comment(lines, key.start_mark.line) else silent(value, inner)
        return found

    assert silent(yaml.compose(text, Loader=yaml.SafeLoader), "") == []
    assert json.loads(SCHEMA.read_text(encoding="utf-8"))["additionalProperties"] is False
