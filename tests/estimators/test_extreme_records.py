"""Few, constant and huge records fit, and the same records in other units give the same fit."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, gamma, kstest
from short_fits import MECHANISM, RELEASE, mixture

from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.kernels import BetaKernel, CategoricalKernel, NormalKernel, TruncatedNormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


def fit_quietly(model, Z):
    """Fit, with every floating-point accident an error."""
    with warnings.catch_warnings(), np.errstate(divide="raise", invalid="raise", over="raise"):
        warnings.filterwarnings("error", category=RuntimeWarning)
        warnings.filterwarnings("ignore", message="the chains have not mixed")
        warnings.filterwarnings("ignore", message=".* less than the noise")  # constant records are no honest release
        return model.fit(Z)


@pytest.mark.parametrize("mechanism", [None, MECHANISM], ids=["no noise", "laplace"])
@pytest.mark.parametrize(
    "Z",
    [[[0.3]], [[0.3], [-4.0]], [[0.1]] * 7, [[0.0]] * 3, [[9.0]] * 6 + [[9.0000001]]],
    ids=["one", "two", "constant", "zero", "almost constant"],
)
def test_few_and_constant_records_fit(mechanism, Z):
    """Catches a division by a variance of zero, an urn without other records, an overflow in a sum of squares."""
    model = fit_quietly(mixture(mechanism, n_draws=20, n_chains=2), Z)
    for values in (
        model.score_samples(Z),
        model.moment_draws().mean,
        model.quantile_draws([0.1, 0.9]),
        model.sample(5),
    ):
        assert np.all(np.isfinite(values))
    assert set(model.labels_) == set(range(model.labels_.max() + 1))
    assert np.isfinite(model.score_release(Z))


def test_quantiles_where_clusters_differ_hugely_in_width():
    """Catches a bisection whose steps end at the width of the widest cluster: IG(0.01, 0.01) has some of 1e100."""
    model = mixture(n_draws=50, kernel=NormalKernel(0.0, 0.1, shape=0.01, scale=0.01)).fit(RELEASE)
    q = np.array([0.1, 0.5, 0.9])
    for draw, quantiles in enumerate(model.quantile_draws(q)[0]):
        np.testing.assert_allclose(model.cdf_draws(quantiles[:, None])[0, draw], q, rtol=1e-9)


@pytest.mark.parametrize(("sampler", "n_draws"), [("auto", 30), ("neal5", 100)])
@pytest.mark.parametrize("kernel", [NormalKernel, TruncatedNormalKernel])
def test_a_prior_of_which_much_is_beyond_floating_point(kernel, sampler, n_draws):
    """Catches clusters of infinite width: of an IG(0.001, 0.001), half are wider than 1e154."""
    params = {"sampler": sampler, "n_warmup": n_draws // 2, "n_draws": n_draws}
    model = fit_quietly(mixture(kernel=kernel(0.0, 0.1, shape=0.001, scale=0.001), **params), RELEASE)
    x = np.array([[-5.0], [0.0], [5.0]])
    for values in (
        model.density_draws(x),
        model.moment_draws().mean,
        model.moment_draws().variance,
        model.quantile_draws([0.1, 0.9]),
        model.sample(1000, random_state=0),
        model.score_samples(x),
    ):
        assert np.all(np.isfinite(values))


@pytest.mark.parametrize("sd", [1e7, 1e12, 1e90])
@pytest.mark.parametrize("place", [-1e2, -1.0, 0.0, 2.0])
def test_a_wide_truncated_normal_is_a_uniform_law(sd, place):
    """Catches ends of the interval whose difference in standard deviations is lost to rounding."""
    kernel = TruncatedNormalKernel(0.0, 0.1, 2.0, 1.0, bounds=(-3.0, 5.0))._lower(n_features=1)
    theta = np.zeros((1, 4))
    kernel.put_params(theta, 0, 0, place * sd, sd)
    tolerance = 1e-10 + 8.0 * abs(place) / sd
    assert kernel.log_likelihood(theta, 0, 0, 4.9) == pytest.approx(-np.log(8.0), abs=tolerance)
    assert kernel.cdf(theta, 0, 0, -1.0) == pytest.approx(0.25, abs=tolerance)
    assert kernel.log_tilted_mass(theta, 0, 0, -1.0, 4.0, 1.0, 0.0, 0.0) == pytest.approx(np.log(5 / 8), abs=tolerance)
    assert kernel.mean(theta, 0, 0) == pytest.approx(1.0, abs=10 * tolerance)
    rng = np.random.default_rng(0)
    for low, high in ((-3.0, 5.0), (1.0, 9.0)):
        draws = [kernel.draw_tilted(rng, theta, 0, 0, low, high, 0.0, 0.0, 0.0) for _ in range(1000)]
        assert kstest(draws, "uniform", (low, min(high, 5.0) - low)).pvalue > 1e-6


@pytest.mark.parametrize("sampler", ["neal5", "slice"])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 0.0), (1e6, 1e6 + 1.0)])
def test_beta_records_that_round_to_an_end_keep_the_prior(bounds, sampler):
    """Catches shapes updated from the rounded records: under noise that says nothing the posterior is the prior.

    Of a component with b = 0.05, 16 % of the records are closer to 1 than the last double below 1.
    """
    mechanism, kernel, place = LaplaceMechanism(1e-8, bounds=bounds), BetaKernel(0.3, 2.0), 1e-3
    Z = mechanism.privatize(np.full((3, 1), np.mean(bounds)), random_state=1)
    params = {"n_chains": 2, "n_warmup": 500, "n_draws": 20_000, "thin": 3, "random_state": 0}
    model = mixture(mechanism, kernel=kernel, sampler=sampler, **params).fit(Z)
    blocks = model.cdf_draws([[bounds[0] + place]]).reshape(40, -1).mean(axis=1)
    least, most = gamma.cdf([1e-3, 1e6], 0.3, scale=0.5)
    shapes = gamma.ppf(least + (most - least) * (np.arange(1000) + 0.5) / 1000, 0.3, scale=0.5)
    expected = beta.cdf(place, shapes[:, None], shapes).mean()
    assert abs(blocks.mean() - expected) < 4.5 * blocks.std() / np.sqrt(39)
    # the density is still one, next to an end too
    value, atom, near = BetaKernel(bounds=bounds)._lower(n_features=1), np.zeros((1, 4)), bounds[0] + 1e-9
    value.put_params(atom, 0, 0.05, 2.0)
    found = value.log_density(atom, 0, 0, near)
    assert found == pytest.approx(beta.logpdf(near - bounds[0], 0.05, 2.0), rel=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_informativeness_is_not_0_where_it_is_not_known():
    """Catches a NaN that became 0, "nothing was learnt": half of these posterior records round to the upper end."""
    mechanism = LaplaceMechanism(20.0, bounds=(1e6, 1e6 + 1.0))
    model = mixture(mechanism, kernel=BetaKernel(0.3, 2.0), n_draws=50).fit([[1e6 + 0.3]])
    assert np.isnan(model.informativeness(n_samples=1000, random_state=0))


def test_quantiles_where_clusters_have_no_width():
    """Catches a search for a bracket by steps of nothing, which never ends."""
    model = fit_quietly(mixture(None, kernel=NormalKernel(1e9, 1e8, 2.0, 1e-20)), [[1e9]] * 50)
    np.testing.assert_allclose(model.quantile_draws([0.1, 0.9]), 1e9, rtol=1e-12)
    one = DirichletProcess(concentration=1e-300)
    model = fit_quietly(mixture(None, kernel=CategoricalKernel(3, alpha=0.001), mixing=one), [[0, 2]] * 50)
    np.testing.assert_array_equal(model.quantile_draws([0.1, 0.9])[0], [[[0.0, 2.0]] * 2] * 10)


def test_quantiles_of_categories_are_categories():
    """Catches the middle of a bracket around 0."""
    model = mixture(None, kernel="categorical", n_draws=50).fit([[0], [0], [1], [2]])
    quantiles = model.quantile_draws([0.1, 0.5, 0.9])
    assert set(np.unique(quantiles)) == {0.0, 1.0, 2.0}
    np.testing.assert_array_equal(quantiles[..., 1] == 0, model.cdf_draws([[0]])[..., 0] >= 0.5)


@pytest.mark.parametrize("mechanism", [None, LaplaceMechanism(4.0, bounds=(-8, 8)), LaplaceMechanism(scale=0.5)])
@pytest.mark.parametrize(("shift", "power"), [(0, -40), (0, 40), (2**30, 0), (-(2**30), 20)])
def test_fits_are_equivariant_under_shift_and_scale(mechanism, shift, power):
    """Catches an absolute tolerance, floor or default, and statistics that lose digits far from zero.

    Records on a grid of 2^-10, so that shifts by 2^30 and powers of two are exact; what is left is rounding of
    statistics, and a chain follows it exactly for a few sweeps.
    """
    scale = float(Fraction(2) ** power)
    Z = np.round(make_three_normals(40, random_state=3)[0] * 2**10) / 2**10
    moved = None
    if mechanism is not None and mechanism.bounds is not None:
        moved = LaplaceMechanism(4.0, bounds=((-8 + shift) * scale, (8 + shift) * scale))
    elif mechanism is not None:
        moved = LaplaceMechanism(scale=0.5 * scale)
    one = fit_quietly(mixture(mechanism, n_warmup=0, n_draws=12), Z)
    other = fit_quietly(mixture(moved, n_warmup=0, n_draws=12), (Z + shift) * scale)
    np.testing.assert_array_equal(other.n_clusters_draws_, one.n_clusters_draws_)
    tolerance = 1e-5 if shift else 1e-12
    np.testing.assert_allclose(other.weights_draws_, one.weights_draws_, rtol=tolerance)
    x = np.linspace(-12, 12, 9)[:, None]
    np.testing.assert_allclose(
        other.density_draws((x + shift) * scale) * scale, one.density_draws(x), rtol=1e-3 if shift else 1e-9, atol=1e-12
    )
    np.testing.assert_allclose(other.moment_draws().mean / scale - shift, one.moment_draws().mean, atol=1e-5)
    np.testing.assert_allclose(other.quantile_draws(0.5) / scale - shift, one.quantile_draws(0.5), atol=1e-5)


def fit_in_unit(unit, cls, n, n_features, **params):
    """A default fit of two groups of records within (0, 8) units."""
    rng = np.random.default_rng(0)
    group = rng.random((n, n_features)) < 0.5
    records = np.where(group, rng.normal(2.0, 0.5, group.shape), rng.normal(6.0, 1.0, group.shape))
    budget = {"epsilon": 4.0, "delta": 1e-6} if cls is GaussianMechanism else {"epsilon": 4.0}
    mechanism = cls(**budget, bounds=(0.0, 8.0 * unit))
    Z = mechanism.privatize(unit * np.clip(records, 0.0, 8.0), random_state=1)
    return fit_quietly(mixture(mechanism, n_chains=2, n_warmup=30, n_draws=20, **params), Z), Z


def assert_rescaled(cls, n, n_features, **params):
    """Records, bounds and noise in another unit: the same draws in that unit, for powers of 2, which round nothing."""
    (one, Z), x = fit_in_unit(1.0, cls, n, n_features, **params), np.linspace(0.5, 7.5, 5)
    points = np.column_stack([x] * n_features)
    for unit in (2.0**-40, 2.0**20):
        other, moved = fit_in_unit(unit, cls, n, n_features, **params)
        np.testing.assert_array_equal(moved, unit * Z)
        np.testing.assert_array_equal(other.n_clusters_draws_, one.n_clusters_draws_)
        density = other.density_draws(unit * points) * unit**n_features
        np.testing.assert_allclose(density, one.density_draws(points), rtol=1e-9)
        found, expected = other.moment_draws(), one.moment_draws()
        np.testing.assert_allclose(found.mean / unit, expected.mean, rtol=1e-9)
        np.testing.assert_allclose(found.variance / unit**2, expected.variance, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "n", "n_features", "params"),
    [
        (LaplaceMechanism, 60, 1, {}),
        (LaplaceMechanism, 4000, 1, {}),
        pytest.param(GaussianMechanism, 60, 2, {}, marks=pytest.mark.nightly),
        pytest.param(LaplaceMechanism, 60, 2, {"kernel": "multivariate_normal"}, marks=pytest.mark.nightly),
        pytest.param(LaplaceMechanism, 60, 1, {"kernel": "truncated_normal"}, marks=pytest.mark.nightly),
    ],
)
def test_default_fits_are_rescaled_with_the_data(cls, n, n_features, params):
    """Catches a default prior, grid, floor or tolerance on the data's scale, over whole chains."""
    assert_rescaled(cls, n, n_features, **params)


@pytest.mark.slow
def test_a_prior_on_the_data_s_scale_is_not_rescaled():
    """The broken twin: what the default would be with numbers."""
    with pytest.raises(AssertionError):
        assert_rescaled(LaplaceMechanism, 60, 1, kernel=NormalKernel(4.0, 0.1, 2.0, 2.0))
