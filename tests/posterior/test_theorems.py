"""Statements with a proof: the acceptance bound of Beraha et al., Proposition 1 (with ERRATA), and the limits of ε."""

from itertools import product

import numpy as np
import oracle
import pytest
from scipy import stats
from scipy.special import gammaln
from statistical import Disagreement, assert_mean_close, assert_pmf_close

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, SquareWaveMechanism
from sklearn_dpmix.mixings import DirichletProcess, PitmanYor
from sklearn_dpmix.samplers import Neal5

# --- acceptance -------------------------------------------------------------------------------------------------------

WIDE = {"mean": 0.0, "mean_precision": 0.1, "shape": 3.0, "scale": 8.0}  # records beyond either bound are common
ACCEPTING = {"neal5": "neal5", "neal5 of 3": Neal5(n_auxiliary=3), "slice": "slice"}


def smallest_acceptance(mechanism, Z, sampler, n_draws=20_000):
    model = PrivateDPMixture(
        mechanism, kernel=NormalKernel(**WIDE), sampler=sampler, n_chains=2, n_warmup=0, n_draws=n_draws, random_state=0
    )
    return model.fit(Z).min_acceptance_


def assert_bound_holds_and_is_met(acceptance, epsilon, slack=0.02):
    """At least exp(-ε), and close to it: a channel that is more private than it says would also keep the bound."""
    if not acceptance >= np.exp(-epsilon) * (1 - 1e-9):
        raise Disagreement(f"acceptance {acceptance:.4g} is below exp(-{epsilon}) = {np.exp(-epsilon):.4g}")
    assert acceptance <= np.exp(-epsilon * (1 - slack)), f"{acceptance:.4g}, far from {np.exp(-epsilon):.4g}"


@pytest.mark.parametrize("sampler", ACCEPTING)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_acceptance_is_at_least_exp_minus_epsilon(sampler, epsilon):
    """Proposition 1, clamping Laplace channel.  Catches a density that does not clamp, or noise of another scale.

    The worst case is attained: a release at one bound, its record there, and a proposal beyond the other bound.
    """
    mechanism = LaplaceMechanism(epsilon=epsilon, bounds=(-1.0, 1.0))
    Z = np.array([[-1.2], [1.3], [0.2], [-2.0]])
    # of three auxiliaries, all must be on the wrong side: the bound is approached and rarely met
    slack = 0.25 if sampler == "neal5 of 3" else 0.02
    assert_bound_holds_and_is_met(smallest_acceptance(mechanism, Z, ACCEPTING[sampler]), epsilon, slack)


@pytest.mark.parametrize("sampler", ["neal5", "slice"])
@pytest.mark.parametrize("tight", range(3))
def test_acceptance_bound_is_that_of_each_record(sampler, tight):
    """With one ε a record its bound is exp(-ε_i): all others have next to none, so the smallest is that record's.

    Catches noise of the wrong record (an index slip), or one noise for all.
    """
    epsilon = np.array([0.01, 0.02, 0.03])
    epsilon[tight] = 1.5
    mechanism = LaplaceMechanism(epsilon=epsilon, bounds=(-1.0, 1.0))
    Z = np.array([[-1.1], [1.4], [-1.7]])
    assert_bound_holds_and_is_met(smallest_acceptance(mechanism, Z, sampler), 1.5)
    # the others' own bounds: without the tight record the smallest acceptance is that of the next one
    rest = np.delete(np.arange(3), tight)
    mechanism = LaplaceMechanism(epsilon=epsilon[rest], bounds=(-1.0, 1.0))
    assert_bound_holds_and_is_met(smallest_acceptance(mechanism, Z[rest], sampler), epsilon[rest].max())


@pytest.mark.parametrize(("sampler", "share"), [("neal5", 1.0), ("slice", 0.75)])
def test_one_feature_update_has_the_features_share_of_epsilon(sampler, share):
    """Two features: Neal 5 moves both at once, down to exp(-ε); the slice sampler moves one, with (hi-lo)/Δ of ε.

    Catches a feature's bounds or noise taken for another's.
    """
    epsilon = 2.0
    mechanism = LaplaceMechanism(epsilon=epsilon, bounds=[(-1.0, 2.0), (0.0, 1.0)])
    Z = np.array([[-1.5, -0.2], [2.3, 1.4], [-1.2, 1.1]])
    assert_bound_holds_and_is_met(smallest_acceptance(mechanism, Z, sampler, n_draws=60_000), share * epsilon)


@pytest.mark.parametrize("sampler", ["neal5", "slice"])
def test_acceptance_bound_fails_without_clamping(sampler):
    """The broken twin, and ERRATA's counterexample (bounds [-1, 1], ε = 1, z = y = 0, y' = 8 accepts with e^-4).

    With ``clamp=False`` and a kernel that is not truncated the bound is false; the check must see that.
    """
    mechanism = LaplaceMechanism(epsilon=1.0, bounds=(-1.0, 1.0), clamp=False)
    channel = mechanism._lower(n_records=1, n_features=1)
    Z = np.array([[0.0]])
    ratio = channel.log_channel(Z, 0, 0, 8.0) - channel.log_channel(Z, 0, 0, 0.0)
    assert ratio == pytest.approx(-4.0)
    acceptance = smallest_acceptance(mechanism, np.array([[0.0], [-0.5]]), sampler)
    assert acceptance < np.exp(-4.0)
    with pytest.raises(Disagreement):
        assert_bound_holds_and_is_met(acceptance, 1.0)


# --- limits of epsilon ------------------------------------------------------------------------------------------------

PRIOR = {"mean": 0.4, "mean_precision": 0.3, "shape": 2.5, "scale": 1.7}
BOUNDS = (-8.0, 10.0)
ALL = ("neal5", "slice", "conditional", "neal8", "auto")


def n_clusters_prior(n, concentration, discount=0.0):
    """P(number of clusters of n records) by the urn: pmf over 0, ..., n; ``concentration`` may be an array."""
    concentration = np.asarray(concentration, dtype=float)
    pmf = np.zeros((n + 1, *concentration.shape))
    pmf[1] = 1.0
    k = np.arange(n + 1).reshape(-1, *(1,) * concentration.ndim)
    for i in range(1, n):
        fresh = (concentration + discount * k) / (concentration + i)
        pmf = pmf * (1.0 - fresh) + np.concatenate([np.zeros_like(pmf[:1]), (pmf * fresh)[:-1]])
    return pmf


def student(x, mean, mean_precision, shape, scale):
    """Prior predictive density."""
    return stats.t.pdf(x, 2 * shape, mean, np.sqrt(scale / shape * (1 + 1 / mean_precision)))


def gamma_mixture(n, shape, rate):
    """P(number of clusters) under a gamma prior of the concentration, by the trapezoidal rule in its logarithm."""
    log_a = np.linspace(-40, 6, 4001)
    weight = np.exp(shape * (log_a + np.log(rate)) - rate * np.exp(log_a) - gammaln(shape)) * (log_a[1] - log_a[0])
    assert weight.sum() == pytest.approx(1.0, abs=1e-9)
    return n_clusters_prior(n, np.exp(log_a)) @ weight


def release(n):
    return np.random.default_rng(7).uniform(*BOUNDS, size=(n, 1))


def check_prior(mechanism, sampler, mixing, pmf):
    """The posterior given a release that says nothing is the prior: the urn, and a Student t."""
    Z, x = release(len(pmf) - 1), np.array([-4.0, -1.0, 0.4, 1.5, 6.0])
    model = PrivateDPMixture(
        mechanism,
        kernel=NormalKernel(**PRIOR),
        mixing=mixing,
        sampler=sampler,
        n_warmup=200,
        n_draws=3000 if sampler == "auto" else 6000,
        thin={"auto": 1, "neal8": 2}.get(sampler, 4),  # a sweep of the walk, which "auto" is, has moves enough
        random_state=3,
    )
    model.fit(Z)
    assert_pmf_close(model.n_clusters_draws_, pmf)
    assert_mean_close(model.density_draws(x[:, None]), student(x, **PRIOR), what="density")


def mechanism_of(noise, epsilon):
    """Clamping, with the ε of the Laplace (the Gaussian of the same scale)."""
    if noise == "square wave":
        return SquareWaveMechanism(epsilon, BOUNDS)
    scale = (BOUNDS[1] - BOUNDS[0]) / epsilon
    return (LaplaceMechanism if noise == "laplace" else GaussianMechanism)(scale=scale, bounds=BOUNDS)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "sampler"), [*product(("laplace", "gaussian"), ALL), ("square wave", "auto")])
def test_small_epsilon_gives_the_prior(sampler, noise):
    """Catches a sampler that does not keep the prior: wrong urn or stick weights, a θ update that does not fit G0."""
    mixing = DirichletProcess(1.5)
    check_prior(mechanism_of(noise, 1e-6), sampler, mixing, n_clusters_prior(12, 1.5))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["neal5", "slice", pytest.param("neal8", marks=pytest.mark.nightly)])
def test_small_epsilon_gives_the_prior_of_other_mixings(sampler):
    """Catches a discount that is forgotten somewhere, a wrong Escobar–West update."""
    channel = mechanism_of("laplace", 1e-6)
    check_prior(channel, sampler, PitmanYor(0.5, 0.3), n_clusters_prior(12, 0.5, 0.3))
    check_prior(channel, sampler, DirichletProcess(None, prior=(2.0, 1.0)), gamma_mixture(12, 2.0, 1.0))


@pytest.mark.parametrize(("mixing", "expected"), [(PitmanYor(1.0, 0.9), 0.05), (DirichletProcess(300.0), 1 / 301)])
def test_squares_of_all_weights(mixing, expected):
    """Two draws from P are in one atom with probability (1 - d)/(1 + α); catches one atom that has all of a long rest.

    One record says nothing about the weights, and draws given it are independent.
    """
    model = PrivateDPMixture(
        mechanism_of("laplace", 1e-6), kernel=NormalKernel(**PRIOR), mixing=mixing, sampler="neal5", n_warmup=1,
        n_draws=250, random_state=5,
    )  # fmt: skip
    draws = model.fit([[0.0]])._draws_
    squares = np.add.reduceat(draws.flat.weights**2, draws.start[:-1])
    assert abs(squares.mean() - expected) < 5 * squares.std() / len(squares) ** 0.5


@pytest.mark.slow
def test_informative_release_does_not_give_the_prior():
    """The broken twin: at ε = 3 the release says something, and the check sees it; so it does a wrong concentration."""
    with pytest.raises(Disagreement):
        check_prior(mechanism_of("laplace", 3.0), "neal5", DirichletProcess(1.5), n_clusters_prior(12, 1.5))
    with pytest.raises(Disagreement):
        check_prior(mechanism_of("laplace", 1e-6), "neal5", DirichletProcess(1.7), n_clusters_prior(12, 1.5))


def check_noise_free(noise, epsilon, sampler):
    """The posterior is that of the records themselves."""
    Z = np.array([[-3.1], [-0.9], [0.2], [2.9], [4.3]])
    x = np.linspace(-5.0, 7.0, 6)[:, None]
    truth = oracle.exact_posterior(Z, x=x, concentration=1.0, **PRIOR)
    model = PrivateDPMixture(
        mechanism_of(noise, epsilon),
        kernel=NormalKernel(**PRIOR),
        sampler=sampler,
        n_warmup=500,
        n_draws=4_000 if sampler == "auto" else 12_000,
        random_state=4,
    )
    model.fit(Z)
    assert_pmf_close(model.n_clusters_draws_, truth.n_clusters_pmf)
    assert_mean_close(model.density_draws(x), truth.predictive, what="density")


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["conditional", "neal8", "auto"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", [pytest.param(1e4, marks=pytest.mark.nightly), 1e6])
def test_large_epsilon_gives_the_noise_free_posterior(sampler, noise, epsilon):
    """Catches cancellation in the marginal kernel or in the exact draws of records when the noise is tiny.

    (``neal5`` and ``slice`` propose records from the kernel: next to none is accepted there.)
    """
    check_noise_free(noise, epsilon, sampler)


@pytest.mark.slow
def test_moderate_epsilon_does_not_give_the_noise_free_posterior():
    """The broken twin: at ε = 20 the noise still matters, and the check sees it."""
    with pytest.raises(Disagreement):
        check_noise_free("laplace", 20.0, "conditional")
