"""The migration file as people write it: YAML, read within bounds, and what is wrong with it, line by line. Pure.

Whoever may ask may send any text. So its size, its depth, the length of one value and what its aliases stand for are
bounded before anything is made of it: libyaml's composer goes as deep as the text does, on the C stack, and a dozen
aliases of aliases are more than any memory. A key that is there twice is an error: YAML takes the last one, and half
of a migration would be left out without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import yaml
from pydantic import ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from gateway.migration.rules.file import FileError, MigrationFile, parsed
from gateway.validation import problems_of
from gateway.yaml_lines import line_at, line_of

TEXT_BYTES: Final = 1_048_576
"""Of a file with its comments. What is kept of it is bounded besides (`migrations.FILE_BYTES`)."""
SHOWN: Final = 20
"""Problems of one file that are told."""
_DEEPEST: Final = 32  # a file's own depth is 6
_VALUE: Final = 10_000  # characters; numbers with more of them take YAML long to read
_EXPANDED: Final = 4 * TEXT_BYTES  # characters, with all that aliases stand for
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, where PyYAML was built with it
_MERGE: Final = "tag:yaml.org,2002:merge"
_READ_AS_THEY_ARE: Final = ("tag:yaml.org,2002:str", _MERGE)


class Problem(NamedTuple):
    """What is wrong. `line`: from 1; None where it is not known, or is not about one."""

    message: str
    line: int | None = None

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class TextError(FileError):
    """The first problem in one line, and how many more there are. `problems`: `SHOWN` of them at most; `more`: not in
    `problems`."""

    def __init__(self, problems: Sequence[Problem], more: int = 0) -> None:
        """`problems`: `SHOWN` at most; `more`: besides."""
        others = len(problems) - 1 + more
        super().__init__(f"{problems[0]} (and {others} more)" if others else str(problems[0]))
        self.problems = tuple(problems)
        self.more = more


def of_yaml(text: str) -> MigrationFile:
    """The file.

    Raises:
        TextError: it is too long, no YAML, or no migration file.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > TEXT_BYTES:
        raise TextError([Problem(f"a migration file has {TEXT_BYTES} bytes at most; this one has {size}")])
    try:
        root, document = _read(text)
    except yaml.YAMLError as exc:
        raise TextError([_not_yaml(exc, text)]) from exc
    except UnicodeError as exc:
        raise TextError([Problem("not YAML: it holds characters that are no text")]) from exc
    try:
        return parsed(document)
    except FileError as exc:
        if root is None or not isinstance(exc.__cause__, ValidationError):
            raise TextError([Problem(str(exc))]) from exc
        found, more = problems_of(exc.__cause__, SHOWN, MigrationFile)
        raise TextError([Problem(words, line_of(root, where)) for where, words in found], more) from exc


def _read(text: str) -> tuple[Node | None, Any]:
    _require_shallow(text)
    loader = _LOADER(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None, None
        _Walk(loader).weigh(root)
        return root, loader.construct_document(root)
    finally:
        loader.dispose()


def _require_shallow(text: str) -> None:
    """By its events, which cost no depth of any stack."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise TextError([Problem(f"nested deeper than {_DEEPEST} levels", line_at(event.start_mark))])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and len(event.value) > _VALUE:
            raise TextError([Problem(f"a value has {_VALUE} characters at most", line_at(event.start_mark))])


class _Walk:
    """Through the nodes, each once. An alias is the node itself again, further down in the text than its anchor, so
    this is no deeper than the text."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._weights: dict[int, int] = {}

    def weigh(self, node: Node) -> int:
        """Characters of all that it stands for."""
        known = self._weights.get(id(node))
        if known is not None:
            if known < 0:
                raise TextError([Problem("an alias stands for what it is itself a part of", line_at(node.start_mark))])
            return known
        self._weights[id(node)] = -1
        weight = 1
        if isinstance(node, ScalarNode):
            weight += len(node.value)
            self._require_value(node)
        elif isinstance(node, SequenceNode):
            weight += sum(map(self.weigh, node.value))
        elif isinstance(node, MappingNode):
            _require_each_once(node)
            weight += sum(self.weigh(key) + self.weigh(value) for key, value in node.value)
        if weight > _EXPANDED:
            raise TextError([Problem("its aliases stand for too much", line_at(node.start_mark))])
        self._weights[id(node)] = weight
        return weight

    def _require_value(self, node: ScalarNode) -> None:
        """PyYAML's own constructors take a date or a number that there is none of for a bug."""
        if node.tag in _READ_AS_THEY_ARE:
            return
        try:
            self._loader.construct_object(node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as exc:
            what = node.tag.rpartition(":")[2]
            raise TextError(
                [Problem(f"{node.value[:40]!r} is no {what}: write it in quotes", line_at(node.start_mark))]
            ) from exc


def _require_each_once(node: MappingNode) -> None:
    seen: dict[str, int | None] = {}
    for key, _ in node.value:
        if isinstance(key, ScalarNode) and key.tag != _MERGE:
            if key.value in seen:
                first = seen[key.value]
                raise TextError(
                    [Problem(f"{key.value[:40]}: is there already, in line {first}", line_at(key.start_mark))]
                )
            seen[key.value] = line_at(key.start_mark)


def _not_yaml(error: yaml.YAMLError, text: str) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        parts = [part for part in (error.context, error.problem) if part]
        begun = line_at(error.context_mark)
        line = line_at(error.problem_mark) or begun
        since = f" (which begins in line {begun})" if begun is not None and begun != line else ""
        return Problem(f"not YAML: {parts[0]}{since}{''.join(f', {part}' for part in parts[1:])}", line)
    position = getattr(error, "position", None)
    before = text.encode("utf-8", "replace")[:position] if isinstance(position, int) else b""
    reason = str(getattr(error, "reason", "")) or " ".join(str(error).split())
    return Problem(f"not YAML: {reason}", before.count(b"\n") + 1 if isinstance(position, int) else None)
