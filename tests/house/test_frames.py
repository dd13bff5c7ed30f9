"""Tables of pandas and polars go in wherever records or releases do, and their names are kept and compared."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpmix import (
    DeconvolutionKDE,
    DPLogisticRegressionMCMC,
    DPPenaltyMCMC,
    NaivePosterior,
    OnePosteriorSampling,
    PrivateABC,
    PrivateDPMixture,
    PrivateDPMixtureRegressor,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
    PrivateMCEM,
    PrivateNaiveBayesDA,
    PrivatePosteriorDA,
)
from sklearn_dpmix.mechanisms import (
    BinomialMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    FiniteChannelMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    HybridMechanism,
    LaplaceMechanism,
    MultivariateNormalMechanism,
    PerturbedHistogramMechanism,
    PiecewiseMechanism,
    PublishedScaleMechanism,
    RandomizedResponseMechanism,
    SmoothCauchyMechanism,
    SmoothedHistogramMechanism,
    SquareWaveMechanism,
    UnaryEncodingMechanism,
)
from sklearn_dpmix.models import Banana, PoissonCount
from sklearn_dpmix.queries import (
    BoundedRecords,
    ClassFeatureCounts,
    RegressionMoments,
    SmoothMedian,
    SufficientStatistics,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*too few to say whether the chains have mixed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:the draws say little:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*releases noise drawn by NumPy:UserWarning"),
]
LIBRARIES = pytest.mark.parametrize("library", ["pandas", "polars"])
N, RNG = 30, np.random.default_rng(0)
TWO, ONE, CODES = RNG.random((N, 2)), RNG.random((N, 1)), RNG.integers(0, 4, (N, 2)).astype(float)
SHORT = {"n_chains": 1, "n_warmup": 5, "n_draws": 10, "random_state": 0}


def table(library, values, names="ab"):
    """A table of that library, or a column of it where ``values`` is one."""
    frames = pytest.importorskip(library)
    if np.ndim(values) == 1:
        return frames.Series(name=names[0], **({"data": values} if library == "pandas" else {"values": values}))
    return frames.DataFrame({name: np.array(column) for name, column in zip(names, np.transpose(values))})


MECHANISMS = [
    (LaplaceMechanism(epsilon=np.linspace(1.0, 2.0, N), bounds=(0, 1)), TWO),
    (GaussianMechanism(epsilon=1.0, delta=1e-3, bounds=(0, 1)), TWO),
    (DiscreteLaplaceMechanism(epsilon=1.0, bounds=(0, 4)), CODES),
    (DiscreteGaussianMechanism(scale=2.0), CODES),
    (RandomizedResponseMechanism(1.0, 4), CODES),
    (FiniteChannelMechanism([np.eye(4) * 0.6 + 0.1] * 2), CODES),
    (UnaryEncodingMechanism(1.0, 4), CODES),
    (SquareWaveMechanism(1.0), TWO),
    (PiecewiseMechanism(1.0), TWO),
    (HybridMechanism(1.0), TWO),
    (BinomialMechanism(1.0, 3, bounds=(0, 1)), ONE),
    (HaarWaveletMechanism(1.0, 2), ONE),
    (SmoothedHistogramMechanism(20.0, 4, 5, n_records=N), ONE),
    (PerturbedHistogramMechanism(1.0, 4, n_records=N), ONE),
    (LaplaceMechanism(epsilon=1.0, query=BoundedRecords((0, 1), n_features=2)), TWO),
    (LaplaceMechanism(epsilon=1.0, query=SufficientStatistics("poisson", bounds=(0, 9))), CODES[:, :1]),
    (LaplaceMechanism(epsilon=1.0, query=RegressionMoments((0, 1), (0, 1), n_features=1)), TWO),
    (LaplaceMechanism(epsilon=1.0, query=ClassFeatureCounts(4, [4])), CODES),
    (MultivariateNormalMechanism(np.eye(2)), TWO),
    (SmoothCauchyMechanism(1.0, query=SmoothMedian((0, 1))), ONE),
    (PublishedScaleMechanism(1.0, 1e-5, query=SmoothMedian((0, 1))), ONE),
]


def name_of(case):
    query = getattr(case[0], "query", None)
    return type(case[0]).__name__ + (f"-{type(query).__name__}" if query is not None else "")


@LIBRARIES
@pytest.mark.parametrize("case", MECHANISMS, ids=name_of)
def test_mechanisms_take_tables(case, library):
    """Catches a table that is read by columns, or refused, and noise that depends on the kind of table."""
    mechanism, X = case
    Z = mechanism.privatize(X, random_state=0)
    np.testing.assert_array_equal(mechanism.privatize(table(library, X), random_state=0), Z)
    Z = np.atleast_2d(Z) if mechanism.is_local or not mechanism.is_histogram else Z
    found = mechanism.log_density(table(library, Z, [f"z{j}" for j in range(Z.shape[-1])]), table(library, X))
    np.testing.assert_array_equal(found, mechanism.log_density(Z, X))


@pytest.mark.parametrize(("library", "dtype"), [("pandas", "Int64"), ("pandas", "Float32"), ("polars", "Int16")])
def test_types_that_numpy_does_not_have_are_read(library, dtype):
    """Catches nullable columns that come as objects."""
    frames = pytest.importorskip(library)
    mechanism, given = DiscreteLaplaceMechanism(epsilon=1.0, bounds=(0, 4)), table(library, CODES)
    given = given.astype(dtype) if library == "pandas" else given.cast(getattr(frames, dtype))
    Z = mechanism.privatize(given, random_state=0)
    np.testing.assert_array_equal(Z, mechanism.privatize(CODES, random_state=0))


@LIBRARIES
def test_noise_of_each_record_may_be_a_column(library):
    """Catches parameters that must be arrays, and a fit or a prediction that cannot hold them."""
    epsilon = np.linspace(5.0, 9.0, N)
    mechanism = LaplaceMechanism(epsilon=table(library, epsilon), bounds=(0, 1))
    np.testing.assert_array_equal(mechanism.noise_scale, 1.0 / epsilon)
    Z = mechanism.privatize(ONE, random_state=0)
    fitted = PrivateDPMixture(mechanism, **SHORT).fit(Z)
    np.testing.assert_array_equal(
        fitted.predict(Z, epsilon=table(library, epsilon)), fitted.predict(Z, epsilon=epsilon)
    )


class NormalMean:
    theta_init = [0.0]

    def sample_records(self, rng, theta, n):
        return rng.normal(theta[0], 1.0, (n, 1))

    def sample_posterior(self, rng, records, theta):
        return rng.normal(records.mean(), records.size**-0.5, 1)


LOCAL = LaplaceMechanism(epsilon=9.0, bounds=(0, 1))
MOMENTS = LaplaceMechanism(epsilon=9.0, query=RegressionMoments((0, 1), (0, 1), n_features=2))
TABLES = LaplaceMechanism(epsilon=9.0, query=ClassFeatureCounts(2, [4, 4]))
LABELS = (TWO[:, 0] > 0.5).astype(int)
# estimator, X, y, and what afterwards takes such an X
OF_RECORDS = [
    (PrivateDPMixture(LOCAL, **SHORT), TWO, None, ("predict", "score_samples", "score_release", "cdf_draws")),
    (PrivateDPMixtureRegressor(LOCAL, **SHORT), TWO, ONE[:, 0], ("predict", "curve_draws")),
    (PrivateDPMixtureRegressor(linear=True, **SHORT), TWO, ONE[:, 0], ("predict", "curve_draws")),
    (PrivateLinearRegressionDA(**SHORT), TWO, ONE[:, 0], ("predict",)),
    (PrivateLinearRegressionDA(MOMENTS, **SHORT), TWO, ONE[:, 0], ("predict",)),
    (PrivateNaiveBayesDA(**SHORT), CODES, LABELS, ("predict", "predict_proba")),
    (PrivateNaiveBayesDA(TABLES, **SHORT), CODES, LABELS, ("predict", "predict_proba")),
    (PrivatePosteriorDA(LaplaceMechanism(scale=1.0), model=NormalMean(), **SHORT), ONE, None, ()),
    (DPPenaltyMCMC(model=Banana(), n_iter=20, n_chains=1, random_state=0), TWO, None, ("score_samples",)),
    (DPLogisticRegressionMCMC(random_state=0), TWO, LABELS, ("predict", "predict_proba", "predict_interval")),
    (DeconvolutionKDE(LaplaceMechanism(scale=0.01)), ONE, None, ("density", "score_samples")),
    (OnePosteriorSampling(random_state=0), LABELS[:, None].astype(float), None, ()),
]
FITTED = "theta_draws_", "labels_", "coef_", "class_prob_draws_", "bandwidth_"


def with_mechanism(case):
    return type(case[0]).__name__ + ("" if getattr(case[0], "mechanism", None) is None else "-mechanism")


@LIBRARIES
@pytest.mark.parametrize("case", OF_RECORDS, ids=with_mechanism)
def test_estimators_keep_and_compare_the_names_of_features(case, library):
    """Catches names that are dropped on the way, or not compared at prediction, and draws that depend on the table."""
    estimator, X, y, methods = case
    names = "ab"[: X.shape[1]]
    target = None if y is None else table(library, y, "y")
    fitted = clone(estimator).fit(table(library, X, names), target)
    assert list(fitted.feature_names_in_) == list(names) and fitted.n_features_in_ == len(names)
    if getattr(estimator, "mechanism", None) is None or y is None:  # noise is of fresh entropy otherwise
        other = clone(estimator).fit(X, y)
        for name in FITTED:
            if hasattr(other, name):
                np.testing.assert_array_equal(getattr(fitted, name), getattr(other, name))
    for name in methods:
        method = getattr(fitted, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of arrays without names
            np.testing.assert_allclose(method(table(library, X, names)), method(X), rtol=1e-12)  # sums in other orders
        with pytest.raises(ValueError, match="feature names should match"):
            method(table(library, X, "yz"[: X.shape[1]]))


NAMED = {"n_records": N, **SHORT}
SUM = LaplaceMechanism(epsilon=9.0, query=BoundedRecords((0, 1)))
COUNTED = {"model": PoissonCount(), "random_state": 0}
OF_RELEASES = [
    (PrivateExpFamilyGibbs(LaplaceMechanism(scale=2.0), family="poisson", **NAMED), [[70.0], [71.0]]),
    (NaivePosterior(LaplaceMechanism(scale=2.0), family="poisson", **NAMED), [[70.0], [71.0]]),
    (PrivatePosteriorDA(SUM, model=NormalMean(), **NAMED), [[9.0]]),
    (PrivateABC(LaplaceMechanism(scale=5.0), n_draws=10, **COUNTED), [[30.0], [31.0]]),
    (PrivateMCEM(LaplaceMechanism(scale=5.0), max_iter=2, max_simulations=1000, **COUNTED), [[30.0]]),
]


@LIBRARIES
@pytest.mark.parametrize("case", OF_RELEASES, ids=with_mechanism)
@pytest.mark.filterwarnings("ignore:Monte Carlo EM ended:RuntimeWarning")
def test_releases_may_be_tables(case, library):
    """Catches names of a release that are dropped, and an inference that depends on the kind of table."""
    estimator, S = case
    fitted, other = clone(estimator).fit(table(library, S, ["total"])), clone(estimator).fit(S)
    assert list(fitted.feature_names_in_) == ["total"] and not hasattr(other, "feature_names_in_")
    assert fitted.n_features_in_ == other.n_features_in_ == 1
    name = "theta_" if hasattr(other, "theta_") else "theta_draws_"
    np.testing.assert_array_equal(getattr(fitted, name), getattr(other, name))
    one = clone(estimator).fit(table(library, S[0], ["total"]))  # a column: one release
    np.testing.assert_array_equal(getattr(one, name), getattr(clone(estimator).fit(S[0]), name))


@LIBRARIES
def test_features_have_any_name_after_a_release(library):
    """Catches columns of a release that are taken for features, and warnings about names that nobody could say."""
    records = np.column_stack([TWO, ONE])
    moments = PrivateLinearRegressionDA(MOMENTS, n_records=N, **SHORT)
    moments.fit(table(library, MOMENTS.privatize(records, random_state=0)[None], MOMENTS.query.statistic_names()))
    classes = PrivateNaiveBayesDA(TABLES, n_records=N, **SHORT)
    classes.fit(TABLES.privatize(np.column_stack([CODES, LABELS]), random_state=0))
    curator = PerturbedHistogramMechanism(50.0, 4, n_records=N)
    counts = table(library, curator.privatize(ONE, random_state=0)[:, None], ["count"])
    shares = PrivateDPMixture(curator, kernel="beta", **SHORT).fit(counts)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        np.testing.assert_allclose(moments.predict(table(library, TWO)), moments.predict(TWO), rtol=1e-12)
        np.testing.assert_array_equal(classes.predict(table(library, CODES)), classes.predict(CODES))
        np.testing.assert_array_equal(shares.score_samples(table(library, ONE)), shares.score_samples(ONE))


def test_summary_is_a_table_of_pandas_that_polars_reads(monkeypatch):
    """Catches an index that cannot be written, and rows without names."""
    pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    fitted = clone(OF_RELEASES[0][0]).fit([[70.0], [71.0]])
    summary = fitted.summary()
    assert list(summary.index) == ["mean"] and "2.5%" in repr(summary)
    columns = {name: summary[name].to_numpy() for name in summary.columns}
    assert polars.DataFrame(columns).shape == (1, 6)
