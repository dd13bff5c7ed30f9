"""The compile cache never gives an old answer: scripts that are edited, and the digest behind it."""

import pickle
import shutil
import threading
from functools import partial

import numba
import numpy as np
import pytest
from numba.core.caching import FunctionCache
from scripts import COMPILES, PACKAGE, edit, run, write

from sklearn_dpmix._base.compiled import _Cache, compiled, entry, helper
from sklearn_dpmix._base.compiler import Part, reached
from sklearn_dpmix._base.reach import Reach
from sklearn_dpmix._posterior.mixture import mixture_log_predictive
from sklearn_dpmix.kernels import BetaKernel
from sklearn_dpmix.mechanisms import AdditiveMechanism, NoNoise
from sklearn_dpmix.mechanisms._statistic_releases import log_densities

# ---------------------------------------------------------------- the cache never lies


EDITED = """
    import json, sys
    from math import log
    import noise_formula
    from noise_formula import bend
    from joblib.externals.loky import get_reusable_executor
    from sklearn_dpmix.mechanisms import AdditiveMechanism, compiled
    from sklearn_dpmix.mechanisms._statistic_releases import log_densities

    OFFSET = 0.25

    class Bent(AdditiveMechanism):
        def __init__(self, scale=1.0):
            self.scale = scale

        @compiled
        def log_noise(self, e, scale):
            # a comment
            return -1.0 * bend(e) / scale + OFFSET + noise_formula.SHIFT

    def ask():
        value = float(Bent(2.0).log_density([[3.0]], [[1.0]])[0])
        stats = log_densities.stats
        return value, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())

    if __name__ == "__main__":
        answers = [ask()] if "alone" in sys.argv else []
        if "loky" in sys.argv:  # one worker: each takes as long to start as all else here
            answers.append(get_reusable_executor(max_workers=1).submit(ask).result())
        print(json.dumps(answers))
"""
FORMULA = """
    from numba import njit

    POWER = 2
    SHIFT = 0.5

    @njit
    def bend(e):
        return square(e)

    @njit
    def square(e):
        return e**POWER
"""


@COMPILES
@pytest.mark.slow
def test_an_edited_script_never_gets_the_old_answer(tmp_path):
    """Class, helpers and constants, in the script and in a file that it imports: an edit misses, a rerun hits."""
    script, cache = write(tmp_path, edited=EDITED, noise_formula=FORMULA), tmp_path / "cache"
    formula = tmp_path / "noise_formula.py"

    def expect(value, hits, misses, *how):
        answers = np.array(run(script, *how, cache=cache))
        np.testing.assert_allclose(answers[:, 0], value, rtol=1e-14)
        assert np.all(answers[:, 1] <= hits) and np.all(answers[:, 2] <= misses), answers

    expect(-4 / 2 + 0.75, 0, 1, "alone")
    edit(script, "# a comment", "# another comment\n")
    # what is only said is not compiled; by value from __main__: still the same
    expect(-4 / 2 + 0.75, 1, 0, "alone", "loky")
    edit(script, "-1.0 * bend(e)", "-3.0 * bend(e)")
    expect(-12 / 2 + 0.75, 0, 1, "alone")
    edit(formula, "return e**POWER", "return e**POWER + 1.0")
    expect(-15 / 2 + 0.75, 0, 1, "loky")
    edit(formula, "SHIFT = 0.5", "SHIFT = 2.5")
    expect(-15 / 2 + 2.75, 0, 1, "alone")


OTHER_NUMBA = """
    import json
    import numba
    numba.version_info = numba.version_info._replace(minor=999)
    from numba.core.compiler import Compiler
    from sklearn_dpmix._base import compiled
    from sklearn_dpmix.mechanisms import LaplaceMechanism
    density = LaplaceMechanism(scale=2.0).log_density([[3.0]], [[0.0]])[0]
    print(json.dumps([density, compiled.EntryCompiler is compiled.PartCompiler is Compiler]))
"""


@COMPILES
@pytest.mark.slow
def test_a_numba_that_was_not_tried_compiles_as_it_does_by_itself(tmp_path):
    """Its inner parts may be others."""
    density, is_by_itself = run(write(tmp_path, other_numba=OTHER_NUMBA), cache=tmp_path / "cache")
    assert density == pytest.approx(-1.5 - np.log(4.0), rel=1e-14) and is_by_itself


CELL = """
class Own(AdditiveMechanism):
    def __init__(self, scale=1.0):
        self.scale = scale

    @compiled
    def log_noise(self, e, scale):
        return self.bend(e) + SHIFT

    @compiled
    def bend(self, e):
        return 2.0 * e
"""


@COMPILES
def test_redefining_a_class_in_a_notebook():
    """A cell run again, changed or not, in one process: its bodies, its helpers' signatures, globals that it names."""
    notebook = {"__name__": "__main__", "AdditiveMechanism": AdditiveMechanism, "compiled": compiled, "SHIFT": 0.5}

    def answer(cell):
        exec(compile(cell, "<cell>", "exec"), notebook)
        return float(notebook["Own"]().log_density([[3.0]], [[0.0]])[0])

    assert answer(CELL) == 6.5
    known = len(log_densities.overloads)
    assert answer("# run again\n" + CELL) == 6.5
    assert len(log_densities.overloads) == known
    assert answer(CELL.replace("2.0 * e", "2.5 * e")) == 8.0
    more = CELL.replace("self.bend(e)", "self.bend(e, scale)").replace(
        "def bend(self, e):", "def bend(self, e, scale, c=7.0):"
    )
    assert answer(more.replace("2.0 * e", "e * scale * c")) == 21.5
    assert answer(more.replace("2.0 * e", "e * scale * c").replace("c=7.0", "c=8.0")) == 24.5
    assert answer(CELL) == 6.5
    notebook["SHIFT"] = 1.5
    assert answer("") == 7.5  # the class is the old one; a constant that it names changed


SWAPPED = """
    import json, sys
    from numba.core.caching import FunctionCache
    from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
    from sklearn_dpmix.mechanisms._statistic_releases import log_densities

    if sys.argv[1] == "numba":
        type(log_densities._cache).load_overload = FunctionCache.load_overload
    mechanisms = LaplaceMechanism(scale=1.0), GaussianMechanism(scale=1.0)
    print(json.dumps([float(m.log_density([[3.0]], [[0.0]])[0]) for m in mechanisms]))
"""


@COMPILES
@pytest.mark.slow
def test_an_entry_under_another_name_is_a_miss(tmp_path):
    """What two processes that write the index at one time can leave behind; numba alone then mixes the two up."""
    script, cache = write(tmp_path, swapped=SWAPPED), tmp_path / "cache"
    right = run(script, "ours", cache=cache)
    first, second = sorted(cache.rglob("*log_densities*.nbc"))
    contents = first.read_bytes(), second.read_bytes()

    def swap():
        second.write_bytes(contents[0])
        first.write_bytes(contents[1])

    swap()
    assert run(script, "numba", cache=cache) != right  # the broken twin
    swap()
    assert run(script, "ours", cache=cache) == right


@COMPILES
def test_without_a_component_nothing_is_kept(tmp_path, monkeypatch):
    """No digest in the signature, so no way to know that the code is still the same."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def total(first, second):
        return first.sum() + second

    ours, numbas = entry(total), entry(total)
    numbas._cache = FunctionCache(total)
    ours(np.ones(3), 1.0)
    assert not list(tmp_path.rglob("*.nbc"))
    numbas(np.ones(3), 1.0)
    assert list(tmp_path.rglob("*.nbc"))  # the broken twin


@COMPILES
def test_an_index_of_another_version_of_the_package_is_a_miss(tmp_path, monkeypatch):
    """Catches a fit that ends in numba's ModuleNotFoundError after an update, where modules were moved."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def level(channel, y):
        return channel.log_channel(np.zeros((1, 1)), 0, 0, y)

    channel = NoNoise()._lower()
    assert entry(level)(channel, 0.0) == 0.0
    (index,) = tmp_path.rglob("*.nbi")
    version = pickle.dumps(numba.__version__, protocol=-1)
    assert index.read_bytes().startswith(version)
    index.write_bytes(version + b"csklearn_dpmix._gone\nthing\n.")
    with monkeypatch.context() as numbas, pytest.raises(ModuleNotFoundError):  # the broken twin
        numbas.setattr(_Cache, "load_overload", FunctionCache.load_overload)
        entry(level)(channel, 0.0)
    assert entry(level)(channel, 0.0) == 0.0
    assert b"_gone" not in index.read_bytes()


ASKED = """
    import json
    from sklearn_dpmix.mechanisms import LaplaceMechanism
    from sklearn_dpmix.mechanisms._statistic_releases import log_densities

    answer = float(LaplaceMechanism(scale=2.0).log_density([[3.0]], [[1.0]])[0])
    stats = log_densities.stats
    print(json.dumps([answer, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""


@COMPILES
@pytest.mark.slow
def test_what_changes_no_code_that_an_entry_reaches_costs_nothing(tmp_path):
    """A package copied elsewhere as into an image, other times, lines, docstrings, and edits of other things."""
    script, places = write(tmp_path, asked=ASKED), [tmp_path / "built", tmp_path / "image"]
    ask = partial(run, script, cache="")  # beside the package
    shutil.copytree(PACKAGE, places[0] / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    right, *known = ask(PYTHONPATH=str(places[0]))
    assert known == [0, 1]
    shutil.copytree(places[0], places[1], copy_function=shutil.copyfile)
    mechanisms = places[1] / PACKAGE.name / "mechanisms"
    another = "# a comment\n\n@entry\ndef _another(channel):\n    return 1.0\n\n\n"
    edit(mechanisms / "_statistic_releases.py", "@entry\ndef log_densities", f"{another}@entry\ndef log_densities")
    edit(mechanisms / "_statistic_releases.py", "    constant = 0.0  #", "    constant = 1.0  #")  # of another entry
    old, new = "return -abs(e) / scale", "return -2.0 * abs(e) / scale"
    edit(mechanisms / "_laplace.py", old, f"'''What it says.'''\n        {old}")
    assert ask(PYTHONPATH=str(places[1])) == [right, 1, 0]
    edit(mechanisms / "_laplace.py", old, new)
    answer, *known = ask(PYTHONPATH=str(places[1]))
    assert known == [0, 1] and answer != right


def test_where_no_folder_can_be_written_nothing_is_kept(monkeypatch):
    """numba's own ``cache=True`` would fail on import."""

    def nowhere(function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("sklearn_dpmix._base.compiled._Cache", nowhere)
    assert entry(lambda channel: 1.0)(NoNoise()._lower()) == 1.0


# ---------------------------------------------------------------- what is linked


@COMPILES
@pytest.mark.parametrize("names", [("middle", "leaf"), ("leaf", "middle")])
def test_a_part_is_linked_after_all_that_call_it(names):
    """Catches a call of address 0: LLVM drops a part that nothing calls at the time when it is linked."""
    part = {name: object.__new__(Part) for name in ("top", "middle", "leaf")}
    part["top"]._linking_libraries = [part[name] for name in names]
    part["middle"]._linking_libraries, part["leaf"]._linking_libraries = [part["leaf"]], []
    assert reached(part["top"]) == [part["middle"], part["leaf"]]


@COMPILES
def test_what_the_prior_says_far_away_is_compiled():
    """The case in which a part was missing: a branch that is never taken names it, and so does another part."""
    kernel = BetaKernel(bounds=(0, 1))._lower(n_features=1)
    theta = np.array([[2.0, 3.0, np.log(12.0), 0.0]])
    start, X = np.array([0, 1]), np.array([[0.5], [1.0]])
    found = mixture_log_predictive(kernel, start, np.zeros(1), theta, X)
    np.testing.assert_allclose(found, [np.log(1.5), -np.inf])


# ---------------------------------------------------------------- what the digest sees


@COMPILES
def test_a_function_that_the_digest_does_not_see_is_named(tmp_path, monkeypatch):
    """All tests watch for it (``conftest.py``); a digest that looks into no callee is the broken twin."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @helper
    def inner(y):
        return 2.0 * y

    @helper
    def outer(y):
        return inner(y) + 1.0

    def level(channel, y):
        return outer(y)

    channel = NoNoise()._lower()
    assert entry(level)(channel, 1.0) == 3.0
    visit = Reach.visit_definition
    monkeypatch.setattr(Reach, "visit_definition", lambda self, obj: visit(self, obj) if obj is level else None)
    with pytest.raises(AssertionError, match=r"digest of .*level does not see \['.*inner'\]"):
        entry(level)(channel, 1)


@COMPILES
def test_threads_may_be_the_first_to_use_a_component():
    """Eight threads meet a class for the first time at one moment."""
    notebook = {"__name__": "__main__", "AdditiveMechanism": AdditiveMechanism, "compiled": compiled, "SHIFT": 0.125}
    exec(CELL, notebook)
    barrier, answers = threading.Barrier(8), []

    def ask():
        barrier.wait()
        answers.append(float(notebook["Own"]().log_density([[3.0]], [[0.0]])[0]))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [6.125] * 8
