"""Linear regression whose predictors have a histogram each: against weighted draws, ranks, and truths people meet."""

import warnings
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import regression_oracle as oracle
from scipy import stats
from statistical import Disagreement, assert_ranks_uniform, effective_sample_size

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import HistogramPredictors, RegressionPrior, _histogram_predictors
from sklearn_dpmix.models._histogram_predictors import HistogramLaw
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
    "one predictor": Case(3, ((-1.0, 1.5),), (-2.0, 2.0), LaplaceMechanism, 0.4, (1.9, 1.1, 1.6, 0.4, 1.9), 3, 0.7),
    "much of y is clamped": Case(2, ((-0.5, 2.0),), (0.0, 0.5), LaplaceMechanism, 0.3, (-1.3, 1.2, 1.7, -1.5, 1.5), 2, 1.5),
    "two predictors, two releases": Case(
        2,
        ((-2.0, 2.0), (-1.0, 3.0)),
        (-4.0, 4.0),
        GaussianMechanism,
        0.8,
        ((0.5, 0.2, -0.9, 1.0, 0.3, -1.0, 0.4, 0.1, 0.9), (-0.3, 0.9, -0.1, 0.3, -0.8, -0.2, 1.2, -0.4, 0.5)),
        2,
        0.5,
    ),
}  # fmt: skip


def draw_parameters(rng, size, p, n_bins, concentration, coef_scale=1.5, shape=2.5, scale=1.2):
    """Coefficients (size, p + 1), σ (size,) and shares (size, p, n_bins + 2) from the prior."""
    coefs = coef_scale * rng.standard_normal((size, p + 1))
    sigma = np.sqrt(scale / rng.standard_gamma(shape, size))
    return coefs, sigma, rng.dirichlet(np.full(n_bins + 2, concentration), (size, p))


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
@pytest.mark.parametrize("interweave", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_posterior_is_exact(name, interweave):
    """Catches a wrong target of the record moves or the random walk, and a wrong law of x or of its shares."""
    check(name, interweave)


class ProposesFromThePrior(HistogramLaw):
    """Cells are proposed with equal probabilities, and not by their current shares."""

    @compiled
    def draw(self, rng, theta, records, i):
        for j in range(self.p):
            records[i, j] = self.place(rng, j, int(rng.random() * self.n_cells))


class BoundsInTheirBins(HistogramLaw):
    """Records at a bound are counted in the bin beside it."""

    @compiled
    def cell(self, j, x):
        return max(1, min(1 + int((x - self.low[j]) / self.bin_width[j]), self.n_cells - 2))


class OneRecordForgotten(HistogramLaw):
    """Shares are drawn given all records but the last."""

    @compiled
    def update(self, rng, theta, records, n, sums, matrix, vector, scratch):
        for j in range(self.p):
            first = self.p + 2 + j * self.n_cells
            for k in range(self.n_cells):
                theta[first + k] = 0.0
            for i in range(n - 1):
                theta[first + self.cell(j, records[i, j])] += 1.0
            dirichlet_from_counts(rng, self.concentration, theta, first, self.n_cells)


@pytest.mark.slow
@pytest.mark.parametrize("twin", [ProposesFromThePrior, BoundsInTheirBins, OneRecordForgotten])
def test_broken_twin_is_rejected(twin, monkeypatch):
    """The same check disagrees with each twin."""
    monkeypatch.setattr(_histogram_predictors, "HistogramLaw", twin)
    with pytest.raises(Disagreement):
        check("one predictor")


@pytest.mark.slow
def test_wrong_noise_is_rejected():
    with pytest.raises(Disagreement):
        check("one predictor", scale=1.3)
