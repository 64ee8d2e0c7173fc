"""Names of the product: no class has the name of another one, and no public name is a bare participle.

A name that two things have tells a reader of neither; `asked` or `Wanted` tells not what was asked. What is still so is
listed, and the lists only shrink: take a name out when you have mended it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TWICE = words(
    """
    Admission Api Asked Connection Cut FailoverPlan Fleet Groups Limits LinkConfigData LinkData LinkTask Links
    Listener Metrics MirrorData MirrorLag MirrorNames Output Reader Refusal Refused Routes Scene Tokens TopicPromoter
    Wanted _Asked _Refused
    """
)
"""Those that are left. Nothing is added here."""

PARTICIPLES = words(
    """
    asked begun bound carried checked counted ended found given gone heard held hidden judged kept known left looked
    lost made moved named paused planned said seen sent served spent taken told waited wanted watched written
    """
)

BARE = words(
    """
    Asked Ended Found Held Known Lost Told Wanted begun carried counted named taken wanted
    """
)
"""Those that are left. Nothing is added here."""


def modules() -> Iterator[ast.Module]:
    for room in ("gateway", "protocol", "lockgate"):
        for path in sorted((ROOT / room).rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


def class_names(tree: ast.Module) -> list[str]:
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def public_names(tree: ast.Module) -> list[str]:
    """Classes, functions and aliases of types. A constant in capitals tells a number or a set, and may be one."""
    found = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found += [target.id for target in targets if isinstance(target, ast.Name) and not target.id.isupper()]
    return found


def twice(names: Iterator[str]) -> frozenset[str]:
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def bare(names: Iterator[str]) -> frozenset[str]:
    return frozenset(name for name in names if name.lower() in PARTICIPLES)


def test_a_name_that_two_classes_have_is_found() -> None:
    tree = ast.parse("class A:\n    class B: ...\nclass B: ...\nclass C: ...")
    assert twice(iter(class_names(tree))) == {"B"}


def test_a_bare_participle_is_found() -> None:
    tree = ast.parse("class Asked: ...\ndef told(): ...\nKnown = int\nlost: int = 0\nKEPT = 9\ndef asked_again(): ...")
    assert bare(iter(public_names(tree))) == {"Asked", "told", "Known", "lost"}


def test_no_two_classes_have_one_name() -> None:
    assert twice(name for tree in modules() for name in class_names(tree)) <= TWICE


def test_no_public_name_is_a_bare_participle() -> None:
    assert bare(name for tree in modules() for name in public_names(tree)) <= BARE
