"""Slips that random bad inputs found (``tests/fuzz``), one of each kind: refused by name, before anything compiles."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from sklearn_dpmix import (
    DPLogisticRegressionMCMC,
    DPPenaltyMCMC,
    PrivateDPMixture,
    PrivateNaiveBayesDA,
    ReleaseSummary,
)
from sklearn_dpmix.datasets import three_normals_density
from sklearn_dpmix.estimators.private._dp_budget import Budget
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import (
    DiscreteGaussianMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    LaplaceMechanism,
    MultivariateNormalMechanism,
    MultivariateTMechanism,
    PerturbedHistogramMechanism,
    SmoothCauchyMechanism,
    SmoothLaplaceMechanism,
)
from sklearn_dpmix.metrics import integrated_squared_error, mmd
from sklearn_dpmix.mixings import PitmanYor
from sklearn_dpmix.models import (
    Banana,
    BetaPrior,
    BinomialCount,
    GammaPrior,
    GammaProductPrior,
    GaussianMean,
    LogisticLikelihood,
    NormalInverseGammaPrior,
    StochasticSIR,
)
from sklearn_dpmix.privacy import (
    GaussianReleases,
    PrivacyGuarantee,
    PrivacyLedger,
    SubsampledGaussianReleases,
    _subsampled_gaussian,
    barker_rdp,
    epsilon_of,
    gaussian_delta,
    zcdp_to_approx_dp,
)
from sklearn_dpmix.queries import BoundedRecords, ClassFeatureCounts, SmoothMedian, SufficientStatistics
from sklearn_dpmix.samplers import JainNeal, PrivateNormalApproximation
from sklearn_dpmix.samplers.private._target import Target

X = np.full((6, 1), 0.5)
LAPLACE = LaplaceMechanism(epsilon=1.0, bounds=(0, 1))
HISTOGRAM = {"n_bins": 4, "n_records": 6}


@pytest.mark.parametrize(
    "make",
    [
        lambda query: LaplaceMechanism(1.0, query=query).privatize(X),
        lambda query: MultivariateNormalMechanism([[1.0]], query=query).privatize(X),
        lambda query: SmoothLaplaceMechanism(1.0, 1e-6, query=query).privatize(X),
    ],
    ids=["Laplace", "normal", "smooth"],
)
@pytest.mark.parametrize("query", ["sum", 1.0, BoundedRecords, LAPLACE], ids=["text", "number", "class", "mechanism"])
def test_what_is_no_query_is_refused(make, query):
    """Catches an AttributeError where the query's value is asked for."""
    with pytest.raises(TypeError, match="needs a query"):
        make(query)


@pytest.mark.parametrize("flag", ["yes", None, np.ones(3), 2, 0.5], ids=repr)
def test_what_is_no_flag_is_refused(flag):
    """Catches text that counts as True, and an array whose truth is ambiguous; ``secure="no"`` would be no."""
    query = SmoothMedian((0, 1))
    for mechanism in (LAPLACE, HaarWaveletMechanism(1.0, 1), SmoothCauchyMechanism(1.0, query=query)):
        with pytest.raises(ValueError, match="secure must be True or False"):
            mechanism.privatize(X, secure=flag)
    with pytest.raises(ValueError, match="biased must be True or False"):
        mmd(X, X + 1.0, biased=flag)


@pytest.mark.parametrize("n_features", [0, -1, 1.5, "two", (1, 2), 2**31, 10**400], ids=["0", "-1", "1.5", *"tph!"])
def test_what_is_no_number_of_features_is_refused(n_features):
    """Catches a product of bounds and text, and an array of 32 GB."""
    for mechanism in (LAPLACE, GaussianMechanism(1.0, 1e-6, bounds=(0, 1))):
        with pytest.raises(ValueError, match="n_features must be"):
            mechanism.guarantee(n_features)


def test_counts_beyond_memory_are_refused():
    """Catches OverflowError and MemoryError of NumPy."""
    for count in (10**400, 2**63):
        with pytest.raises(ValueError, match="n_classes must be at most"):
            ClassFeatureCounts(count, [2, 3]).value([[0, 0, 0]])
        with pytest.raises(ValueError, match="n_records of BinomialCount must be at most"):
            BinomialCount(count).sample_prior(np.random.default_rng(0), 1)
        with pytest.raises(ValueError, match="n_people of StochasticSIR must be at most"):
            StochasticSIR(n_people=count).sample_prior(np.random.default_rng(0), 1)
        with pytest.raises(ValueError, match="n_attempts must be a positive integer, at most"):
            JainNeal(n_attempts=count).check()
        with pytest.raises(ValueError, match="batch_size must be at most"):
            barker_rdp(count)


def test_integers_beyond_floating_point_are_refused():
    """Catches the OverflowError of int too large to convert to float."""
    for records in ([[10**400]], 10**400):
        with pytest.raises(ValueError, match="X"):
            LAPLACE.privatize(records)
    with pytest.raises(ValueError, match="epsilon must be positive"):
        LaplaceMechanism(10**400, bounds=(0, 1)).guarantee()
    with pytest.raises(ValueError, match="rho must be a finite number"):
        zcdp_to_approx_dp(10**400, 1e-6)


def test_spans_of_time_are_no_numbers():
    """Catches that NumPy counts timedelta64 among its integers."""
    three = np.timedelta64(3, "D")
    for call in (
        lambda: zcdp_to_approx_dp(three, 1e-6),
        lambda: LAPLACE.privatize(X, random_state=three),
        lambda: PerturbedHistogramMechanism(1.0, three, n_records=6).check(),
    ):
        with pytest.raises(ValueError, match="got"):
            call()


@pytest.mark.parametrize("of", ["array", "list", "objects", "pandas", "zone", "period", "arrow", "polars"])
def test_records_that_are_times_are_refused(of):
    """Catches dates that become seconds or nanoseconds since 1970, whichever their type counts."""
    days = np.array([["2026-01-01"], ["2026-01-03"]], dtype="M8[ms]")
    if of == "array":
        tables = [days, days - days[0], days.astype("M8[D]")]
    elif of == "list":
        tables = [[[day] for day in days[:, 0]], [[0.5], [days[0, 0].item().date()]]]
    elif of == "objects":
        spans = np.array([[0.5], [np.timedelta64(3, "D")]], dtype=object)
        tables = [days.astype(object), days.astype("M8[D]").astype(object), (days - days[0]).astype(object), spans]
    elif of == "arrow":
        pa = pytest.importorskip("pyarrow")
        tables = [pa.table({"day": pa.array([0, 2], kind)}) for kind in (pa.timestamp("s"), pa.duration("s"))]
    elif of == "polars":
        tables = [pytest.importorskip("polars").DataFrame({"day": days[:, 0]})]
    else:
        pd = pytest.importorskip("pandas")
        index = pd.DatetimeIndex(days[:, 0])
        index = index.tz_localize("UTC") if of == "zone" else index.to_period("D") if of == "period" else index
        tables = [pd.DataFrame({"day": index}), pd.DataFrame({"day": index}, dtype=object)]
    model = PrivateDPMixture(LAPLACE, n_chains=1, n_warmup=1, n_draws=1)
    for table in tables:
        for take in (LAPLACE.privatize, model.fit, ReleaseSummary(LAPLACE).update):
            with pytest.raises(ValueError, match=r"column of type .*, whose unit would be lost: pass numbers"):
                take(table)


def test_masked_entries_are_no_numbers():
    """Catches a mask that is lost, of records that a query gets by itself, and of a parameter."""
    masked = np.ma.masked_array([[0.25], [0.75]], mask=[[False], [True]])
    queries = BoundedRecords((0, 1)), SufficientStatistics("binomial"), SmoothMedian((0, 1))
    for query, records in zip(queries, (masked, masked > 0.5, masked), strict=True):
        with pytest.raises(ValueError, match="records must be numbers, got a MaskedArray with masked entries"):
            query.value(records)
        query.value(np.ma.masked_array(records.data, mask=False))
    with pytest.raises(ValueError, match="epsilon must be positive"):
        LaplaceMechanism(masked[:, 0], bounds=(0, 1)).guarantee()


@pytest.mark.parametrize("word", [np.zeros(0), np.ones(3), ["exact"], 1.0], ids=repr)
def test_what_is_no_word_is_refused(word):
    """Catches ``word in words`` for an array, whose truth is ambiguous."""
    for call, match in (
        (lambda: GaussianMechanism(1.0, 1e-6, bounds=(0, 1), calibration=word).check(), "calibration must be"),
        (lambda: DiscreteGaussianMechanism(1.0, 1e-6, bounds=(0, 1), calibration=word).check(), "calibration must be"),
        (lambda: HaarWaveletMechanism(1.0, 1, calibration=word).privatize(X), "calibration must be"),
        (lambda: PerturbedHistogramMechanism(1.0, noise=word, **HISTOGRAM).check(), "noise must be"),
        (lambda: epsilon_of(GaussianReleases(1.0), 1e-6, word), "accountant must be"),
    ):
        with pytest.raises(ValueError, match=match):
            call()


def test_noise_beyond_floating_point_is_refused():
    """Catches counts that are released as infinity."""
    for mechanism in (PerturbedHistogramMechanism(5e-324, **HISTOGRAM), HaarWaveletMechanism(5e-324, 1)):
        with pytest.raises(ValueError, match="noise that floating point cannot hold"):
            mechanism.privatize(X)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-101, 301.0, 1e308])
def test_a_smooth_calibration_beyond_floating_point_is_refused(epsilon):
    """Catches an OverflowError, and a search that does not end."""
    query = SmoothMedian((0, 1))
    for mechanism in (SmoothCauchyMechanism(epsilon, query=query), SmoothLaplaceMechanism(epsilon, 1e-6, query=query)):
        with pytest.raises(ValueError, match=r"epsilon must be between 1e-100 and 300"):
            mechanism.check()


def test_files_that_nest_too_deep_are_refused(tmp_path):
    """Catches the RecursionError of a JSON reader."""
    path = tmp_path / "ledger.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="is not JSON"):
        PrivacyLedger(1.0, 1e-6, path=path)


def test_degrees_of_freedom_next_to_none_are_refused():
    """Catches noise that is NaN: χ² of so few degrees of freedom is 0."""
    with pytest.raises(ValueError, match="df must be at least"):
        MultivariateTMechanism([[1.0]], df=1e-308).privatize(X)


def test_rho_of_an_enormous_epsilon_is_infinite():
    """Catches the OverflowError of a square."""
    assert PrivacyGuarantee.pure(1e200).rho == np.inf


def test_densities_on_different_grids_are_refused():
    """Catches a broadcasting error of NumPy."""
    with pytest.raises(ValueError, match=r"\b[pq]\b|grid"):
        integrated_squared_error(np.ones(3), np.ones(5), np.linspace(0, 1, 5))


def test_delta_of_next_to_no_loss_is_0():
    """Catches ∞·0: at μ = 5e-324 the distance from ε is infinite."""
    assert gaussian_delta(1.0, 5e-324) == 0.0


def test_parameters_of_models_are_numbers_of_a_size():
    """Catches lists where a number belongs, LinAlgError of NumPy, and a search for modes that finds no density."""
    for model in (
        Banana(m=(0, 1)), Banana(a=-np.inf), Banana(sigma=1.0), Banana(prior_sigma=np.ones(3)),
        GaussianMean(sigma=[1.0]), GaussianMean(n_features=0.5), GaussianMean(data_norm=(1, 1)),
        LogisticLikelihood(n_features=[]), LogisticLikelihood(fit_intercept="no"), GammaPrior(1e308),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=rf"of {type(model).__name__} must be"):
            model.check()


@pytest.mark.parametrize(
    "parts",
    [
        {"mixing": PitmanYor(discount=len)},
        {"mixing": PitmanYor(discount=np.ones(2))},
        {"kernel": NormalKernel(shape=(one for one in "a"))},
    ],
    ids=["function", "array", "generator"],
)
def test_parameters_of_components_are_checked_before_they_are_compared_or_copied(parts):
    with pytest.raises((TypeError, ValueError), match=r"discount must be a number|must have parameters that can be"):
        PrivateDPMixture(LAPLACE, **parts).fit(X)


def test_a_density_of_what_is_no_number_is_refused():
    """Catches None that becomes NaN."""
    with pytest.raises(ValueError, match="x must be numbers"):
        three_normals_density([None])


def test_a_private_fit_that_is_refused_leaves_the_earlier_one():
    """Catches draws that are thrown away before the new records are looked at."""
    model = DPPenaltyMCMC(model=GaussianMean(data_norm=2.0), n_iter=4, n_chains=1, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X)
    draws = model.theta_draws_
    for records in ([["x"]], np.full((3, 1), np.nan), np.zeros((3, 2))):
        with pytest.raises(ValueError):
            model.fit(records)
        assert model.theta_draws_ is draws and model.n_features_in_ == 1


def test_a_number_of_values_of_another_shape_than_the_query_says_is_refused():
    """Catches NumPy's own error of shapes that do not go together."""
    mechanism = LaplaceMechanism(1.0, query=ClassFeatureCounts(2, [2, 3]))
    for n_values in (np.ones((2, 2)), np.array(["2", "3"]), [2, 3, 2]):
        with pytest.raises(ValueError, match="but the mechanism's query says"):
            PrivateNaiveBayesDA(mechanism, n_values=n_values, n_records=6).fit(np.ones(10))


def test_more_records_than_a_float_counts_are_refused():
    """Catches an OverflowError of an array of integers."""
    mechanism = LaplaceMechanism(1.0, query=ClassFeatureCounts(2, [2, 3]))
    with pytest.raises(ValueError, match="n_records must be at most 9007199254740992"):
        PrivateNaiveBayesDA(mechanism, n_records=2**64).fit(np.ones(10))


@pytest.mark.parametrize("of", [np.longdouble, Fraction, lambda x: np.array(Fraction(x)), np.float16, np.array])
def test_priors_are_the_same_in_any_kind_of_number(of):
    """Catches parameters that are checked as floats and then used as they were given."""
    for kind, parameters, theta in (
        (BetaPrior, (2.0, 0.5), [[0.25]]),
        (GammaPrior, (2.0, 0.5), [[3.0]]),
        (NormalInverseGammaPrior, (1.0, 0.5, 2.0, 4.0), [[0.5, 2.0]]),
    ):
        usual, other = kind(*parameters), kind(*map(of, parameters))
        other.check()
        np.testing.assert_array_equal(
            *(one.draw(np.random.default_rng(0), 5, None).astype(object) for one in (usual, other))
        )
        np.testing.assert_array_equal(*(one.log_density(np.array(theta)) for one in (usual, other)))


def test_priors_of_a_beta_law_that_rounding_loses_are_refused():
    """Catches a search for modes among rounding errors, which took ten seconds; and a draw of a = 0."""
    for shape, rate in ((1e17, 0.1), (1.0, 1e-17), ((1.0, 1e10), 1e10)):
        with pytest.raises(ValueError, match="must be at most 1e\\+09: beyond, the densities of beta distributions"):
            GammaProductPrior(shape, rate).check()
    tiny = GammaProductPrior(1e-17, 1.0)
    tiny.check()
    assert np.all(tiny.draw(np.random.default_rng(0), 5, None) > 0.0)


def test_secure_of_a_normal_approximation_is_a_flag():
    """Catches the truth of an array."""
    with pytest.raises(ValueError, match="secure must be True or False"):
        DPLogisticRegressionMCMC(
            GaussianMechanism(1.0, 1e-6), sampler=PrivateNormalApproximation(secure=np.ones(2)), data_norm=1.0
        ).fit(X, [0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize("of", [np.float16, np.longdouble, np.float32])
def test_bounds_of_private_releases_are_in_double_precision(of):
    """Catches a sensitivity rounded in half precision, and a type that compiled code does not know."""
    target = Target(GaussianMean(), np.zeros((3, 1)), of(0.5), of(0.25), of(0.5))
    bound, width = target.ratio_bound(np.zeros(1), np.full(1, 0.3))
    assert type(bound) is float and type(width) is float and bound == 0.5 * 0.3
    assert type(target.gradient_bound(np.zeros(1), np.eye(1), of(0.125))[1]) is float
    assert type(target.temperature) is float
    penalty = DPPenaltyMCMC(GaussianMechanism(2.0, 1e-6), model=GaussianMean(), noise_multiplier=of(64.0))
    assert type(penalty._plan(Budget(penalty), 3).multiplier) is float


@pytest.mark.parametrize("value", [np.True_, Fraction(1, 2), np.array(0.5), np.float32(0.5)], ids=repr)
def test_numbers_of_any_kind_reach_compiled_code(value):
    """Catches a field that is left out, or becomes an array of no axes: a page of the compiler's output."""
    lowered = GaussianMean(sigma=value)._lower()
    assert type(lowered.sigma) is float and lowered.sigma == float(value)
    assert type(LogisticLikelihood(fit_intercept=np.True_)._lower().fit_intercept) is float


def test_no_budget_is_planned_by_all_orders(monkeypatch):
    """Catches a plan of batches that takes all Rényi orders at each of a dozen multipliers: half a minute."""
    looked_at, log_excess = [], _subsampled_gaussian._log_excess
    monkeypatch.setattr(
        _subsampled_gaussian, "_log_excess", lambda *parts: looked_at.append(parts) or log_excess(*parts)
    )
    budget = Budget(DPPenaltyMCMC(GaussianMechanism(2.0, 1e-6)))
    budget.smallest_multiplier(lambda m: [SubsampledGaussianReleases(m, 3, 14, 6)], 1e-3)
    assert 0 < len(looked_at) < 1000
