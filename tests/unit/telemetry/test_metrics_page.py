"""docs/reference/metrics.md says what a gateway renders."""

from __future__ import annotations

from tests.support.pages.metrics_page import PAGE, PEERS, families, page, shown_name


def test_the_page_is_written_from_the_metrics():
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.support.pages.metrics_page"


def test_every_family_says_what_it_means_once():
    names = [shown_name(family) for family in families()]
    assert len(names) == len(set(names))
    assert all(family.documentation.endswith(".") for family in families())


def test_peers_are_compared_with_what_is_there():
    assert set(PEERS) <= {shown_name(family) for family in families()}
