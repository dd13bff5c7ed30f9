"""A user's own components work in fifteen lines, and the compile cache never gives an old answer.

Scripts are written to a temporary folder and run in processes of their own, as a user would run them.
"""

import ast
import json
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap
import threading
import types

import cloudpickle
import numba
import numpy as np
import oracle
import pytest
from numba.core.caching import FunctionCache
from scipy import stats
from statistical import Disagreement, assert_mean_close, assert_pmf_close

import sklearn_dpmix
from sklearn_dpmix._compiled import ComponentType, Reach, Value, compiled, entry, helper, lower
from sklearn_dpmix.kernels import ConvolvedNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import AdditiveMechanism, GaussianMechanism, LaplaceMechanism, NoNoise, RecordChannel
from sklearn_dpmix.mechanisms._additive import _log_density
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers import Neal5

PACKAGE = pathlib.Path(sklearn_dpmix.__file__).parent
COMPILES = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def run(script, *arguments, cache, **environment):
    """Run a script in its own process, with a numba cache of its own; return what its last line says, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=script.parent,
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE.parent),
            "NUMBA_CACHE_DIR": str(cache),
            "PYTHONDONTWRITEBYTECODE": "1",  # Python's own cache misses edits within one second
            **environment,
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def write(folder, **files):
    """Write ``name="source"`` files; return the path of the first."""
    for name, source in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
    return folder / f"{next(iter(files))}.py"


def edit(path, old, new):
    source = path.read_text()
    assert source.count(old) == 1, (old, source)
    path.write_text(source.replace(old, new))


# ---------------------------------------------------------------- a user's own mechanism and kernel


OWN_LAPLACE = """
    import json, sys
    import numpy as np
    from math import log
    from joblib import parallel_config
    from sklearn_dpmix import PrivateDPMixture
    from sklearn_dpmix.kernels import NormalKernel
    from sklearn_dpmix.mechanisms import AdditiveMechanism, compiled
    from sklearn_dpmix.samplers._run import run

    class OwnLaplace(AdditiveMechanism):
        def __init__(self, scale=1.0, *, bounds=None):
            self.scale = scale
            self.bounds = bounds

        @compiled
        def log_noise(self, e, scale):
            return -abs(e) / scale - log(2.0 * scale)

        def draw_noise(self, rng, scale, size):
            return rng.laplace(scale=scale, size=size)

    if __name__ == "__main__":
        n_draws, backend, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
        kernel = NormalKernel(mean=0.4, mean_precision=0.3, shape=2.5, scale=1.7)
        model = PrivateDPMixture(
            OwnLaplace(1.0, bounds=(-2, 3)), kernel=kernel, sampler="neal5", n_chains=2, n_warmup=20, n_draws=n_draws,
            thin=1 if n_draws < 1000 else 10, random_state=0, n_jobs=2,
        )
        with parallel_config(backend):
            model.fit([[-3.1], [-0.9], [0.2], [2.9]])
        np.savez(out, clusters=model.n_clusters_draws_, density=model.density_draws([[-2.0], [0.0], [2.5]]))
        stats = getattr(run, "stats", None)
        print(json.dumps({
            "hits": sum(stats.cache_hits.values()) if stats else 0,
            "misses": sum(stats.cache_misses.values()) if stats else 0,
        }))
"""


def agrees_with_oracle(draws, noise_scale):
    """Raise Disagreement unless the script's draws are of the exact posterior under Laplace noise."""
    exact = oracle.exact_posterior(
        [-3.1, -0.9, 0.2, 2.9], noise="laplace", noise_scale=noise_scale, bounds=(-2, 3),
        mean=0.4, mean_precision=0.3, shape=2.5, scale=1.7, x=[-2.0, 0.0, 2.5],
    )  # fmt: skip
    assert_pmf_close(draws["clusters"], exact.n_clusters_pmf)
    assert_mean_close(draws["density"], exact.predictive, what="predictive density")


@COMPILES
@pytest.mark.slow
def test_a_script_with_its_own_mechanism(tmp_path):
    """Its posterior is exact; rerun it hits the cache; loky and plain Python draw the same; edited, it draws anew."""
    script, out, cache = write(tmp_path, own_laplace=OWN_LAPLACE), tmp_path / "out.npz", tmp_path / "cache"

    def draws(n_draws, backend="threading", **environment):
        said = run(script, n_draws, backend, out, cache=cache, **environment)
        with np.load(out) as saved:
            return said, dict(saved)

    said, first = draws(20_000)
    assert (said["hits"], said["misses"]) == (0, 1)
    agrees_with_oracle(first, 1.0)
    with pytest.raises(Disagreement):
        agrees_with_oracle(first, 1.5)

    said, again = draws(20_000)
    assert (said["hits"], said["misses"]) == (1, 0)
    for name in first:
        np.testing.assert_array_equal(again[name], first[name])

    _, few = draws(40)
    for backend, environment in (("loky", {}), ("threading", {"NUMBA_DISABLE_JIT": "1"})):
        _, same = draws(40, backend, **environment)
        np.testing.assert_array_equal(same["clusters"], few["clusters"])
        np.testing.assert_allclose(same["density"], few["density"], rtol=1e-12)

    edit(script, "-abs(e) / scale - log(2.0 * scale)", "-abs(e) / (1.5 * scale) - log(3.0 * scale)")
    said, edited = draws(20_000)
    assert (said["hits"], said["misses"]) == (0, 1)
    agrees_with_oracle(edited, 1.5)


OWN_KERNEL = """
    import json, sys
    import numpy as np
    from math import erfc, exp, log, pi, sqrt
    from sklearn_dpmix import PrivateDPMixture
    from sklearn_dpmix.kernels import Kernel
    from sklearn_dpmix.mechanisms import RecordChannel, compiled

    class OneBit(RecordChannel):  # +1 or -1, with mean y·tanh(ε/2) for records in [-1, 1]
        def __init__(self, epsilon=1.0):
            self.epsilon = epsilon

        @compiled
        def log_channel(self, Z, i, j, y):
            tanh = 1.0 - 2.0 / (exp(self.epsilon) + 1.0)
            return log(0.5 + 0.5 * Z[i, j] * min(max(y, -1.0), 1.0) * tanh)

    class KnownVariance(Kernel):  # N(y | μ, sd²), μ ~ N(0, spread²)
        def __init__(self, sd=0.5, spread=2.0):
            self.sd = sd
            self.spread = spread

        def sizes(self, n_features):
            return n_features, n_features

        @compiled
        def draw_prior(self, rng, theta, k):
            for j in range(self.n_features):
                theta[k, j] = self.spread * rng.standard_normal()

        @compiled
        def add(self, stats, k, j, y, sign):
            stats[k, j] += sign * y

        @compiled
        def update_params(self, rng, theta, k, stats, n):
            precision = 1.0 / self.spread**2 + n / self.sd**2
            for j in range(self.n_features):
                theta[k, j] = stats[k, j] / self.sd**2 / precision + rng.standard_normal() / sqrt(precision)

        @compiled
        def log_likelihood(self, theta, k, j, y):
            return -0.5 * ((y - theta[k, j]) / self.sd) ** 2 - 0.5 * log(2.0 * pi * self.sd**2)

        @compiled
        def draw(self, rng, theta, k, j):
            return theta[k, j] + self.sd * rng.standard_normal()

        @compiled
        def cdf(self, theta, k, j, y):
            return 0.5 * erfc((theta[k, j] - y) / (self.sd * sqrt(2.0)))

        @compiled
        def mean(self, theta, k, j):
            return theta[k, j]

        @compiled
        def variance(self, theta, k, j):
            return self.sd**2

    if __name__ == "__main__":
        model = PrivateDPMixture(
            OneBit(4.0), kernel=KnownVariance(), sampler="neal5", n_chains=2, n_warmup=50, n_draws=20_000, thin=5,
            random_state=0,
        ).fit([[1.0], [-1.0], [1.0], [1.0]])
        np.savez(sys.argv[1], clusters=model.n_clusters_draws_, density=model.density_draws([[-1.0], [0.0], [1.0]]))
        print(json.dumps({"labels": model.labels_.tolist(), "score": model.score_release([[1.0], [-1.0]])}))
"""


def posterior_by_importance(z, epsilon, x, *, sd=0.5, spread=2.0, size=1_000_000, seed=0):
    """The same posterior by brute force: draw partition, means and records from the prior, weigh by the channel.

    Returns the probabilities of 0..n clusters and the predictive density at x, each with its standard error.
    """
    rng = np.random.default_rng(seed)
    n = len(z)
    alloc, n_clusters = np.zeros((size, n), np.int64), np.ones(size, np.int64)
    for i in range(1, n):  # the urn, concentration 1: an earlier record's cluster, or a new one
        who = rng.integers(0, i + 1, size)
        alloc[:, i] = np.where(who == i, n_clusters, alloc[np.arange(size), np.minimum(who, i - 1)])
        n_clusters += who == i
    theta = spread * rng.standard_normal((size, n))
    own = np.take_along_axis(theta, alloc, axis=1)
    y = np.clip(own + sd * rng.standard_normal((size, n)), -1, 1)
    weight = np.prod(0.5 + 0.5 * np.asarray(z) * y * np.tanh(0.5 * epsilon), axis=1)
    density = np.array([stats.norm.pdf(point, own, sd).sum(axis=1) for point in x]).T
    density = (density + stats.norm.pdf(x, 0, np.hypot(sd, spread))) / (n + 1)
    values = np.column_stack([n_clusters[:, None] == np.arange(n + 1), density])
    share = weight / weight.sum()
    mean = share @ values
    error = np.sqrt(share**2 @ (values - mean) ** 2)
    return mean[: n + 1], mean[n + 1 :], error[: n + 1], error[n + 1 :]


@COMPILES
@pytest.mark.slow
def test_a_script_with_its_own_channel_and_kernel(tmp_path):
    """A channel that is no noise and a kernel of one parameter: against importance sampling from the prior."""
    script = write(tmp_path, own_kernel=OWN_KERNEL)
    said = run(script, tmp_path / "out.npz", cache=tmp_path / "cache")
    assert len(said["labels"]) == 4 and np.log(0.1) < said["score"] < 0
    with np.load(tmp_path / "out.npz") as saved:
        draws = dict(saved)

    def check(epsilon):
        pmf, density, pmf_error, density_error = posterior_by_importance([1, -1, 1, 1], epsilon, [-1.0, 0.0, 1.0])
        assert max(*pmf_error, *density_error) < 2e-3
        # the expected value is itself a draw: judge the chains at the ends of its interval
        z = stats.norm.isf(1e-6)
        for k in range(1, 5):
            is_k = (draws["clusters"] == k).astype(float)
            nearest = np.clip(is_k.mean(), pmf[k] - z * pmf_error[k], pmf[k] + z * pmf_error[k])
            assert_mean_close(is_k, nearest, what=f"P({k} clusters)")
        found = draws["density"].mean(axis=(0, 1))
        assert_mean_close(draws["density"], np.clip(found, density - z * density_error, density + z * density_error))

    check(4.0)
    with pytest.raises(Disagreement):
        check(1.0)


# ---------------------------------------------------------------- the cache never lies


EDITED = """
    import json, sys
    from math import log
    import noise_formula
    from noise_formula import bend
    from joblib import Parallel, delayed
    from sklearn_dpmix.mechanisms import AdditiveMechanism, compiled
    from sklearn_dpmix.mechanisms._additive import _log_density

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
        stats = _log_density.stats
        return value, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())

    if __name__ == "__main__":
        if sys.argv[1] == "loky":
            answers = Parallel(n_jobs=2, backend="loky")(delayed(ask)() for _ in range(4))
        else:
            answers = [ask()]
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

    def expect(value, hits, misses, how="alone"):
        answers = np.array(run(script, how, cache=cache))
        np.testing.assert_allclose(answers[:, 0], value, rtol=1e-14)
        assert np.all(answers[:, 1] <= hits) and np.all(answers[:, 2] <= misses), answers

    expect(-4 / 2 + 0.75, hits=0, misses=1)
    edit(script, "# a comment", "# another comment\n")
    expect(-4 / 2 + 0.75, hits=1, misses=0)  # what is only said is not compiled
    expect(-4 / 2 + 0.75, hits=1, misses=0, how="loky")  # by value from __main__: still the same
    edit(script, "-1.0 * bend(e)", "-3.0 * bend(e)")
    expect(-12 / 2 + 0.75, hits=0, misses=1)
    edit(formula, "return e**POWER", "return e**POWER + 1.0")
    expect(-15 / 2 + 0.75, hits=0, misses=2, how="loky")
    edit(formula, "POWER = 2", "POWER = 3")
    expect(-27 / 2 + 0.75, hits=0, misses=1)
    edit(formula, "SHIFT = 0.5", "SHIFT = 2.5")
    expect(-27 / 2 + 2.75, hits=0, misses=1)
    edit(script, "OFFSET = 0.25", "OFFSET = 1.25")
    expect(-27 / 2 + 3.75, hits=0, misses=1)


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
    known = len(_log_density.overloads)
    assert answer("# run again\n" + CELL) == 6.5
    assert len(_log_density.overloads) == known
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
    from sklearn_dpmix.mechanisms._additive import _log_density

    if sys.argv[1] == "numba":
        _log_density._cache = FunctionCache(_log_density.py_func)
    mechanisms = LaplaceMechanism(scale=1.0), GaussianMechanism(scale=1.0)
    print(json.dumps([float(m.log_density([[3.0]], [[0.0]])[0]) for m in mechanisms]))
"""


@COMPILES
@pytest.mark.slow
def test_an_entry_under_another_name_is_a_miss(tmp_path):
    """What two processes that write the index at one time can leave behind; numba alone then mixes the two up."""
    script, cache = write(tmp_path, swapped=SWAPPED), tmp_path / "cache"
    right = run(script, "ours", cache=cache)
    first, second = sorted(cache.rglob("*_log_density*.nbc"))
    contents = first.read_bytes(), second.read_bytes()

    def swap():
        second.write_bytes(contents[0])
        first.write_bytes(contents[1])

    swap()
    assert run(script, "numba", cache=cache) != right  # the broken twin
    swap()
    assert run(script, "ours", cache=cache) == right
    assert run(script, "numba", cache=cache) == right  # and the folder is clean again


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


def test_where_no_folder_can_be_written_nothing_is_kept(monkeypatch):
    """numba's own ``cache=True`` would fail on import."""

    def nowhere(function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("sklearn_dpmix._compiled._Cache", nowhere)
    assert entry(lambda channel: 1.0)(NoNoise()._lower()) == 1.0


# ---------------------------------------------------------------- the digest


BASE = """
import enum
import math
import types
from typing import NamedTuple
import numpy as np
from numba import njit, vectorize
from numba.extending import overload, register_jitable
from sklearn_dpmix.mechanisms import AdditiveMechanism, GaussianMechanism, LaplaceMechanism, compiled

class Point(NamedTuple):
    x: float = 1.0
    y: float = 2.0

class Colour(enum.IntEnum):
    RED = 1

POINT = Point(1.0, 2.0)
TABLE = np.array([1.0, 2.0])
NESTED = (1.0, (2.0, 1.0))
tools = types.ModuleType("tools")
tools.scale = 2.0
tools.unused = 0.0

@njit
def one(e):
    return 1.0 * e

@njit(fastmath=False)
def two(e):
    return 2.0 * e

@vectorize
def three(e):
    return 3.0 * e

@register_jitable
def four(e, times=4.0):
    return times * e

def five(e):
    pass

@overload(five)
def five_compiled(e):
    def implementation(e):
        return 5.0 * e
    return implementation

def maker(c):
    @njit
    def made(e):
        return c * e
    return made

first, second, third = one, two, one
closure = maker(6.0)
other = maker(7.0)

class Own(LaplaceMechanism):
    '''Docstring.'''

    @compiled
    def log_noise(self, e, scale):
        '''Docstring.'''
        if e == Colour.RED or e in (7.0, 8.0):
            return math.log(e)
        total = first(e) + second(e) + third(e) + three(e) + four(e) + five(e) + closure(e) + other(e)
        return total + POINT.x + TABLE[0] + NESTED[1][1] + tools.scale + self.bend(e)

    @compiled
    def bend(self, e):
        return e if e > 0.0 else [v for v in (-e,)][0]
"""
SAME = [
    ("'''Docstring.'''\n\n", "'''Another one.'''\n\n"),
    ("        '''Docstring.'''\n        if", "        '''Another one.'''\n        if"),
    ("class Own", "# a comment\nclass Own"),
    ("tools.unused = 0.0", "tools.unused = 1.0"),
]
DIFFERENT = [
    ("return 1.0 * e", "return 1.5 * e"),
    ("fastmath=False", "fastmath=True"),
    ("return 3.0 * e", "return 3.5 * e"),
    ("times=4.0", "times=4.5"),
    ("return 5.0 * e", "return 5.5 * e"),
    ("maker(6.0)", "maker(6.5)"),
    ("maker(6.0)\nother = maker(7.0)", "maker(7.0)\nother = maker(6.0)"),
    ("third = one, two, one", "third = one, two, two"),  # both seen before: which one counts
    ("third = one, two, one", "third = one, one, two"),
    ("x: float = 1.0\n    y: float = 2.0", "y: float = 2.0\n    x: float = 1.0"),  # POINT is (1.0, 2.0) still
    ("RED = 1", "RED = 2"),
    ("np.array([1.0, 2.0])", "np.array([1.0, 2.5])"),
    ("np.array([1.0, 2.0])", "np.array([1.0, 2.0], np.float32)"),
    ("(1.0, (2.0, 1.0))", "(1.0, (2.0, 2.0))"),
    ("tools.scale = 2.0", "tools.scale = 2.5"),
    ("math.log(e)", "math.exp(e)"),
    ("(7.0, 8.0)", "(7.0, 7.0)"),
    ("class Own(LaplaceMechanism)", "class Own(GaussianMechanism)"),  # its inherited methods are others
    ("    @compiled\n    def bend", "    log_weight = GaussianMechanism.log_weight\n\n    @compiled\n    def bend"),
    ("def bend(self, e)", "def bend(self, e, more=1.0)"),
    ("def bend(self, e)", "def bend(self, e, *more)"),
    ("(-e,)", "(e,)"),
    ("e > 0.0", "e >= 0.0"),
]


def digest_of(source):
    namespace = {"__name__": "a_script"}
    exec(compile(source, "<script>", "exec"), namespace)
    return namespace["Own"](scale=1.0)._lower(n_records=1, n_features=1)._numba_type.digest


@pytest.mark.parametrize("old, new", SAME)
def test_the_digest_ignores_what_is_not_compiled(old, new):
    assert BASE.count(old) == 1
    assert digest_of(BASE.replace(old, new)) == digest_of(BASE)


@COMPILES
@pytest.mark.parametrize("old, new", DIFFERENT)
def test_the_digest_sees_every_edit(old, new):
    """Each of these would change the answer, and an older digest of this package missed some."""
    assert BASE.count(old) == 1
    assert digest_of(BASE.replace(old, new)) != digest_of(BASE)


def test_the_digest_is_the_same_in_another_process(tmp_path):
    """Else nothing would ever hit the cache; string hashing and the order of sets differ between processes."""
    script = tmp_path / "digest.py"
    source = BASE.replace("(7.0, 8.0)", "('a', 'b', 'c')").replace("e in (", "e in {").replace("'c')", "'c'}")
    assert source != BASE
    tail = "import json\nprint(json.dumps(Own(scale=1.0)._lower(n_records=1, n_features=1)._numba_type.digest))\n"
    script.write_text(source + tail)
    digests = {run(script, cache=tmp_path, PYTHONHASHSEED=str(seed)) for seed in (1, 2)}
    assert len(digests) == 1


def test_what_cannot_be_named_is_never_shared_between_processes():
    """A thing without a pickle gets a mark of this process; within it the digest stays the same."""
    lock = threading.Lock()
    marks = []
    for _ in range(2):
        reach = Reach()
        reach.visit(lock)
        marks.append(reach.hexdigest())
    assert marks[0] == marks[1]
    reach = Reach()
    reach.visit(threading.Lock())
    assert reach.hexdigest() != marks[0]


def test_a_pinned_function_counts_by_its_name_whatever_wraps_it():
    """functools.wraps lends a user's function the name of a library's; its code must be seen all the same."""

    def digest(c):
        def helper(e):
            return c * e

        helper.__module__, helper.__qualname__ = "numpy", "exp"
        reach = Reach()
        reach.visit(helper)
        return reach.hexdigest()

    assert digest(1.0) != digest(2.0)


# ---------------------------------------------------------------- values


def components():
    """Every component of the package with its value."""
    context = {"n_records": 3, "n_features": 2, "noise_scale": 1.0}
    kernel = {"mean": 0.0, "scale": 1.0}
    for component in (
        LaplaceMechanism(scale=[1.0, 2.0, 3.0], bounds=(0, 1)),
        GaussianMechanism(1.0, 0.1, bounds=(0, 1)),
        NoNoise(),
        NormalKernel(**kernel),
        ConvolvedNormalKernel(**kernel),
        DirichletProcess(2.0),
        PitmanYor(1.0, 0.5),
        MixtureOfFiniteMixtures(0.5, [0.5, 0.5]),
        Neal5(n_auxiliary=3),
    ):
        yield pytest.param(component, component._lower(**context), id=type(component).__name__)


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
@pytest.mark.parametrize("component, value", list(components()))
def test_components_and_values_pickle(component, value, pickler):
    """A value that comes back has the same type for numba, so that a worker process hits the same cache entry."""
    assert repr(pickler.loads(pickler.dumps(component))) == repr(component)
    copy = pickler.loads(pickler.dumps(value))
    assert isinstance(copy, Value) and numba.typeof(copy) == numba.typeof(value)
    for name in value._fields:
        np.testing.assert_array_equal(getattr(copy, name), getattr(value, name))
    kind = numba.typeof(value)
    assert pickler.loads(pickler.dumps(kind)) == kind and isinstance(kind, ComponentType)


def test_fields_are_read_only_and_their_type_does_not_depend_on_the_array():
    """A worker maps arrays from memory read-only: the compiled code must be the same."""
    frozen = np.ones(3)
    frozen.flags.writeable = False
    strided = np.ones(6)[::2]
    kinds = {numba.typeof(lower(NoNoise, {"a": array})) for array in (np.ones(3), frozen, strided)}
    assert len(kinds) == 1
    value = lower(NoNoise, {"a": np.ones(3)})
    with pytest.raises(ValueError, match="read-only"):
        value.a[0] = 2.0


def test_values_run_as_plain_python():
    """The compiled methods of a value are its class's functions."""
    value = LaplaceMechanism(scale=2.0)._lower(n_records=1, n_features=1)
    assert value.log_noise(3.0, 2.0) == pytest.approx(stats.laplace.logpdf(3.0, scale=2.0))


class Steps(RecordChannel):
    """A user's component with an array as parameter."""

    def __init__(self, edges):
        self.edges = edges

    @compiled
    def log_channel(self, Z, i, j, y):
        return np.searchsorted(self.edges, y) + 100.0 * len(self.edges) + 1000.0 * self.edges[-1]


@COMPILES
def test_an_array_of_a_users_component_is_an_array():
    """Its length, negative indices and NumPy's functions; a bare pointer would read beyond its end."""
    channel, Z = Steps([0.0, 1.0, 5.0])._lower(n_records=1, n_features=1), np.zeros((1, 1))
    assert _log_density(channel, Z, np.array([[0.5]]))[0] == 1.0 + 300.0 + 5000.0


@COMPILES
@pytest.mark.parametrize("component", [LaplaceMechanism(scale=2.0), Steps([0.0, 1.0, 5.0])], ids=repr)
def test_calls_leave_no_references_behind(component):
    channel, Z = component._lower(n_records=3, n_features=1), np.zeros((3, 1))
    parts = [channel, Z, *(getattr(channel, name) for name in channel._fields)]
    _log_density(channel, Z, Z)
    before = [sys.getrefcount(part) for part in parts]
    for _ in range(1000):
        _log_density(channel, Z, Z)
    assert np.max(np.subtract([sys.getrefcount(part) for part in parts], before)) < 100


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


# ---------------------------------------------------------------- layers

#: What each part of the package may import of it, besides its own files.  Nothing below knows what is above it.
LAYERS = {
    "_typing": set(),
    "_compiled": set(),
    "_files": set(),
    "_numeric": set(),
    "_vector": set(),
    "_random": set(),
    "_parameters": set(),
    "_beta": {"_compiled"},
    "_partition_loss": {"_compiled"},
    "_partition_search": {"_compiled"},
    "_partition": {"_partition_loss", "_partition_search"},
    "privacy": {"_files"},
    "mechanisms": {"_compiled", "_numeric", "_vector", "_random", "_parameters", "privacy"},
    "kernels": {"_compiled", "_numeric", "_beta", "_vector", "_parameters"},
    "mixings": {"_compiled", "_numeric", "_vector"},
    "_linear": {"_compiled"},
    "models": {"_beta", "_compiled", "_linear", "_numeric", "_parameters"},
    "queries": {"_parameters", "_random", "models", "privacy"},
    "samplers": {"_compiled", "_numeric", "_parameters", "_vector"},
    "plotting": {"_draws", "_parameters", "_partition", "metrics"},
}


def sources():
    """(part of the package, path, syntax tree) of each file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        yield part, path, ast.parse(path.read_text())


def imported_parts(path, tree):
    """Parts of the package that a file imports, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            package = path.relative_to(PACKAGE.parent).with_suffix("").parts
            start = package[: len(package) - node.level] if node.level else ()
            if path.name == "__init__.py" and node.level:
                start = package[: len(package) - node.level]
            found = (*start, *(node.module or "").split(".")) if node.module else start
            if found and found[0] == PACKAGE.name:
                names = [found[1]] if len(found) > 1 else [alias.name for alias in node.names]
                yield from names
        elif isinstance(node, ast.Import):
            for alias in node.names:
                root, _, rest = alias.name.partition(".")
                if root == PACKAGE.name:
                    yield rest.partition(".")[0]


def test_nothing_imports_what_is_above_it():
    """Data flows one way (STYLE): compiled base, components, samplers, estimators."""
    seen = set()
    for part, path, tree in sources():
        if part in LAYERS:
            seen.add(part)
            extra = set(imported_parts(path, tree)) - LAYERS[part] - {part, "_typing"}
            assert not extra, f"{path} imports {extra}"
        if part not in ("estimators", "__init__"):
            assert "estimators" not in imported_parts(path, tree), path
        if part != "plotting":
            assert "plotting" not in imported_parts(path, tree), path
    assert seen == set(LAYERS)


def test_the_import_walker_sees_every_kind_of_import():
    """The broken twin: a mechanism's file that reaches up, in each way of writing it."""
    path = PACKAGE / "mechanisms" / "_laplace.py"
    for line, part in (
        ("from ..samplers import Neal5", "samplers"),
        ("from .. import samplers", "samplers"),
        ("from ..samplers._neal5 import Neal5", "samplers"),
        ("import sklearn_dpmix.samplers", "samplers"),
        ("from sklearn_dpmix.estimators import PrivateDPMixture", "estimators"),
        ("def f():\n    from ..estimators import PrivateDPMixture", "estimators"),
        ("from ._additive import AdditiveMechanism", "mechanisms"),
        ("from . import _additive", "mechanisms"),
    ):
        assert list(imported_parts(path, ast.parse(line))) == [part], line
    init = PACKAGE / "mechanisms" / "__init__.py"
    assert list(imported_parts(init, ast.parse("from ._laplace import LaplaceMechanism"))) == ["mechanisms"]
    assert list(imported_parts(init, ast.parse("from ..samplers import Neal5"))) == ["samplers"]


def calls_cache(node):
    """Whether a decorator or call asks numba for a disk cache by itself."""
    return isinstance(node, ast.Call) and any(
        word.arg == "cache" and not (isinstance(word.value, ast.Constant) and word.value.value is False)
        for word in node.keywords
    )


VALUES = {"sampler", "channel", "kernel", "mixing", "model", "mechanism", "query", "family"}


def dishonest_entries(tree):
    """Functions under ``@entry`` whose first argument is not used as a component's value, and any other disk cache."""
    for node in ast.walk(tree):
        if calls_cache(node):
            yield ast.unparse(node)
        if not isinstance(node, ast.FunctionDef):
            continue
        if any(isinstance(d, ast.Name) and d.id == "entry" for d in node.decorator_list):
            first = node.args.args[0].arg if node.args.args else None
            uses = {
                n.value.id for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
            } | {
                a.id for n in ast.walk(node) if isinstance(n, ast.Call) for a in n.args if isinstance(a, ast.Name)
            }  # fmt: skip
            if first not in VALUES or first not in uses:
                yield node.name


def test_every_cached_function_takes_a_component_first():
    """Else its cache entry would outlive the code that it was made of (see ``_compiled``)."""
    n_entries = 0
    for _, path, tree in sources():
        assert not list(dishonest_entries(tree)), path
        n_entries += path.read_text().count("\n@entry\n")
    assert n_entries >= 8


@pytest.mark.parametrize(
    "source",
    [
        "@entry\ndef f(Z, channel):\n    return channel.log_noise(Z)",
        "@entry\ndef f(channel, Z):\n    return Z.sum()",
        "@njit(cache=True)\ndef f(Z):\n    return Z",
        "g = numba.njit(nogil=True, cache=True)",
        "@entry\ndef f():\n    return 1",
    ],
)
def test_a_dishonest_entry_is_found(source):
    assert list(dishonest_entries(ast.parse(source)))


# ------------------------------------------------------------ references to arrays


@COMPILES
def test_a_helper_may_not_return_an_array_that_it_borrows():
    """Catches a caller that gives back a reference nobody took: memory freed while it is in use."""

    def the_same(x):
        return x

    array = (numba.typeof(np.zeros(1)),)
    modules = sklearn_dpmix.__name__, "__main__"
    ours, a_users = (types.FunctionType(the_same.__code__, {"__name__": module}) for module in modules)
    with pytest.raises(TypeError, match=r"the_same returns array.* write into an array instead"):
        helper(ours).compile(array)
    helper(a_users).compile(array)


REFERENCES = """
    import gc, json
    import numpy as np
    from numba.core.runtime import rtsys
    from sklearn_dpmix import PrivateDPMixture, PrivateExpFamilyGibbs
    from sklearn_dpmix.kernels import BetaKernel
    from sklearn_dpmix.mechanisms import HaarWaveletMechanism, LaplaceMechanism

    rng, short = np.random.default_rng(0), {"n_chains": 1, "n_warmup": 5, "n_draws": 20, "random_state": 0}
    X = rng.random((30, 1))
    for mechanism, kernel, sampler in (
        (LaplaceMechanism(20.0, bounds=(0, 1)), "normal", "auto"),
        (LaplaceMechanism(20.0, bounds=(0, 1)), "normal", "neal5"),
        (HaarWaveletMechanism(20.0, 2), BetaKernel(), "auto"),
    ):
        model = PrivateDPMixture(mechanism, kernel=kernel, sampler=sampler, **short)
        model.fit(mechanism.privatize(X, random_state=1)).score_samples(X)
    PrivateExpFamilyGibbs(LaplaceMechanism(scale=2.0), family="binomial", n_records=20, **short).fit([13.0])
    del model
    gc.collect()
    stats = rtsys.get_allocation_stats()
    print(json.dumps([stats.alloc, stats.free, stats.mi_alloc, stats.mi_free]))
"""


@COMPILES
def test_references_to_arrays_are_balanced(tmp_path):
    """Catches arrays that are never freed, because one side of a call counts references and the other does not."""
    cache = os.environ.get("NUMBA_CACHE_DIR", "")
    found = run(write(tmp_path, fits=REFERENCES), cache=cache, NUMBA_NRT_STATS="1")
    n_arrays, n_freed, n_counted, n_given_back = found
    assert 0 < n_arrays == n_freed
    assert 0 < n_counted == n_given_back
