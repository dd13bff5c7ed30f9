"""The page with the figures is about what is audited."""

import pathlib

import pytest

from .case_list import all_cases
from .cases import ROUNDING
from .replay_cases import BARKER, CASES

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "audit.md").read_text()


def rows(header):
    """Cells of the table with that header."""
    lines = PAGE.split(f"| {header} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_release_has_its_row_and_its_statement():
    """Catches a case without figures, figures without a case, and a statement that has changed since."""
    found = {row[0]: row for row in rows("release")}
    assert list(found) == list(all_cases())
    for name, case in all_cases().items():
        epsilon, delta = case.stated()
        stated = [float(part.split("=")[1]) for part in found[name][1].split(",")]
        assert stated == pytest.approx([epsilon, delta] if delta else [epsilon], rel=1e-3)
        assert int(found[name][6].replace(",", "")) == case.n_draws
        assert float(found[name][4]) <= ROUNDING


def test_every_replayed_fit_has_its_row():
    """The same of fits."""
    found = {row[0].removesuffix(" (Rényi divergence / accounted)"): float(row[2]) for row in rows("fit")}
    assert list(found) == [*CASES, *BARKER]
    assert max(found.values()) <= ROUNDING
