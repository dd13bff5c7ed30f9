"""The documentation: every public name has an example and a place in the reference; what pages name exists."""

import ast
import importlib
import inspect
import pathlib
import re

import pytest
import test_exact
import test_exact_channels
import test_multivariate

import sklearn_dpmix
from sklearn_dpmix._chains.mixed import R_HAT_LIMIT
from sklearn_dpmix.samplers.mixture import measure

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"


def modules():
    """Public modules: the package, which has the estimators, and its folders and files without an underscore."""
    package = pathlib.Path(sklearn_dpmix.__file__).parent
    found = {path.parent.name for path in package.glob("[a-z]*/__init__.py")}
    found |= {path.stem for path in package.glob("*.py") if not path.stem.startswith("_")}
    return ["sklearn_dpmix", *(f"sklearn_dpmix.{name}" for name in sorted(found - {"estimators"}))]


def public():
    """(module, name, object) of every public name."""
    for module in map(importlib.import_module, modules()):
        for name in module.__all__:
            yield module.__name__, name, getattr(module, name)


def reference():
    """Names listed in docs/reference.rst, by module."""
    listed, module = {}, None
    for line in (DOCS / "reference.rst").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   \w+", line):
            listed.setdefault(module, []).append(line.strip())
    return listed


@pytest.mark.parametrize("module", modules())
def test_every_public_name_is_in_the_reference(module):
    """Catches a module or a name that is added and not documented, one listed twice, and one that is no more."""
    assert sorted(reference().get(module, [])) == sorted(importlib.import_module(module).__all__)


NAMES = [(module, name) for module, name, member in public() if inspect.isclass(member) or inspect.isfunction(member)]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[".".join(pair) for pair in NAMES])
def test_every_public_name_has_an_example(module, name):
    """Catches a class or function without an example of its own (doctests run them)."""
    member = getattr(importlib.import_module(module), name)
    text = vars(member).get("__doc__") if inspect.isclass(member) else member.__doc__
    assert re.search(r"\nExamples\n-+\n(.|\n)*>>> ", inspect.cleandoc(text or "")), f"{module}.{name} has no example"


# --- what pages name exists ------------------------------------------------------------------------------------------


def functions(path):
    """Names of the functions in a file, those in classes included."""
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", ["calibration", "threat_model", "correctness"])
def test_tests_that_a_page_names_exist(page):
    """Catches a page that names a test which was renamed or removed."""
    text = (DOCS / f"{page}.md").read_text()
    files = set(re.findall(r"`(tests/[\w/]+\.py)", text))
    known = {file: functions(ROOT / file) for file in files}
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    for file, name in named:
        assert name in known[file], f"{page}.md names {file}::{name}"
    for name in re.findall(r"`(test_\w+)`", text):
        assert name in set().union(*known.values()) or any(ROOT.glob(f"tests/*/{name}.py")), name
    assert files


def test_files_of_the_walk_over_measures_name_their_tests():
    """Catches a file that the table leaves out, one that is no more, and a test that was renamed or removed."""
    folder = pathlib.Path(measure.__file__).parent
    table = measure.__doc__.split("Which tests check the files")[1].split("\n====", 1)[1]
    names = re.findall(r"``([\w/]+)``", table)
    files = [name for name in names if name.startswith("_")]
    assert sorted(files) == sorted(path.stem for path in folder.glob("_*.py") if path.stem != "__init__")
    for name in set(names) - set(files):
        assert (ROOT / (name if "/" in name else f"tests/samplers/{name}")).with_suffix(".py").exists(), name


@pytest.mark.parametrize("page", ["docs/glossary.md", "docs/long_runs.md", "sklearn_dpmix/_chains/auto_draws.py"])
def test_pages_name_the_limit_of_r_hat(page):
    """Catches another limit in a page than in the code."""
    words = " ".join((ROOT / page).read_text().split())
    assert f"at most {R_HAT_LIMIT}" in words or f"above {R_HAT_LIMIT}" in words


def combinations(module):
    """{case: (samplers of `make test`, samplers of `make nightly`)} of a module of exact tests."""
    found = {}
    for parameters in module.COMBINATIONS:
        marks = getattr(parameters, "marks", ())
        parameters = tuple(getattr(parameters, "values", parameters))
        if module is test_exact:
            sampler, channel, d = parameters
            case = f"{channel}, {d}"
        elif module is test_multivariate:
            sampler, case = parameters
        else:
            case, sampler = parameters
        nightly = bool(marks) or parameters in getattr(module, "NIGHTLY", ())
        found.setdefault(case, (set(), set()))[nightly].add(sampler)
    return found


@pytest.mark.parametrize("module", [test_exact, test_exact_channels, test_multivariate], ids=lambda m: m.__name__)
def test_the_matrix_of_exact_tests_is_that_of_the_tests(module):
    """Catches a matrix that claims a combination which no test has, and one that keeps silent about a test."""
    page = (DOCS / "calibration.md").read_text()
    table = page.split(f"| case of `{module.__name__}` |")[1].split("\n\n")[0].splitlines()[2:]
    claimed = {}
    for row in table:
        case, *samplers = row.strip("|").split(" | ")
        claimed[case.strip(" `")] = tuple(set(re.findall(r"`([^`]+)`", cell)) for cell in samplers)
    assert claimed == combinations(module)
