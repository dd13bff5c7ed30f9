"""Components as values for compiled code, and references to arrays."""

import os
import pickle
import sys
import types

import cloudpickle
import numba
import numpy as np
import pytest
from numba.core import event
from scipy import stats
from scripts import COMPILES, run, write

import sklearn_dpmix
from sklearn_dpmix._base.compiled import Value, apart, compiled, entry, helper, lower
from sklearn_dpmix._base.memory import ComponentType
from sklearn_dpmix.kernels import ConvolvedNormalKernel, Kernel, NormalKernel
from sklearn_dpmix.mechanisms import AdditiveMechanism, GaussianMechanism, LaplaceMechanism, NoNoise, RecordChannel
from sklearn_dpmix.mechanisms._statistic_releases import log_densities
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.models import RecordModel
from sklearn_dpmix.samplers import Neal5

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


def test_a_subclass_shares_compiled_code_unless_it_changes_it():
    """Catches a twin that is compiled again for a Python method of its own, and one that runs another's code."""

    class Bare(LaplaceMechanism):
        """Other Python."""

        def privatize(self, X, random_state=None):
            return X

    class Bent(Bare):
        @compiled
        def log_noise(self, e, scale):
            return -abs(e)

    kinds = [numba.typeof(kind(scale=2.0)._lower(n_records=1, n_features=1)) for kind in (LaplaceMechanism, Bare, Bent)]
    assert kinds[0] == kinds[1] and kinds[0].owner != kinds[2].owner  # its arrays' types, too
    assert kinds[0].digest != kinds[2].digest


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
    assert log_densities(channel, Z, np.array([[0.5]]))[0] == 1.0 + 300.0 + 5000.0


@COMPILES
@pytest.mark.parametrize("component", [LaplaceMechanism(scale=2.0), Steps([0.0, 1.0, 5.0])], ids=repr)
def test_calls_leave_no_references_behind(component):
    channel, Z = component._lower(n_records=3, n_features=1), np.zeros((3, 1))
    parts = [channel, Z, *(getattr(channel, name) for name in channel._fields)]
    log_densities(channel, Z, Z)
    before = [sys.getrefcount(part) for part in parts]
    for _ in range(1000):
        log_densities(channel, Z, Z)
    assert np.max(np.subtract([sys.getrefcount(part) for part in parts], before)) < 100


# ------------------------------------------------------------ references to arrays


@COMPILES
def test_helpers_are_called_from_wherever_compiled_code_is():
    """Catches code of a helper's helper that is missing, or there twice, by way of a user's own compiled function."""
    inner = helper(lambda x: 2.0 * x)
    outer = apart(lambda x: inner(x) + 1.0)
    users = numba.njit(lambda x: outer(x) + inner(x))
    ours = entry(lambda value, x: users(x) + outer(x) + inner(x))
    assert users(3.0) == 13.0
    assert ours(NoNoise()._lower(), 3.0) == 26.0
    assert users(3) == 13.0


@COMPILES
@pytest.mark.parametrize("first", [True, False])
def test_a_helper_is_compiled_alike_whoever_calls_it_first(first):
    """Catches digits that depend on what a process compiled before: a first caller's fastmath would be the helper's."""
    lost = helper(lambda x, y: (x + y) - x)
    callers = [numba.njit(fastmath=is_fast)(lambda x, y: 2.0 * lost(x, y)) for is_fast in (first, not first)]
    assert [caller(1e20, 1.0) for caller in callers] == [0.0, 0.0]


@pytest.mark.parametrize(
    "base, name",
    [
        (Kernel, "log_tilted_mass"),
        (AdditiveMechanism, "log_noise"),
        (RecordChannel, "log_channel"),
        (RecordModel, "update_theta"),
    ],
)
def test_an_unmarked_method_is_named(base, name):
    """No base class has it, so nothing is overridden; compiled code would not find it."""
    marked, unmarked = (
        type("Own", (base,), {name: how(lambda self: 0.0), "__module__": "__main__"}) for how in (compiled, lambda f: f)
    )
    lower(marked, {})
    with pytest.raises(TypeError, match=rf"Own.{name} is called by compiled code: mark it with @compiled"):
        lower(unmarked, {})


@COMPILES
def test_numbas_timers_run_again_after_a_compilation():
    """While entries compile they are not told of calls of LLVM."""
    heard = []

    class Listener(event.Listener):
        def on_start(self, event):
            heard.append(event)

        def on_end(self, event):
            heard.append(event)

    ours = entry(lambda value, x: x + 1.0)
    with event.install_listener("numba:llvm_lock", Listener()):
        assert ours(NoNoise()._lower(), 3.0) == 4.0
        n_heard = len(heard)
        assert numba.njit(lambda x: x + 2.0)(3.0) == 5.0
    assert len(heard) > n_heard + 10


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


@pytest.mark.nightly
@COMPILES
def test_references_to_arrays_are_balanced(tmp_path):
    """Catches arrays that are never freed, because one side of a call counts references and the other does not."""
    cache = os.environ.get("NUMBA_CACHE_DIR", "")
    found = run(write(tmp_path, fits=REFERENCES), cache=cache, NUMBA_NRT_STATS="1")
    n_arrays, n_freed, n_counted, n_given_back = found
    assert 0 < n_arrays == n_freed
    assert 0 < n_counted == n_given_back
