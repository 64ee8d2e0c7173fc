"""In which line of a YAML text a key is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yaml.nodes import MappingNode, Node, SequenceNode


def line_at(mark: Any) -> int | None:
    """From 1."""
    return None if mark is None else int(mark.line) + 1


def line_of(root: Node, where: Sequence[str | int]) -> int | None:
    """Where the key is, or what it is missing in. None: it is about the whole file.

    Parts of `where` that are no keys are names that pydantic gives to kinds of values.
    """
    node, line = root, None
    for part in where:
        found = _below(node, part)
        if found is not None:
            node, line = found[0], line_at(found[1].start_mark)
    return line


def _below(node: Node, part: str | int) -> tuple[Node, Node] | None:
    """What a key or an index means, and the node where it begins."""
    if isinstance(node, MappingNode):
        return next(((value, key) for key, value in node.value if key.value == str(part)), None)
    if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None
