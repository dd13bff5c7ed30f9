"""The density of one feature: the joint density with the others integrated out."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import ks_2samp

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import (
    BetaKernel,
    CategoricalKernel,
    ConvolvedNormalKernel,
    Kernel,
    MultivariateNormalKernel,
    NormalKernel,
    TruncatedNormalKernel,
)
from sklearn_dpmix.mechanisms import GaussianMechanism

HYPER = {"mean": [1.0, -2.0], "mean_precision": 0.5}
KERNELS = {
    "normal": NormalKernel(**HYPER, shape=[4.0, 5.0], scale=[2.0, 30.0]),
    "truncated": TruncatedNormalKernel(**HYPER, shape=3.0, scale=2.0, bounds=[(-1.0, 3.0), (-4.0, 0.0)]),
    "convolved": ConvolvedNormalKernel(**HYPER, shape=4.0, scale=[3.0, 9.0]),
    "categorical": CategoricalKernel(n_categories=3, alpha=0.7),
    "correlated": MultivariateNormalKernel(**HYPER, dof=6.0, scale=[[4.0, 3.0], [3.0, 9.0]]),
}


def lowered(kernel, n_features):
    return kernel._lower(n_features=n_features, noise_scale=0.4)


def prior_draws(kernel, n_features, n, seed=1):
    compiled = lowered(kernel, n_features)
    theta, rng = np.zeros((n, kernel.sizes(n_features)[0])), np.random.default_rng(seed)
    for k in range(n):
        compiled.draw_prior(rng, theta, k)
    return theta


def log_density(kernel, theta, k, record):
    values = np.zeros(1)
    kernel.log_points(theta, k, np.reshape(record, (-1, 1)), 1, values)
    return values[0]


@pytest.mark.parametrize("j", [0, 1])
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "categorical"])
def test_margin_of_a_cluster_is_the_integral_over_the_other_feature(name, j):
    """Catches columns or hyperparameters of the other feature, and the law given it."""
    kernel = KERNELS[name]
    joint, (margin, columns), theta = lowered(kernel, 2), kernel.margin(j, 2), prior_draws(kernel, 2, 3)
    alone, of_one = lowered(margin, 1), np.ascontiguousarray(theta[:, columns])
    for k in range(3):
        centre, other = joint.mean(theta, k, j), joint.mean(theta, k, 1 - j)
        reach = 12.0 * joint.variance(theta, k, 1 - j) ** 0.5
        limits = (other - reach, other + reach) if name != "truncated" else kernel.bounds[1 - j]
        for y in centre + np.array([-0.4, 0.0, 0.7]) * joint.variance(theta, k, j) ** 0.5:
            whole = quad(
                lambda x: np.exp(log_density(joint, theta, k, (y, x) if j == 0 else (x, y))),  # noqa: B023
                *limits,
                points=[other],
                limit=200,
            )[0]
            assert np.exp(log_density(alone, of_one, k, [y])) == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("j", [0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_margin_has_the_base_measure_of_that_feature(name, j):
    """Catches degrees of freedom that are not one less for each feature left out; the twin below has them."""
    kernel = KERNELS[name]
    margin, columns = kernel.margin(j, 2)
    there, alone = prior_draws(kernel, 2, 4000)[:, columns], prior_draws(margin, 1, 4000, 2)
    for column in (0, 1):
        assert ks_2samp(there[:, column], alone[:, column]).pvalue > 1e-6


def test_a_margin_with_the_joint_laws_degrees_of_freedom_is_rejected():
    kernel = KERNELS["correlated"]
    margin, columns = kernel.margin(0, 2)
    margin.shape = 0.5 * kernel.dof
    there, alone = prior_draws(kernel, 2, 4000)[:, columns], prior_draws(margin, 1, 4000, 2)
    assert ks_2samp(there[:, 1], alone[:, 1]).pvalue < 1e-6


def test_margin_of_categories():
    """Catches probabilities of another feature's categories."""
    kernel, theta = KERNELS["categorical"], prior_draws(KERNELS["categorical"], 2, 1)
    margin, columns = kernel.margin(1, 2)
    alone = np.ascontiguousarray(theta[:, columns])
    found = [np.exp(log_density(lowered(margin, 1), alone, 0, [c])) for c in (0.0, 1.0, 2.0)]
    np.testing.assert_allclose(found, theta[0, 3:6])


class Shifted(NormalKernel):
    """A user's, with a parameter of its own."""

    def __init__(self, mean=None, mean_precision=0.1, shape=3.0, scale=None, shift=0.0):
        super().__init__(mean, mean_precision, shape, scale)
        self.shift = shift


class Nameless(Kernel):
    def sizes(self, n_features):
        return 2, 2


def test_what_has_no_margin_says_so():
    """Catches a wrong density where the layout of θ is unknown, and one for a feature that is not there."""
    assert BetaKernel().margin(0, 1)[1] == slice(None)
    with pytest.raises(ValueError, match=r"Nameless.*define margin"):
        Nameless().margin(0, 2)
    kernel = Shifted([1.0, 2.0], 0.1, 3.0, 4.0, shift=5.0)
    assert kernel.margin(1, 2)[0].get_params() == {**kernel.get_params(), "mean": 2.0}
    kernel.is_product = False
    with pytest.raises(ValueError, match=r"define margin"):
        kernel.margin(1, 2)


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
def test_density_of_one_feature_of_a_fit():
    """Catches weights left out, and another base measure in the unseen part of the mixture."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    Z = pd.DataFrame({"a": rng.normal(0.0, 1.0, 40), "b": np.repeat([-4.0, 4.0], 20) + rng.normal(size=40)})
    model = PrivateDPMixture(kernel=NormalKernel(), n_chains=1, n_warmup=50, n_draws=20, random_state=0).fit(Z)
    x = np.array([[-4.0], [0.5], [4.0]])
    other = np.linspace(-300.0, 300.0, 12_001)  # the unseen part has heavy tails
    for j, name in enumerate(Z):
        draws = model.density_draws(x, feature=name)
        np.testing.assert_array_equal(draws, model.density_draws(x, feature=j))
        for p in range(3):
            grid = np.full((len(other), 2), x[p, 0])
            grid[:, 1 - j] = other
            whole = np.trapezoid(model.density_draws(grid), other, axis=-1)
            np.testing.assert_allclose(draws[..., p], whole, rtol=1e-4)
        mean = draws.mean(axis=(0, 1))
        np.testing.assert_allclose(np.exp(model.score_samples(x, feature=j)), mean, rtol=1e-12)
        low, high = model.density_interval(x, 0.5, feature=j)
        np.testing.assert_allclose([low, high], np.quantile(draws[0], [0.25, 0.75], axis=0), rtol=1e-12)
    for wrong in (2, -1, "c", True, 0.5):
        with pytest.raises(ValueError, match=r"feature must be an integer from 0 to 1 or one of \['a', 'b'\]"):
            model.score_samples(x, feature=wrong)
    with pytest.raises(ValueError, match="one column with feature=0"):
        model.score_samples(Z, feature=0)
    of_frame = model.score_samples(Z[["a"]], feature=0)
    np.testing.assert_array_equal(of_frame, model.score_samples(Z[["a"]].values, feature="a"))
    with pytest.raises(ValueError, match="X has the column 'b', but feature=0 is 'a'"):
        model.density_draws(Z[["b"]], feature=0)


@pytest.mark.parametrize("bounds", [(-4.0, 4.0), [(-4.0, 4.0), (-3.0, 5.0)]], ids=["a pair", "a pair each"])
def test_margin_lacks_the_noise_of_all_features(bounds):
    """Catches the noise of a release of one feature: that of several is more, and the kernel's variance has it."""
    mechanism = GaussianMechanism(epsilon=5.0, delta=1e-5, bounds=bounds, clamp=False)
    Z = mechanism.privatize(np.random.default_rng(0).normal(0.0, 0.5, (40, 2)), random_state=1)
    model = PrivateDPMixture(mechanism, kernel="convolved_normal", n_chains=1, n_warmup=50, n_draws=20, random_state=0)
    model.fit(Z)
    y = 60.0 * np.sinh(np.linspace(-6.0, 6.0, 20_001)) / np.sinh(6.0)
    for x in (-2.0, 0.0, 3.0):
        joint = model.density_draws(np.column_stack([np.full(y.shape, x), y]))[0]
        alone = model.density_draws([[x]], feature=0)[0, :, 0]
        np.testing.assert_allclose(np.trapezoid(joint, y, axis=1), alone, rtol=1e-3)
