"""What PrivateDPMixture takes and refuses: containers, bad records and parameters, fits that fail."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse
from short_fits import MECHANISM, RELEASE, mixture
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.compiled import Component, compiled
from sklearn_dpmix._chains import long_run
from sklearn_dpmix.estimators import _chain_estimator, _monitored_draws
from sklearn_dpmix.kernels import ConvolvedNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, RecordChannel
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers import MixtureSampler, Neal5

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return mixture().fit(RELEASE)


@pytest.fixture
def no_chains(monkeypatch):
    """Any chain that starts is an error; so nothing compiles either."""

    def start(*args, **kwargs):
        raise AssertionError("a chain was started")

    monkeypatch.setattr(_chain_estimator, "start_chains", start)
    monkeypatch.setattr(long_run, "run_chains", start)


def read_only(Z):
    Z = Z.copy()
    Z.flags.writeable = False
    return Z


@pytest.mark.parametrize(
    "container",
    [np.ndarray.tolist, read_only, np.asfortranarray, lambda Z: np.repeat(Z, 2, axis=1)[:, ::2], np.matrix.__base__],
    ids=["list", "read-only", "Fortran", "strided", "array"],
)
def test_containers_give_the_same_fit(container, fitted):
    """Catches a container that is read in another order, and compiled code that needs writable or contiguous arrays."""
    Z = RELEASE if container is np.ndarray else container(RELEASE)
    other = mixture().fit(Z)
    np.testing.assert_array_equal(other.n_clusters_draws_, fitted.n_clusters_draws_)
    np.testing.assert_array_equal(other.labels_, fitted.labels_)
    np.testing.assert_array_equal(other.score_samples(Z), fitted.score_samples(RELEASE))
    np.testing.assert_array_equal(other.density_interval(Z), fitted.density_interval(RELEASE))
    assert other.score_release(Z) == fitted.score_release(RELEASE)


def test_float32_is_converted_once(fitted):
    """Catches float32 arithmetic in the chains."""
    other = mixture().fit(RELEASE.astype(np.float32).astype(np.float64))
    np.testing.assert_array_equal(mixture().fit(RELEASE.astype(np.float32)).labels_, other.labels_)
    assert fitted.score_samples(RELEASE.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_keep_and_check_feature_names(library, fitted):
    """Catches column names that are dropped, or not compared at prediction."""
    frames = pytest.importorskip(library)
    other = mixture().fit(frames.DataFrame({"income": RELEASE[:, 0]}))
    np.testing.assert_array_equal(other.labels_, fitted.labels_)
    np.testing.assert_array_equal(other.feature_names_in_, ["income"])
    other.predict(frames.DataFrame({"income": [0.0]}))
    for method in (other.predict, other.score_samples, other.score_release, other.density_interval):
        with pytest.raises(ValueError, match="feature names should match"):
            method(frames.DataFrame({"age": [0.0]}))
    with pytest.warns(UserWarning, match="valid feature names"):
        other.predict([[0.0]])
    assert not hasattr(other.fit(RELEASE), "feature_names_in_")


def test_the_callers_array_is_left_alone():
    """Catches a fit that makes the caller's array read-only, or writes to it."""
    Z = RELEASE.copy()
    model = mixture().fit(Z)
    model.score_samples(Z), model.predict(Z)
    assert Z.flags.writeable
    np.testing.assert_array_equal(Z, RELEASE)


def test_the_caller_may_write_to_the_array():
    """Catches a fit that answers from an array which meanwhile holds the next batch."""
    Z, untouched = RELEASE.copy(), mixture().fit(RELEASE)
    model = mixture().fit(Z)
    Z += 100.0
    np.testing.assert_array_equal(model.labels_, untouched.labels_)
    np.testing.assert_array_equal(model.similarity(random_state=0), untouched.similarity(random_state=0))
    np.testing.assert_array_equal(model.partial_fit(Z).summary_.nodes(), untouched.partial_fit(Z).summary_.nodes())


def bad_records():
    column = np.zeros((4, 1))
    yield "NaN", np.array([[0.0], [np.nan]]), ValueError, "Z contains NaN"
    yield "inf", np.array([[0.0], [np.inf]]), ValueError, "Z contains infinity"
    yield "1-D", np.zeros(4), ValueError, "Reshape your data"
    yield "empty", np.zeros((0, 1)), ValueError, "0 sample"
    yield "no features", np.zeros((4, 0)), ValueError, "0 feature"
    yield "3-D", np.zeros((4, 1, 1)), ValueError, "dim 3"
    yield "text", np.array([["a"]]), ValueError, "holds text"
    yield "complex", column + 1j, ValueError, "Complex data not supported"
    yield "complex in a list", [[1.0 + 2.0j]], TypeError, "Z holds complex: pass real numbers"
    yield "sparse", scipy.sparse.csr_matrix(column), TypeError, "Sparse data"
    yield "number", 3.0, ValueError, "scalar"


@pytest.mark.parametrize(("Z", "error", "match"), [pytest.param(*rest, id=name) for name, *rest in bad_records()])
def test_bad_records_are_refused(no_chains, fitted, Z, error, match):
    """Catches records that reach a chain, or a prediction, though no density is defined for them."""
    with pytest.raises(error, match=match):
        mixture().fit(Z)
    for method in (fitted.predict, fitted.score_release):
        with pytest.raises(error, match=match):
            method(Z)
    for method in (fitted.score_samples, fitted.density_draws, fitted.density_interval, fitted.cdf_draws, fitted.score):
        with pytest.raises(error, match=match.replace("Z ", "X ")):
            method(Z)


def test_frames_of_text_and_without_rows_are_named():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"age": [1.0, 2.0], "town": ["a", "b"]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        with pytest.raises(ValueError, match="Z holds text in column 'town': pass numbers"):
            mixture().fit(frame)
    with pytest.raises(TypeError, match="Z holds missing values: pass real numbers"):
        mixture().fit(pd.DataFrame({"age": pd.Series([1.0, pd.NA], dtype=object)}))
    with pytest.raises(ValueError, match=r"Z is a LazyFrame, not its rows: pass Z\.collect\(\)"):
        mixture().fit(pl.DataFrame(columns).lazy())


def test_parameters_of_parts_that_are_not_there_are_named():
    model = mixture()
    for name, words in (("mixing__concentration", "mixing=None"), ("kernel__mean", "kernel='normal'")):
        with pytest.raises(ValueError, match=f"{name} cannot be set, as {words} has no parameters"):
            model.set_params(**{name: 2.0})
    model.set_params(mixing=DirichletProcess(), mixing__concentration=2.0)
    assert model.mixing.concentration == 2.0
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        model.set_params(nothing__mean=2.0)


def test_another_number_of_features_is_refused(fitted):
    """Catches a prediction that reads columns which the fit did not have."""
    methods = (fitted.predict, fitted.score_release, fitted.score_samples, fitted.density_draws, fitted.cdf_draws)
    for method in (*methods, fitted.density_interval):
        with pytest.raises(ValueError, match="X has 2 features, but PrivateDPMixture is expecting 1"):
            method(np.zeros((3, 2)))


class NoChannel(RecordChannel):
    """A mechanism that forgot its density."""


class NotAMechanism:
    epsilon = 1.0


class NoSweep(MixtureSampler):
    """A sampler that does nothing."""


class NoDraw(NormalKernel):
    """A kernel that lacks a method of every sampler."""

    draw = property(lambda self: (_ for _ in ()).throw(AttributeError("draw")))


class NoTilt(NormalKernel):
    """A kernel that integrates no tilt."""

    tilts = frozenset()


class HalfAMixing(Component):
    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        return -1


class Total:
    """A query: the sum of the records."""

    def value(self, X):
        return X.sum(axis=0)

    def sensitivity(self, norm):
        return 20.0


laplace, gaussian = LaplaceMechanism, GaussianMechanism


def bad_parameters():
    """(the parameters, the error, patterns that the message must have: name, value, remedy)."""
    for value in (-1.0, 0.0, np.nan, np.inf, "1", [[1.0]]):
        patterns = ["epsilon", "positive", re.escape(repr(value))]
        yield {"mechanism": laplace(value, bounds=(-10, 10))}, ValueError, patterns
    yield {"mechanism": laplace(1.0, bounds=(10, -10))}, ValueError, ["bounds", r"\(10, -10\)", "lo < hi"]
    yield {"mechanism": laplace(1.0, bounds=[(0, 1), (0, 1)])}, ValueError, ["bounds", "2", "1 feature"]
    yield {"mechanism": laplace()}, ValueError, ["exactly one of epsilon, rho and scale"]
    yield {"mechanism": laplace(1.0)}, ValueError, ["epsilon=1.0", "bounds"]
    yield {"mechanism": gaussian(1.0, bounds=(0, 1))}, ValueError, ["delta"]
    yield {"mechanism": laplace(np.ones(59), bounds=(-10, 10))}, ValueError, ["59", "60 records", "epsilon"]
    yield {"mechanism": laplace(1.0, query=Total())}, ValueError, ["in place of query=", "PrivateExpFamilyGibbs"]
    yield {"mechanism": laplace(1.0, query=Total()), "n_records": 60}, ValueError, ["LaplaceMechanism", "bounds="]
    yield {"n_records": 59}, ValueError, ["n_records=59", "60 records", "leave n_records out"]
    yield {"mechanism": LaplaceMechanism}, TypeError, ["mechanism", r"LaplaceMechanism\(...\)"]
    yield {"mechanism": NoChannel()}, TypeError, ["NoChannel", "log_channel"]
    yield {"mechanism": NotAMechanism()}, TypeError, ["mechanism", "log_channel"]
    yield {"mechanism": "laplace"}, TypeError, ["mechanism", "'laplace'", "LaplaceMechanism"]
    for name in ("n_chains", "n_draws", "thin"):
        for value in (0, -1, 1.5, "1", None):
            yield {name: value}, ValueError, [name, repr(value), "int"]
    yield {"n_warmup": -1}, ValueError, ["n_warmup", "-1", "int"]
    yield {"n_records": 0}, ValueError, ["n_records", "0", "int"]
    yield {"random_state": "seed"}, ValueError, ["random_state", "'seed'"]
    yield {"random_state": -1}, ValueError, ["random_state", "-1"]
    yield {"warm_start": "yes"}, ValueError, ["warm_start", "'yes'"]
    yield {"n_jobs": "all"}, ValueError, ["n_jobs", "'all'"]
    yield {"kernel": "gauss"}, ValueError, ["kernel", "'gauss'", "'normal'"]
    yield {"kernel": NormalKernel}, TypeError, ["kernel", r"NormalKernel\(...\)"]
    yield {"kernel": DirichletProcess()}, TypeError, ["kernel", "DirichletProcess", "normal"]
    yield {"kernel": NormalKernel(scale=-1.0)}, ValueError, ["scale", "-1.0", "greater than 0"]
    yield {"kernel": NormalKernel(mean=[0.0, 1.0])}, ValueError, ["mean", r"\(2,\)", "1 feature"]
    yield {"kernel": NoDraw()}, TypeError, ["got NoDraw()", "draw"]
    yield {"kernel": ConvolvedNormalKernel()}, ValueError, ["ConvolvedNormalKernel", "LaplaceMechanism", "clamp=False"]
    yield {"sampler": "gibbs"}, ValueError, ["sampler", "'gibbs'", "'neal5'"]
    yield {"sampler": Neal5}, TypeError, ["sampler", r"Neal5\(...\)"]
    yield {"sampler": Neal5(n_auxiliary=0)}, ValueError, ["n_auxiliary", "0", "positive"]
    yield {"sampler": NoSweep()}, TypeError, ["NoSweep", "sweep"]
    yield {"sampler": "neal3"}, ValueError, ["Neal3", "noise-free", "auto"]
    yield {"sampler": "conditional", "kernel": NoTilt()}, ValueError, ["Conditional", "NoTilt", "neal5"]
    yield {"mixing": "chinese restaurant"}, ValueError, ["mixing", "dirichlet_process"]
    yield {"mixing": DirichletProcess}, TypeError, ["mixing", r"DirichletProcess\(...\)"]
    yield {"mixing": HalfAMixing()}, TypeError, ["HalfAMixing", "update_concentration"]
    yield {"mixing": 2.0}, TypeError, ["mixing", "2.0|float"]
    yield {"mixing": DirichletProcess(concentration=-1.0)}, ValueError, ["concentration", "-1.0", "positive"]
    yield {"mixing": PitmanYor(discount=1.0)}, ValueError, ["discount", "1.0", r"\[0, 1\)"]
    yield {"mixing": MixtureOfFiniteMixtures(0.0)}, ValueError, ["concentration", "0.0", "positive"]
    yield {"mixing": MixtureOfFiniteMixtures(prior=1.5)}, ValueError, ["prior", "1.5", r"\(0, 1\)"]
    yield {"mixing": MixtureOfFiniteMixtures(prior=[0.0, 0.0])}, ValueError, ["prior", "1, 2, ...", r"\[0.0, 0.0\]"]


@pytest.mark.parametrize(("params", "error", "patterns"), list(bad_parameters()), ids=lambda value: str(value)[:50])
def test_bad_parameters_are_refused_before_anything_starts(no_chains, params, error, patterns):
    """Catches a bad parameter that a chain meets after minutes, and a message without name, value or remedy."""
    with pytest.raises((ValueError, TypeError)) as raised:
        mixture(**{"mechanism": MECHANISM, **params}).fit(RELEASE)
    assert isinstance(raised.value, error)
    for pattern in patterns:
        assert raised.match(pattern)


def test_bad_arguments_of_predictions_are_refused(fitted):
    """Catches an interval of level 95, a median at 50, a negative number of records."""
    for level in (0.0, 1.0, 95, -0.1, np.nan, "0.9", None):
        with pytest.raises(ValueError, match=r"level must .* between 0 and 1, both excluded, got"):
            fitted.density_interval(RELEASE, level=level)
    for q in (0.0, 1.0, 50, np.nan, [0.5, 1.5], [[0.5]], "median", None):
        with pytest.raises(ValueError, match=r"q must .* between 0 and 1, .*got q="):
            fitted.quantile_draws(q)
    for n_samples in (0, -1, 2.5, "10", True):
        with pytest.raises(ValueError, match=f"n_samples must be an integer, 1 or more, got n_samples={n_samples!r}"):
            fitted.sample(n_samples)
    for method in (fitted.predict, fitted.score_release):
        for epsilon in (-1.0, np.nan, np.ones(59), np.ones((60, 1)), "1"):
            with pytest.raises(ValueError, match=r"epsilon|records"):
                method(RELEASE, epsilon=epsilon)


def test_epsilon_of_new_records_needs_a_mechanism_that_has_one():
    """Catches an epsilon that is silently ignored."""
    with pytest.raises(ValueError, match=r"epsilon=1.0 was given, but mechanism=None has no epsilon"):
        mixture(None).fit(RELEASE).predict(RELEASE, epsilon=1.0)


def test_per_record_epsilon_does_not_fit_other_records():
    """Catches new records that get the noise of training records."""
    model = mixture(LaplaceMechanism(np.full(60, 20.0), bounds=(-10, 10))).fit(RELEASE)
    np.testing.assert_array_equal(model.predict(RELEASE), model.labels_)
    with pytest.raises(ValueError, match=r"Z has 10 records, .* each of 60: pass epsilon="):
        model.predict(RELEASE[:10])
    np.testing.assert_array_equal(model.predict(RELEASE[:10], epsilon=20.0), model.labels_[:10])


@pytest.mark.parametrize(
    "method", ["predict", "score_release", "score_samples", "score", "density_draws", "density_interval", "cdf_draws"]
)
def test_predictions_before_fit_raise_not_fitted(method):
    """Catches an AttributeError in place of scikit-learn's error."""
    with pytest.raises(NotFittedError):
        getattr(mixture(), method)(RELEASE)


def test_draws_before_fit_raise_not_fitted():
    """The same for methods without records."""
    for call in ("moment_draws", "sample", "summary", "to_datatree"):
        with pytest.raises(NotFittedError):
            getattr(mixture(), call)()
    with pytest.raises(NotFittedError):
        mixture().quantile_draws(0.5)


@pytest.mark.parametrize(
    ("params", "Z"),
    [
        ({"n_draws": 0}, RELEASE),
        ({"sampler": "neal3"}, RELEASE),
        ({"mechanism__epsilon": -1.0}, RELEASE),
        ({"mechanism__epsilon": np.ones(7)}, RELEASE),
        ({}, [[np.nan, 0.0]]),
        ({}, np.zeros((3, 2)) * np.nan),
    ],
)
def test_a_failed_fit_leaves_the_last_one_as_it_was(params, Z):
    """Catches a fit that fails half way and leaves attributes of two fits mixed."""
    frames = pytest.importorskip("pandas")
    model = mixture(clone(MECHANISM)).fit(frames.DataFrame({"income": RELEASE[:, 0]}))
    model.set_params(**params)
    before = dict(vars(model))
    with pytest.raises(ValueError):
        model.fit(Z)
    assert vars(model) == before
    assert model.n_features_in_ == 1
    model.predict(frames.DataFrame({"income": [0.0]}))


@pytest.mark.parametrize(
    ("module", "name"),
    [(long_run, "run_chains"), (_monitored_draws, "convergence"), (_chain_estimator, "warn_user")],
    ids=["run_chains", "convergence", "warn_user"],
)
def test_a_fit_that_fails_late_leaves_the_last_one_as_it_was(monkeypatch, module, name):
    """The same for errors from inside the chains, the summaries and a warning that was turned into an error."""
    model = mixture().fit(RELEASE)
    before = dict(vars(model))

    def fail(*args, **kwargs):
        raise RuntimeError("here")

    monkeypatch.setattr(module, name, fail)
    monkeypatch.setattr("sklearn_dpmix.estimators.mixture._dp_mixture.warn_user", fail)
    with pytest.raises(RuntimeError, match="here"):
        model.fit(1e-3 * np.column_stack([RELEASE, RELEASE]))
    assert vars(model) == before


def test_records_whose_squares_overflow_are_refused(no_chains):
    """Catches infinite statistics in a chain."""
    with pytest.raises(ValueError, match=r"Z has values as large as 1e\+300, .* another unit"):
        mixture(None).fit([[1e300], [-1e300]])


@pytest.mark.parametrize("scale", [np.linspace(1.0, 2.0, 60), np.linspace(1.0, 2.0, 20)])
def test_noise_of_another_number_of_records(scale):
    """As cross-validation has it; also without bounds, where the prior looks at the scales first."""
    with pytest.raises(
        ValueError, match=f"scale of LaplaceMechanism has {len(scale)} values, but there are 40 records"
    ):
        PrivateDPMixture(LaplaceMechanism(scale=scale)).fit(np.arange(40.0)[:, None])
