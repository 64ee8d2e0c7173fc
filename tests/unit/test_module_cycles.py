"""No module imports, over others, itself; imports for types alone count too, since a reader follows them as well."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def order_of(imports: dict[str, set[str]]) -> list[str]:
    """Modules, each after all that it imports. Raises CycleError."""
    return list(TopologicalSorter(imports).static_order())


def test_a_cycle_is_found() -> None:
    with pytest.raises(CycleError):
        order_of({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})


def test_no_module_imports_itself_over_others() -> None:
    graph = grimp.build_graph("gateway", "protocol", "lockgate", exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    assert len(imports) > 400
    try:
        order_of(imports)
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
