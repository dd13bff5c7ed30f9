"""The README's code runs, and prints what it says."""

import doctest
import pathlib
import re
import warnings

import matplotlib.pyplot as plt
import pytest

README = pathlib.Path(__file__).parents[2] / "README.md"
#: Pages with sessions, but for one that tests/estimators/test_posterior_da.py runs.
PAGES = sorted(path.stem for path in README.parent.glob("docs/*.md") if "\n>>> " in path.read_text())
PAGES.remove("user_models")


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    plt.close("all")


@pytest.mark.slow
def test_readme_session_prints_what_it_says():
    """Catches a README whose output is not the package's."""
    parts = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    session, others = [p for p in parts if p.startswith(">>>")], [p for p in parts if not p.startswith(">>>")]
    assert len(session) == 1 and len(others) == 4
    test = doctest.DocTestParser().get_doctest(session[0], {}, "README", str(README), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner.run(test, clear_globs=False)
    assert runner.failures == 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the chains have not mixed")
        for code in others:
            exec(compile(code, "README", "exec"), test.globs)
    assert test.globs["population"].informativeness() > 0.1
    Z = test.globs["Z"][:150]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert test.globs["search"].fit(Z).best_params_["mixing__concentration"] in (0.3, 1.0, 3.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.nightly] * (page != "add_mechanism")) for page in PAGES]
)
def test_pages_sessions_print_what_they_say(page, tmp_path, monkeypatch):
    """Catches documentation whose output is not the package's."""
    monkeypatch.chdir(tmp_path)
    path = README.parent / "docs" / f"{page}.md"
    parts = [part for part in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL) if ">>>" in part]
    assert parts
    test = doctest.DocTestParser().get_doctest("\n".join(parts), {}, page, str(path), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.failures == 0
