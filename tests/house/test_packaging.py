"""What is written about the package in more than one place agrees."""

import pathlib
import re
import tomllib

import sklearn_dpmix

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_names_this_version():
    """Catches a release whose citation is that of the one before."""
    assert f"version: {sklearn_dpmix.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_extras_that_messages_and_pages_name_exist():
    """Catches an error that tells users to install an extra that was renamed, which pip ignores with a warning."""
    package = pathlib.Path(sklearn_dpmix.__file__).parent
    pages = [
        *package.rglob("*.py"),
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        ROOT / "Makefile",
        ROOT / "pyproject.toml",
    ]
    named = {
        extra
        for page in pages
        for group in re.findall(r"(?:sklearn-dpmix|\.)\[([a-z, ]+)\]", page.read_text())
        for extra in re.split(r", *", group)
    }
    assert {"secure", "plot", "test"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_classifiers_begin_with_the_oldest_python_allowed():
    """Catches a floor that was raised in one place only."""
    floor = PROJECT["requires-python"].removeprefix(">=")
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert versions[0] == floor
    assert [int(v.partition(".")[2]) for v in versions] == list(range(int(floor.partition(".")[2]), 11 + len(versions)))
