"""Linear regression whose predictors have a histogram each: against weighted draws, ranks, and truths people meet."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import regression_oracle as oracle
from scipy import stats
from statistical import Disagreement, assert_ranks_uniform, effective_sample_size

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix._base.numeric import draw_weighted
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import HistogramPredictors, RegressionPrior, _histogram_predictors
from sklearn_dpmix.models._histogram_predictors import HistogramLaw, first_share
from sklearn_dpmix.models._shares import dirichlet_from_counts
from sklearn_dpmix.queries import NoisyCount, RegressionMoments

UNMIXED = "ignore:the chains have not mixed:RuntimeWarning"
pytestmark = pytest.mark.filterwarnings(UNMIXED)
PRIOR = RegressionPrior(coef_scale=1.5, sigma_shape=2.5, sigma_scale=1.2)


class Case(NamedTuple):
    """A release of few records."""

    n: int
    x_bounds: tuple
    y_bounds: tuple
    mechanism: type
    scale: float
    release: tuple
    n_bins: int
    concentration: float


CASES = {
    "one predictor": Case(3, ((-1.0, 1.5),), (-2.0, 2.0), LaplaceMechanism, 0.4, (1.9, 1.1, 1.6, 0.4, 1.9), 3, 3.5),
    "much of y is clamped": Case(
        2, ((-0.5, 2.0),), (0.0, 0.5), LaplaceMechanism, 0.3, (-1.3, 1.2, 1.7, -1.5, 1.5), 2, 6.0
    ),
    "two predictors, two releases": Case(
        2,
        ((-2.0, 2.0), (-1.0, 3.0)),
        (-4.0, 4.0),
        GaussianMechanism,
        0.8,
        ((0.5, 0.2, -0.9, 1.0, 0.3, -1.0, 0.4, 0.1, 0.9), (-0.3, 0.9, -0.1, 0.3, -0.8, -0.2, 1.2, -0.4, 0.5)),
        2,
        2.0,
    ),
}


def draw_parameters(rng, size, p, n_bins, concentration, coef_scale=1.5, shape=2.5, scale=1.2):
    """Coefficients (size, p + 1), σ (size,) and shares (size, p, n_bins + 2) from the prior."""
    coefs = coef_scale * rng.standard_normal((size, p + 1))
    sigma = np.sqrt(scale / rng.standard_gamma(shape, size))
    return coefs, sigma, rng.dirichlet(np.full(n_bins + 2, concentration / (n_bins + 2)), (size, p))


def draw_predictors(rng, shares, n, x_bounds):
    """Predictors (size, n, p): the cell by its share, then the place in it; the bounds are cells."""
    size, p, n_cells = shares.shape
    u = rng.random((size, n, p, 1))
    cells = np.minimum((u > np.cumsum(shares, axis=-1)[:, None]).sum(axis=-1), n_cells - 1)
    inside = (cells - 1 + rng.random(cells.shape)) / (n_cells - 2)
    unit = np.where(cells == 0, 0.0, np.where(cells == n_cells - 1, 1.0, inside))
    lo, hi = np.array(x_bounds).T
    return lo + (hi - lo) * unit


def population_mean(shares, x_bounds):
    n_bins = shares.shape[-1] - 2
    middle = np.concatenate([[0.0], (np.arange(n_bins) + 0.5) / n_bins, [1.0]])
    lo, hi = np.array(x_bounds).T
    return lo + (hi - lo) * (shares @ middle)


@cache
def truth(name):
    """Posterior means by draws from the prior, with their Monte Carlo errors."""
    case, rng = CASES[name], np.random.default_rng(17)
    noise = oracle.NOISE["laplace" if case.mechanism is LaplaceMechanism else "gaussian"](case.scale)
    values, weights, p = [], [], len(case.x_bounds)
    for _ in range(12):
        coefs, sigma, shares = draw_parameters(rng, 100_000, p, case.n_bins, case.concentration)
        x = draw_predictors(rng, shares, case.n, case.x_bounds)
        errors = sigma[:, None] * rng.standard_normal(x.shape[:2])
        y = coefs[:, :1] + np.einsum("snj,sj->sn", x, coefs[:, 1:]) + errors
        statistic = oracle.regression_moments(x, y, case.x_bounds, case.y_bounds)
        flat, mean = shares.reshape(len(shares), -1), population_mean(shares, case.x_bounds)
        values.append(np.column_stack([coefs, np.log(sigma), flat, mean]))
        weights.append(oracle.log_release(case.release, statistic, noise))
    return oracle.weighted_summary(np.concatenate(values), np.concatenate(weights))


def check(name, interweave=True, scale=1.0):
    """Fit, and compare posterior means with the oracle's; ``scale`` multiplies that of the noise."""
    case = CASES[name]
    query = RegressionMoments(case.x_bounds, case.y_bounds, len(case.x_bounds))
    model = PrivateLinearRegressionDA(
        case.mechanism(scale=scale * case.scale, query=query),
        prior=PRIOR,
        x_model=HistogramPredictors(case.n_bins, case.concentration),
        n_records=case.n,
        interweave=interweave,
        n_warmup=2000,
        n_draws=8000,
        thin=3 if interweave else 10,
        random_state=5,
    ).fit(np.array(case.release))
    shares = model.x_share_draws_.reshape(*model.sigma_draws_.shape, -1)
    parts = [model.intercept_draws_[..., None], model.coef_draws_, np.log(model.sigma_draws_)[..., None], shares]
    draws, exact = np.concatenate([*parts, model.x_mean_draws_], axis=-1), truth(name)
    for j in range(draws.shape[-1]):
        ess = effective_sample_size(draws[..., j], what=f"{name}[{j}]")
        error = np.hypot(draws[..., j].std() / np.sqrt(ess), exact.mean_error[j])
        z = (draws[..., j].mean() - exact.mean[j]) / error
        if abs(z) > stats.norm.isf(0.5e-6):
            raise Disagreement(f"{name}: quantity {j} is {z:+.1f} standard errors off")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "interweave"),
    [(name, how) for name in CASES for how in (True, False) if how or not name.startswith("two")],
)
def test_posterior_is_exact(name, interweave):
    """Catches a wrong target of the record moves or the random walk, and a wrong law of x or of its shares.

    What is wrong with the second predictor alone is seen with moves of many records, too.
    """
    check(name, interweave)


FAULTS = "proposals by the prior", "bounds in the bins beside them", "the last record forgotten"


class Broken(HistogramLaw):
    """With one of the faults, by its number: one class, compiled once.

    Cells are proposed with equal probabilities, and not by their current shares; records at a bound are counted in the
    bin beside it; or shares are drawn given all records but the last.
    """

    fault = 0.0

    def _lower(self, **context):
        make, (owner, fields) = super()._lower(**context).__reduce__()
        return make(owner, fields | {"fault": self.fault})

    @compiled
    def draw(self, rng, theta, records, i):
        for j in range(self.p):
            k = draw_weighted(rng, theta, first_share(self, j), self.n_cells, 1.0)
            records[i, j] = self.place(rng, j, int(rng.random() * self.n_cells) if self.fault == 0.0 else k)

    @compiled
    def cell(self, j, x):
        k = 0 if x <= self.low[j] else 1 + int((x - self.low[j]) / self.bin_width[j])
        k = min(k, self.n_cells - 1 if x >= self.high[j] else self.n_cells - 2)
        return max(1, min(k, self.n_cells - 2)) if self.fault == 1.0 else k

    @compiled
    def update(self, rng, theta, records, n, sums, matrix, vector, scratch):
        for j in range(self.p):
            first = first_share(self, j)
            for k in range(self.n_cells):
                theta[first + k] = 0.0
            for i in range(n - 1 if self.fault == 2.0 else n):
                theta[first + self.cell(j, records[i, j])] += 1.0
            dirichlet_from_counts(rng, self.alpha, theta, first, self.n_cells)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_broken_twin_is_rejected(fault, monkeypatch):
    """Each is seen without moves of many records, too, which are sooner compiled."""
    monkeypatch.setattr(Broken, "fault", float(FAULTS.index(fault)))
    monkeypatch.setattr(_histogram_predictors, "HistogramLaw", Broken)
    with pytest.raises(Disagreement):
        check("one predictor", interweave=False)


def test_a_twin_without_a_fault_is_the_law_itself(monkeypatch):
    """What rejects the twins is their fault, not how they are written."""
    monkeypatch.setattr(Broken, "fault", -1.0)
    monkeypatch.setattr(_histogram_predictors, "HistogramLaw", Broken)
    check("one predictor", interweave=False)


@pytest.mark.slow
def test_wrong_noise_is_rejected():
    with pytest.raises(Disagreement):
        check("one predictor", scale=1.3)


# --- an unknown number of records -------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_an_unknown_number_of_records_is_exact():
    """Births draw whole records from the law of x; catches one whose x is not of the current shares."""
    case, rng, values, weights = CASES["one predictor"], np.random.default_rng(23), [], []
    noise = oracle.NOISE["laplace"](case.scale)
    for n in range(14):  # beyond, the noisy number has probability e^-19
        coefs, sigma, shares = draw_parameters(rng, 150_000, 1, case.n_bins, case.concentration)
        statistic = np.zeros((len(sigma), 5))
        if n:
            x = draw_predictors(rng, shares, n, case.x_bounds)
            y = coefs[:, :1] + coefs[:, 1:] * x[..., 0] + sigma[:, None] * rng.standard_normal((len(sigma), n))
            statistic = oracle.regression_moments(x, y, case.x_bounds, case.y_bounds)
        columns = [coefs, np.log(sigma), shares[:, 0, 0], shares[:, 0, -1], np.full(len(sigma), n)]
        values.append(np.column_stack(columns))
        weights.append(oracle.log_release(case.release, statistic, noise) - abs(2.3 - n) / 0.6)
    exact = oracle.weighted_summary(np.concatenate(values), np.concatenate(weights))
    mechanism = LaplaceMechanism(scale=case.scale, query=RegressionMoments(case.x_bounds, case.y_bounds, 1))
    model = PrivateLinearRegressionDA(
        mechanism,
        prior=PRIOR,
        x_model=HistogramPredictors(case.n_bins, case.concentration),
        n_records=NoisyCount(2.3, LaplaceMechanism(scale=0.6)),
        n_draws=8000,
        thin=3,
        random_state=5,
    ).fit(np.array(case.release))
    ends = model.x_share_draws_[..., 0, 0], model.x_share_draws_[..., 0, -1]
    draws = [model.intercept_draws_, model.coef_draws_[..., 0], np.log(model.sigma_draws_), *ends]
    for j, column in enumerate([*draws, model.n_records_draws_]):
        error = np.hypot(column.std() / np.sqrt(effective_sample_size(column)), exact.mean_error[j])
        assert abs(column.mean() - exact.mean[j]) < stats.norm.isf(0.5e-6) * error, j


# --- ranks and truths -------------------------------------------------------------------------------------------------


def ranks_of_truth(n_bins, x_model, n_releases=600):
    """(truths, draws, names): parameters drawn from the prior, and posterior draws given a release of 20 records."""
    rng, n, n_draws, x_bounds = np.random.default_rng(8), 20, 59, ((-2.0, 2.0),)
    mechanism = LaplaceMechanism(epsilon=8.0, query=RegressionMoments(x_bounds, (-1.5, 1.5), 1))
    prior = RegressionPrior(1.0, sigma_shape=3.0, sigma_scale=1.0)
    truths, draws = [], []
    for _ in range(n_releases):
        coefs, sigma, shares = draw_parameters(rng, 1, 1, n_bins, 4.0, 1.0, 3.0, 1.0)
        x = draw_predictors(rng, shares, n, x_bounds)[0]
        y = coefs[0, 0] + x[:, 0] * coefs[0, 1] + sigma * rng.standard_normal(n)
        S = mechanism.privatize(np.column_stack([x, y]), random_state=rng)
        model = PrivateLinearRegressionDA(
            mechanism,
            prior=prior,
            x_model=x_model,
            n_records=n,
            n_chains=1,
            n_warmup=1000,
            n_draws=n_draws,
            thin=100,
            random_state=rng,
        ).fit(S)
        truths.append([*coefs[0], sigma[0], population_mean(shares, x_bounds)[0, 0], shares[0, 0, 0]])
        found = [model.intercept_draws_, model.coef_draws_[..., 0], model.sigma_draws_, model.x_mean_draws_[..., 0]]
        draws.append([column[0] for column in [*found, model.x_share_draws_[..., 0, 0]]])
    return np.array(truths), np.array(draws), rng


@pytest.mark.nightly
def test_calibration():
    """Ranks of the true parameters among posterior draws are uniform, noise and clamping of y included."""
    truths, draws, rng = ranks_of_truth(4, HistogramPredictors(4, 4.0))
    for j, name in enumerate(("intercept", "coef", "sigma", "x_mean", "share of the lower bound")):
        assert_ranks_uniform(truths[:, j], draws[:, j], rng, what=name)


@pytest.mark.nightly
def test_calibration_rejects_another_prior():
    """The broken twin: shares that are taken for more even than they are."""
    truths, draws, rng = ranks_of_truth(4, HistogramPredictors(4, 40.0), n_releases=400)
    with pytest.raises(Disagreement):
        assert_ranks_uniform(truths[:, 4], draws[:, 4], rng, what="share of the lower bound")


POPULATIONS = {
    "uniform": lambda rng, n: rng.random(n),
    "exponential": lambda rng, n: np.clip(rng.exponential(0.2, n), 0, 1),
    "binary": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "three values": lambda rng, n: rng.choice([0.1, 0.2, 0.9], n),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", POPULATIONS)
def test_intervals_hold_the_slope(name):
    """Coverage over releases, with all defaults."""
    rng, n, held, n_fits = np.random.default_rng(11), 300, np.zeros(2, dtype=int), 100
    mechanism = LaplaceMechanism(epsilon=5.0, query=RegressionMoments((0, 1), (0, 1), 1))
    for i in range(n_fits):
        x = POPULATIONS[name](rng, n)
        y = 0.2 + 0.5 * x + 0.05 * rng.standard_normal(n)
        S = mechanism.privatize(np.column_stack([x, y]), random_state=rng)
        model = PrivateLinearRegressionDA(mechanism, n_records=n, x_model=HistogramPredictors(), random_state=i).fit(S)
        intervals = model.coef_interval(0.9), model.coef_interval(0.5)
        held += [bool(low[0] < 0.5 < high[0]) for low, high in intervals]
    for count, level in zip(held, (0.9, 0.5), strict=True):
        assert stats.binomtest(int(count), n_fits, level).pvalue > 1e-6


# --- parts and promises -----------------------------------------------------------------------------------------------

QUERY = RegressionMoments([(-3, 3), (0, 2)], (-5, 5), 2)
MECHANISM = GaussianMechanism(rho=3.0, query=QUERY)  # as in the exact case of two predictors, which compiles the same
SHORT = {"n_chains": 2, "n_warmup": 50, "n_draws": 40, "random_state": 0, "n_records": 30}


def released():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=30), rng.random(30)])
    return MECHANISM.privatize(np.column_stack([x, x @ [1.0, -1.0] + rng.normal(size=30)]), random_state=0)


def test_a_record_is_found_in_the_cell_that_it_was_drawn_in():
    """Catches a place outside its cell, and a bound that is not a cell of its own."""
    value = HistogramLaw(np.array([[-1.0, 2.0], [0.1, 0.7]]), 7, 0.5)._lower()
    rng = np.random.default_rng(0)
    for j in range(2):
        for k in range(9):
            assert all(value.cell(j, value.place(rng, j, k)) == k for _ in range(200))


def test_draws_of_the_population():
    """Shares are shares; means and variances are the histogram's, those of new records drawn from it among them."""
    model = PrivateLinearRegressionDA(MECHANISM, x_model=HistogramPredictors(4), **SHORT).fit(released())
    shares, mean, covariance = model.x_share_draws_, model.x_mean_draws_, model.x_covariance_draws_
    assert shares.shape == (2, 40, 2, 6) and covariance.shape == (2, 40, 2, 2)
    np.testing.assert_allclose(shares.sum(axis=-1), 1.0)
    assert np.all(covariance[..., 0, 1] == 0.0)
    bounds, rng = np.column_stack(QUERY.record_bounds()), np.random.default_rng(1)
    x = model.x_model._draw(rng, {"x_share": shares[0, 0]}, 200_000, bounds)
    z = (x.mean(axis=0) - mean[0, 0]) / np.sqrt(np.diag(covariance[0, 0]) / len(x))
    assert np.max(np.abs(z)) < 5.0
    squares = (x - mean[0, 0]) ** 2
    z = (squares.mean(axis=0) - np.diag(covariance[0, 0])) / (squares.std(axis=0) / np.sqrt(len(x)))
    assert np.max(np.abs(z)) < 5.0


def test_acceptance_is_at_least_exp_minus_epsilon():
    mechanism = LaplaceMechanism(epsilon=5.0, query=RegressionMoments((-3, 3), (-5, 5), 1))
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    S = mechanism.privatize(np.column_stack([x, x + rng.normal(size=30)]), random_state=0)
    model = PrivateLinearRegressionDA(mechanism, x_model=HistogramPredictors(), **SHORT).fit(S)
    assert np.exp(-5.0) <= model.min_acceptance_ < model.acceptance_rate_ < 1


def test_chains_go_on():
    reference = PrivateLinearRegressionDA(MECHANISM, x_model=HistogramPredictors(), **SHORT).fit(released())
    shorter = SHORT | {"n_draws": 11, "warm_start": True}
    warm = PrivateLinearRegressionDA(MECHANISM, x_model=HistogramPredictors(), **shorter).fit(released())
    warm.set_params(n_draws=40).fit(released())
    np.testing.assert_array_equal(reference.x_share_draws_, warm.x_share_draws_)
    np.testing.assert_array_equal(reference.coef_draws_, warm.coef_draws_)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_bins": 0}, "n_bins must be a whole number from 1 to 10000, got n_bins=0"),
        ({"n_bins": 2.5}, "n_bins must be a whole number"),
        ({"n_bins": True}, "n_bins must be a whole number"),
        ({"concentration": 0.0}, "concentration must be a positive number, got concentration=0.0"),
        ({"concentration": np.nan}, "concentration must be a positive number"),
        ({"concentration": "flat"}, "concentration must be a positive number"),
    ],
)
def test_bad_input_is_named(params, message):
    model = PrivateLinearRegressionDA(MECHANISM, x_model=HistogramPredictors(**params), **SHORT)
    with pytest.raises(ValueError, match=message):
        model.fit(released())
    assert not hasattr(model, "coef_")
