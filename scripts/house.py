"""`make house`: how big the house is, and in how many files a change of each common kind ends, as one line.

Files, lines and classes are those of `gateway`, `protocol` and `lockgate`. A small file has fewer than 40 lines; files
named `__init__.py` are not counted as small. A class name is counted twice when two files define a class of that name.
The widest folder is the one with the most Python files directly in it.

How many files a verb, an API, a metric or an option needs is read from the recipes in CONTRIBUTING.md: each recipe
ends with `It touches:` and the files that somebody edits. Files that a command writes (golden files, the page of
metrics) are not among them. Nothing adds one of each in a scratch copy yet, so the figure is as true as the recipe is.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
ROOMS: Final = ("gateway", "protocol", "lockgate")
RECIPES: Final[Mapping[str, str]] = {
    "verb_files": "Add a REST verb",
    "api_files": "Add an intercepted API",
    "metric_files": "Add a metric",
    "option_files": "Add a config option",
}
SMALL: Final = 40


def touched(contributing: str, recipe: str) -> Sequence[str]:
    """The files that a recipe ends in. Raises ValueError when the recipe does not say."""
    part = contributing.partition(f"\n### {recipe}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    found = re.search(r"^It touches: (.*?)(?:\n\n|\Z)", part, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"CONTRIBUTING.md: the recipe '{recipe}' has no line that begins with 'It touches:'")
    return list(dict.fromkeys(re.findall(r"`([^`]+)`", found[1])))


def counted(root: Path) -> dict[str, int]:
    """The figures of a tree."""
    files = sorted(path for room in ROOMS for path in (root / room).rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    homes: dict[str, list[Path]] = defaultdict(list)
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path)
    contributing = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {
        "files": len(files),
        "lines": sum(lines.values()),
        "classes": sum(map(len, homes.values())),
        "small_files": sum(count < SMALL and path.name != "__init__.py" for path, count in lines.items()),
        "class_names_twice": sum(len(set(paths)) > 1 for paths in homes.values()),
        **{figure: len(touched(contributing, recipe)) for figure, recipe in RECIPES.items()},
        "widest": max(Counter(path.parent for path in files).values(), default=0),
        "architecture_words": len((root / "ARCHITECTURE.md").read_text(encoding="utf-8").split()),
    }


if __name__ == "__main__":
    sys.stdout.write(f"house: {' '.join(f'{name}={count}' for name, count in counted(ROOT).items())}\n")
