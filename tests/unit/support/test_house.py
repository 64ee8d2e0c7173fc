"""`make house` counts what it says, in a tree of three files; and the recipes name files that are there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "house.py"


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recipe(title: str, *files: str) -> str:
    return f"\n### {title}\n\n1. Do it in `elsewhere.py`.\n\nIt touches: {', '.join(f'`{one}`' for one in files)}.\n"


@pytest.fixture
def tree(tmp_path: Path, house: ModuleType) -> Path:
    sources = {
        "gateway/__init__.py": "",
        "gateway/a.py": "class Lease: ...\n\n\nclass Term:\n    class Lease: ...\n",
        "gateway/b.py": "class Lease: ...\n" + "x = 1\n" * 39,
        "protocol/c.py": "def of() -> None:\n    class Term: ...\n",
        "tests/d.py": "class Lease: ...\n",
        "ARCHITECTURE.md": "Bytes, then\nwire.\n",
        "CONTRIBUTING.md": "".join(
            recipe(title, *(f"{each}.py" for each in range(count)), "0.py")
            for count, title in enumerate(house.RECIPES.values(), 2)
        ),
    }
    for name, text in sources.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_what_is_counted(house: ModuleType, tree: Path) -> None:
    assert house.counted(tree) == {
        "files": 4,
        "lines": 47,
        "classes": 5,
        "small_files": 2,
        "class_names_twice": 2,
        "verb_files": 2,
        "api_files": 3,
        "metric_files": 4,
        "option_files": 5,
        "widest": 3,
        "architecture_words": 3,
    }


def test_a_recipe_that_does_not_say_what_it_touches_is_named(house: ModuleType, tree: Path) -> None:
    (tree / "CONTRIBUTING.md").write_text("\n### Add a REST verb\n\n1. Do it.\n\n## Rules\n\nIt touches: `a`.\n")
    with pytest.raises(ValueError, match="'Add a REST verb' has no line"):
        house.counted(tree)


def test_what_the_recipes_touch_is_there(house: ModuleType) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for title in house.RECIPES.values():
        named = house.touched(text, title)
        assert named
        missing = [one for one in named if not (ROOT / one).exists()]
        assert missing in ([], ["gateway/proxy/handlers/leave_group.py"]), title
        assert all(re.fullmatch(r"[\w./-]+", one) for one in named)
