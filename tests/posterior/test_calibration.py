"""Simulation-based calibration: records from the prior, released through the mechanism, ranks of the truth uniform.

Truth is a random mixture P (stick-breaking), n records from it, and their release.  Ranked among posterior draws: the
number of clusters of the n records, the density of P at two points, and the mean of P.  The samplers run without the
estimator around them, which would cost more than the chains.
"""

from functools import cache

import numpy as np
import pytest
from scipy import stats
from statistical import Disagreement, assert_ranks_uniform

from sklearn_dpmix._posterior.mixture import MixtureDraws
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures
from sklearn_dpmix.samplers import Auto, Interweaved, MixingMeasure, Neal5, Slice

N_RECORDS = 20
N_REPLICATES = 1000
N_DRAWS = 99
N_MOVES = 70  # in a sweep over the mixing measure
PRIOR = {"mean": 0.5, "mean_precision": 0.4, "shape": 3.0, "scale": 2.0}
CONCENTRATION = 1.2
POINTS = np.array([[0.0], [2.0]])
MECHANISMS = {"laplace": LaplaceMechanism(scale=0.8, bounds=(-1.0, 2.0)), "gaussian": GaussianMechanism(scale=1.0)}
MIXINGS = {"dirichlet": DirichletProcess(CONCENTRATION), "finite": MixtureOfFiniteMixtures(0.8, 0.3)}
# sampler: (object, sweeps a draw)
SAMPLERS = {
    "neal5": (Neal5(), 30),
    "slice": (Slice(), 30),
    "auto": (Auto(), 2),
    "interweaved": (Interweaved(), 10),
    "auto of finite mixtures": (Auto(), 30),
}


def draw_weights(rng, mixing):
    """Weights of P's atoms."""
    if isinstance(mixing, MixtureOfFiniteMixtures):
        return rng.dirichlet(np.full(rng.geometric(mixing.prior), mixing.concentration))
    sticks = rng.beta(1.0, CONCENTRATION, size=200)  # what is left has mass (α/(1 + α))^200 on average
    return sticks * np.cumprod(np.concatenate([[1.0], 1.0 - sticks[:-1]]))


def draw_truth(rng, mixing):
    """A mixture from the prior, and a function that draws records from it: (f_P at POINTS, mean of P, function)."""
    weights = draw_weights(rng, mixing)
    sd = np.sqrt(PRIOR["scale"] / rng.gamma(PRIOR["shape"], size=len(weights)))
    mean = rng.normal(PRIOR["mean"], sd / np.sqrt(PRIOR["mean_precision"]))

    def draw_records(n):
        cluster = rng.choice(len(weights), n, p=weights / weights.sum())
        return len(np.unique(cluster)), rng.normal(mean[cluster], sd[cluster])[:, None]

    density = (weights * stats.norm.pdf(POINTS, mean, sd)).sum(axis=1)
    return density, weights @ mean, draw_records


@cache
def simulated(mixing):
    """(Number of clusters, f_P at POINTS, mean of P, records) of each data set."""
    rng, found = np.random.default_rng(11), []
    for _ in range(N_REPLICATES):
        density, mean, draw_records = draw_truth(rng, MIXINGS[mixing])
        n_clusters, records = draw_records(N_RECORDS)
        found.append((n_clusters, density, mean, records))
    return found


def posterior(sampler, mechanism, mixing, Z, thin, rng):
    """Draws of one chain: (number of clusters, f_P at POINTS, mean of P), each (N_DRAWS, ...)."""
    kernel = NormalKernel(**PRIOR)
    sampler = sampler.resolve(mechanism, kernel, mixing).sized(len(Z), 1)
    if isinstance(sampler, MixingMeasure):  # it would ask a trial run, three times as long as these chains
        sampler.set_params(n_moves=N_MOVES)
    channel = mechanism._lower(n_records=len(Z), n_features=1)
    values = sampler._lower(n_records=len(Z)), channel, kernel._lower(n_features=1), mixing._lower()
    Z.flags.writeable = False
    release = Release(Z, mechanism)
    seen = sampler.summarise(values, Z, release)
    state = sampler.init(values, seen, release.guess(), kernel.sizes(1), rng)
    n_warmup = 10 * thin
    _, draws = sampler.advance(values, seen, state, rng, n_warmup + N_DRAWS * thin, n_warmup, thin)
    mixture = MixtureDraws([draws])
    density, (mean, _) = mixture.density(values[2], POINTS), mixture.moments(values[2], 1)
    return draws.n_clusters, density[0], mean[0, :, 0]


def check(setting, noise, mixing="dirichlet", fitted_with=None, fitted_mixing=None):
    """Release every simulated data set through ``noise``, draw from each posterior, and look at the ranks."""
    mechanism = MECHANISMS[noise]
    sampler, thin = SAMPLERS[setting]
    rng = np.random.default_rng(12)
    truth, draws = [], []
    for n_clusters, density, mean, records in simulated(mixing):
        Z = mechanism.privatize(records, random_state=rng)
        found = posterior(sampler, fitted_with or mechanism, fitted_mixing or MIXINGS[mixing], Z, thin, rng)
        truth.append([n_clusters, *density, mean])
        draws.append(np.column_stack(found))
    look_at_ranks(truth, draws, rng, f"{setting}, {noise}")


def look_at_ranks(truth, draws, rng, setting):
    truth, draws = np.array(truth, dtype=float), np.array(draws, dtype=float)
    names = ["number of clusters", "density at 0", "density at 2", "mean"]
    for j, what in enumerate(names[-truth.shape[1] :]):
        assert_ranks_uniform(truth[:, j], draws[:, :, j], rng, what=f"{setting}: {what}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", [pytest.param(noise, marks=[pytest.mark.nightly] * (noise == "gaussian")) for noise in MECHANISMS]
)
@pytest.mark.parametrize(
    "sampler", [*(pytest.param(s, marks=pytest.mark.nightly) for s in ("neal5", "slice", "interweaved")), "auto"]
)
def test_ranks_of_the_truth_are_uniform(sampler, noise):
    """Catches a mechanism whose noise is not what inference assumes, and a wrong posterior: its width above all."""
    check(sampler, noise)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("noise", "fitted_with"),
    [
        ("laplace", LaplaceMechanism(scale=0.4, bounds=(-1.0, 2.0))),
        ("laplace", LaplaceMechanism(scale=0.8)),
        ("gaussian", GaussianMechanism(scale=1.4)),
    ],
)
def test_wrong_noise_is_rejected(noise, fitted_with):
    """The broken twins: inference with half the noise; that knows nothing of the clamping; with √2 times the noise."""
    with pytest.raises(Disagreement):
        check("auto", noise, fitted_with=fitted_with)


@pytest.mark.nightly
def test_ranks_under_a_finite_mixture():
    """Catches a number of components that is not drawn given the partition."""
    check("auto of finite mixtures", "laplace", "finite")


@pytest.mark.nightly
def test_another_number_of_components_is_rejected():
    """The broken twin of the finite mixture."""
    with pytest.raises(Disagreement):
        check("auto of finite mixtures", "laplace", "finite", fitted_mixing=MixtureOfFiniteMixtures(0.8, 0.8))


# --- only releases above a threshold appear, of an unknown number of records ------------------------------------------

THRESHOLD, N_APPEARING, BATCH = 0.8, 60, 1000


def check_appearing(forget=False):
    """Records are drawn until 60 of their releases appear: the number left out is then what the prior 1/N makes it."""
    mechanism = LaplaceMechanism(scale=0.5, released_above=THRESHOLD)
    rng, truth, draws = np.random.default_rng(13), [], []
    for _ in range(N_REPLICATES):
        density, mean, draw_records = draw_truth(rng, MIXINGS["dirichlet"])
        Z = np.zeros((0, 1))
        while len(Z) < N_APPEARING:
            Z = np.concatenate([Z, mechanism.privatize(draw_records(BATCH)[1], random_state=rng)])
        fitted_with = LaplaceMechanism(scale=0.5) if forget else mechanism
        found = posterior(Auto(), fitted_with, MIXINGS["dirichlet"], Z[:N_APPEARING], 4, rng)
        truth.append([*density, mean])
        draws.append(np.column_stack(found[1:]))
    look_at_ranks(truth, draws, rng, "above a threshold")


@pytest.mark.nightly
def test_ranks_above_a_threshold():
    """Catches a wrong probability that a release appears."""
    check_appearing()


@pytest.mark.nightly
def test_a_forgotten_threshold_is_rejected():
    with pytest.raises(Disagreement):
        check_appearing(forget=True)
