"""Files of secrets are read as Java reads them."""

from __future__ import annotations

import pytest

from gateway.operations.secrets.rules.properties_file import properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a:b\nc d\n e = f g ", {"a": "b", "c": "d", "e": "f g "}),
        ("# a=b\n! c=d\n\n   \ne=f", {"e": "f"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=one \\\n   two", {"a": "one two"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=\\u00e9\\t\\q", {"a": "é\tq"}),
        ("a=1\r\na=2\r\n", {"a": "2"}),
        ("a", {"a": ""}),
        ("a=#b", {"a": "#b"}),
        ("", {}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_properties(text: str, found: dict[str, str]) -> None:
    assert properties(text) == found
