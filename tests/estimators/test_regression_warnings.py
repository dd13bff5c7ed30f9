"""Linear regression given the design warns of what contradicts it, and of nothing else; by default it mixes."""

import numpy as np
import pytest
from regression_records import POPULATIONS, SHORT, population, query

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import RegressionPrior
from sklearn_dpmix.queries import NoisyCount, RegressionMoments


def fitted(S, mechanism, **params):
    return PrivateLinearRegressionDA(mechanism, **{"n_records": 60, **SHORT, **params}).fit(S)


def test_too_few_records_are_refused():
    mechanism = LaplaceMechanism(scale=3.0, query=query(2))
    with pytest.raises(ValueError, match=r"n_records must be at least n_features \+ 2 = 4"):
        fitted(np.zeros(9), mechanism, n_records=3)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_a_release_that_contradicts_the_model_is_doubted():
    """Σ xy far beyond what Σ x² and Σ y² allow: within the bounds of each by itself, so that only the model sees it."""
    mechanism = LaplaceMechanism(scale=1.0, query=query(1))
    with pytest.warns(UserWarning, match=r"contradicts the model: sum\(.*\) = .*probability"):
        fitted([0.0, 50.0, 20.0, 0.0, 20.0], mechanism)


def test_sums_of_records_in_their_own_unit_are_refused():
    """By name, where no moments of scaled records can be so large."""
    x_bounds, y_bounds = [(0.0, 50.0), (-20.0, 10.0)], (-3.0, 9.0)
    moments = RegressionMoments(x_bounds, y_bounds, 2)
    rng = np.random.default_rng(0)
    records = np.column_stack([rng.uniform(0, 50, 40), rng.uniform(-20, 10, 40), rng.uniform(-3, 9, 40)])
    x, y = records[:, :2], records[:, 2:]
    S = np.hstack([y, x * y, y * y, x, x[:, [0]] * x, x[:, [1]] ** 2]).sum(axis=0)
    low, high = moments._unscaled_range(1)
    extremes = np.array(np.meshgrid(*(np.linspace(*one, 61) for one in (*x_bounds, y_bounds)))).reshape(3, -1).T
    x, y = extremes[:, :2], extremes[:, 2:]
    products = np.hstack([y, x * y, y * y, x, x[:, [0]] * x, x[:, [1]] ** 2])
    np.testing.assert_allclose([products.min(axis=0), products.max(axis=0)], [low, high], atol=1e-12)
    mechanism = LaplaceMechanism(scale=1.0, query=moments)
    with pytest.raises(ValueError, match=r"another scaling: sum\(.*\) = .* between .* map to \[-1, 1\]"):
        fitted(S, mechanism, n_records=40)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@pytest.mark.parametrize("scale", [1e-4, 1e6])
def test_a_prior_far_from_the_bounds_is_doubted(scale):
    mechanism = LaplaceMechanism(scale=1.0, query=query(1))
    with pytest.warns(UserWarning, match="under the prior y has standard deviation .* times the width 4 of its own"):
        fitted([0.0, 1.0, 20.0, 0.0, 20.0], mechanism, prior=RegressionPrior(scale))


@pytest.mark.filterwarnings("error")
def test_an_ordinary_release_is_not_doubted():
    x, y = population(np.random.default_rng(0), 60, 1)
    mechanism = LaplaceMechanism(scale=1.0, query=query(1))
    S = mechanism.privatize(np.column_stack([x, y]), random_state=0)
    fitted(S, mechanism, n_chains=4, n_warmup=1000, n_draws=1000)


def cut(law, lo, hi, slope=0.5, n=3000, sigma=0.05):
    """A release of n records on a line, clamped to [lo, hi], by default."""
    rng = np.random.default_rng(2)
    x = POPULATIONS[law](rng, n)
    mechanism = LaplaceMechanism(epsilon=5.0, query=RegressionMoments((0, 1), (lo, hi), 1))
    records = np.column_stack([x, 0.2 + slope * x + sigma * rng.standard_normal(n)])
    return fitted(mechanism.privatize(records, random_state=1), mechanism, n_records=n, n_warmup=300, n_draws=200)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@pytest.mark.parametrize(
    ("law", "hi", "share"), [("uniform", 0.45, "[2-5].%"), ("uniform", 0.3, "[2-7].%"), ("binary", 0.65, "1.%")]
)
def test_bounds_that_cut_off_responses_are_doubted(law, hi, share):
    """With the share, the bounds and what to do; slopes are then 0.31, 0.08 and 0.43 for 0.5."""
    with pytest.warns(UserWarning, match=rf"about {share} of the responses .* y_bounds from 0 to {hi}.*wider y_bounds"):
        cut(law, 0.0, hi)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@pytest.mark.parametrize(("n", "hi", "share"), [(50_000, 0.8, "1.5%"), (1_000_000, 0.85, "0.5.%")])
def test_few_responses_beyond_their_bounds_matter_in_a_large_sample(n, hi, share):
    """Slopes are 3 and 5 standard deviations off, and sigma 5 and 9; with 3000 records, none by much more than one."""
    with pytest.warns(UserWarning, match=rf"about {share} of the responses .* y_bounds from -0.2 to {hi}"):
        cut("uniform", -0.2, hi, n=n, sigma=0.1)


@pytest.mark.filterwarnings("error:.*of the responses")
@pytest.mark.parametrize(("n", "hi"), [(3000, 0.85), (50_000, 0.95), (1_000_000, 1.0)])
def test_few_responses_beyond_their_bounds_do_not_matter(n, hi):
    cut("uniform", -0.2, hi, n=n, sigma=0.1)


@pytest.mark.filterwarnings("error:.*of the responses")
@pytest.mark.parametrize("law", POPULATIONS)
def test_bounds_that_hold_the_responses_are_not_doubted(law):
    """Lines that go from one bound to the other, too."""
    cut(law, 0.0, 1.0)
    cut(law, 0.05, 1.05, slope=0.7)


@pytest.mark.filterwarnings("error:.*of the responses")
@pytest.mark.parametrize(("p", "n", "epsilon"), [(3, 50, 0.1), (8, 50, 1.0), (8, 300, 0.1)])
def test_bounds_are_not_doubted_if_noise_hides_the_line(p, n, epsilon):
    """Lines of the prior, most of which leave the bounds: once "about 87 % of the responses seem to be beyond"."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(n, p))
    records = np.column_stack([x, 0.3 + x @ [0.5, *(p - 1) * [0.0]] + 0.05 * rng.standard_normal(n)])
    mechanism = LaplaceMechanism(epsilon=epsilon, query=RegressionMoments((0, 1), (0, 1), p))
    fitted(mechanism.privatize(records, random_state=1), mechanism, n_records=n, n_warmup=500, n_draws=500)


@pytest.mark.filterwarnings("error")
def test_rare_binary_predictors_and_an_unknown_number_mix():
    """Moments at the edge of what can be, a million records: chains that began far inside it had R-hat 3.9."""
    rng, n = np.random.default_rng(0), 1_000_000
    x = (rng.random((n, 3)) < 0.05).astype(float)
    y = 0.4 + x @ [0.3, -0.2, 0.1] + 0.05 * rng.standard_normal(n)
    for epsilon, number in ((10.0, n), (0.1, NoisyCount(n + 14.0, LaplaceMechanism(scale=10.0)))):
        mechanism = LaplaceMechanism(epsilon=epsilon, query=RegressionMoments((0, 1), (0, 1), 3))
        S = mechanism.privatize(np.column_stack([x, y]), random_state=rng)
        fit = PrivateLinearRegressionDA(mechanism, n_records=number, random_state=0).fit(S)
        assert max(fit.r_hat_.values()) <= 1.01 and min(fit.ess_.values()) >= 400


#: p, n, ε: with all defaults.
GRID = [(p, n, epsilon) for p in (1, 3, 8) for n in (50, 3000, 1_000_000) for epsilon in (0.1, 1.0, 10.0)]


@pytest.mark.nightly
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mechanism", [LaplaceMechanism, GaussianMechanism])
@pytest.mark.parametrize(("p", "n", "epsilon"), GRID)
def test_defaults_mix(mechanism, p, n, epsilon):
    rng = np.random.default_rng(0)
    x = rng.random((n, p))
    y = 0.4 + x @ np.resize([0.3, -0.2, 0.1], p) / max(1.0, p / 3.0) + 0.05 * rng.standard_normal(n)
    moments = RegressionMoments((0, 1), (0, 1), p)
    budget = {"epsilon": epsilon} if mechanism is LaplaceMechanism else {"rho": epsilon**2 / 8}
    curator = mechanism(**budget, query=moments)
    S = curator.privatize(np.column_stack([x, y]), random_state=1)
    fit = PrivateLinearRegressionDA(curator, n_records=n, random_state=0).fit(S)
    assert max(fit.r_hat_.values()) <= 1.01 and min(fit.ess_.values()) >= 400
