"""Samplers of the multivariate normal kernel, features correlated within a cluster, against the exact posterior.

Then the broken twins that the same checks must reject.  To compile one combination of sampler, kernel and channel
takes 5 to 20 s: in the default run are the main ones and the twins that share most with them, the others are nightly.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import oracle
import pytest
from multivariate_oracle import ORDERS, Prior, cluster_table, marginal, posterior
from multivariate_twins import (
    BartlettNotReversed,
    BartlettWithoutNormals,
    ConditionalOfMarginalVariance,
    ConditionalOfTheWrongSide,
    MeanOfIndependentFeatures,
    MeanPrecisionForgotten,
    PredictiveOfAKnownMean,
    PredictiveOfOneMoreDegree,
    ProductsOfFeaturesForgotten,
    ProposalOfMarginals,
    UpdateForgetsTheMean,
)
from scipy import stats
from statistical import Disagreement, assert_mean_close, assert_means_agree, assert_pmf_close
from test_exact import twin_id

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.kernels import MultivariateNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, HaarWaveletMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers import Imputed, MixingMeasure, Neal5
from sklearn_dpmix.samplers.mixture._interweaved import urn_or_gibbs
from sklearn_dpmix.samplers.mixture._places import N_SLOTS, STAGE, URN_RATE
from sklearn_dpmix.samplers.mixture._state import update_clusters

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")  # where what is drawn is not compared


def law_of(mixing):
    """A mixing of the package in the oracle's words."""
    if isinstance(mixing, MixtureOfFiniteMixtures):
        return "components", mixing.concentration, mixing.prior
    if isinstance(mixing, PitmanYor):
        return "discount", mixing.concentration, mixing.discount
    if mixing.prior is None:
        return "concentration", np.array([mixing.concentration]), np.ones(1)
    shape, rate = mixing.prior  # midpoints of equal probability
    p = (np.arange(20_000) + 0.5) / 20_000
    return "concentration", stats.gamma.ppf(p, shape, scale=1 / rate), np.full(len(p), 1 / len(p))


# --- cases ------------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A release, its mechanism's numbers, and the prior."""

    Z: tuple
    scale: object = None  # of the noise: a number, or one a record
    bounds: object = None
    prior: str = "two"
    mixing: object = DirichletProcess()


PRIORS = {
    "heavy": Prior((0.4, -1.0), 0.3, 3.5, ((2.0, 0.9), (0.9, 0.8))),
    "two": Prior((0.4, -1.0), 0.8, 6.0, ((2.0, 0.9), (0.9, 0.8))),
    "three": Prior((0.4, -1.0, 0.2), 0.8, 6.5, ((2.0, 0.9, -0.8), (0.9, 0.8, -0.1), (-0.8, -0.1, 1.5))),
}
PAIR = ((-1.6, 0.3), (1.8, -1.9))
FOUR = ((-2.1, -2.0), (0.3, -0.9), (0.8, 0.4), (2.9, -1.6))
FOUR_OF_THREE = ((-1.6, -1.7, 1.2), (0.2, -0.6, 0.9), (1.1, 0.3, -1.0), (2.4, -1.9, 0.1))
BOUNDS = ((-1.0, 2.0), (-1.5, 1.0))
RANDOM = DirichletProcess(concentration=None, prior=(2.0, 1.0))
CASES = {
    "none": {
        "four": Case(FOUR, prior="heavy"),
        "random concentration": Case(FOUR, mixing=RANDOM),
        "three features": Case(FOUR_OF_THREE, prior="three", mixing=DirichletProcess(2.5)),
    },
    "laplace": {
        "clamped": Case(PAIR, 0.8, BOUNDS),
        "unclamped": Case(PAIR, 0.6, mixing=RANDOM),
        "own noise each": Case(((-0.4, -2.6), (0.9, 1.4)), (1.6, 0.4), BOUNDS, mixing=DirichletProcess(2.5)),
    },
    "gaussian": {
        "clamped": Case(PAIR, 0.8, BOUNDS),
        "three records": Case((*PAIR, (0.5, 0.2)), (0.4, 0.3, 0.4), mixing=DirichletProcess(0.6)),
        "three features": Case(((-1.2, 0.1, 0.9), (1.3, -1.8, -0.4)), 0.35, prior="three"),
    },
    "pitman-yor": {"clamped": Case(PAIR, 0.8, BOUNDS, mixing=PitmanYor(1.0, 0.25))},
    "finite without noise": {"four": Case(FOUR, mixing=MixtureOfFiniteMixtures(0.7, 0.3))},
}
NOISE = {"none": None, "pitman-yor": "laplace", "finite without noise": None}
N_DRAWS = 4_000  # of each of four chains
MIN_ESS = 3_000  # of each quantity
# sampler: (object, sweeps a draw: as many as give that)
SAMPLERS = {
    "auto": ("auto", 3),
    "neal2": ("neal2", 3),
    "neal3": ("neal3", 3),
    "neal8": ("neal8", 2),
    "slice": ("slice", 5),
    "jain_neal": ("jain_neal", 6),
    "imputed": (Imputed(n_split_merge=4, n_passes=1), 10),
    "mixing_measure": (MixingMeasure(n_moves=40), 4),
    "neal5": ("neal5", 60),
    "neal5 of 3": (Neal5(n_auxiliary=3), 5),
}
OF_TWO_RECORDS = {"imputed": 3, "mixing_measure": 2}  # sweeps a draw under Laplace noise, of which all cases are


def nightly(*values):
    return pytest.param(*values, marks=pytest.mark.nightly)


COMBINATIONS = [
    nightly("auto", "none"),
    nightly("neal2", "none"),
    nightly("neal3", "none"),
    ("imputed", "laplace"),
    nightly("imputed", "gaussian"),
    ("mixing_measure", "laplace"),
    nightly("mixing_measure", "gaussian"),
    nightly("neal5", "laplace"),
    nightly("neal8", "none"),
    nightly("slice", "none"),
    nightly("jain_neal", "none"),
    nightly("auto", "finite without noise"),
    nightly("neal5 of 3", "laplace"),
    nightly("jain_neal", "laplace"),
    nightly("imputed", "pitman-yor"),
    nightly("neal5", "gaussian"),
]


def noise_of(channel):
    return NOISE.get(channel, channel)


def points(case):
    """Five points around the release, one far out."""
    Z = np.array(case.Z)
    low, high = Z.min(axis=0) - 0.5, Z.max(axis=0) + 0.5
    steps = np.array([0.1, 0.35, 0.5, 0.75, 1.3])
    return np.column_stack([low[j] + (high[j] - low[j]) * np.roll(steps, j) for j in range(Z.shape[1])])


@cache
def exact(channel, name):
    case = CASES[channel][name]
    scales = case.scale if np.ndim(case.scale) else (case.scale,) * len(case.Z)
    x = tuple(map(tuple, points(case)))
    table = cluster_table(case.Z, noise_of(channel), scales, case.bounds, PRIORS[case.prior], x)
    return posterior(len(case.Z), *table, law_of(case.mixing))


CLASSES = {"laplace": LaplaceMechanism, "gaussian": GaussianMechanism, "kernel": MultivariateNormalKernel}


def fit(setting, channel, name, *, seed=0, n_warmup=500, **twins):
    """Fit a case; ``twins`` replace components by broken ones."""
    case, classes = CASES[channel][name], CLASSES | twins
    mechanism = None
    if noise_of(channel):
        scale = np.array(case.scale) if np.ndim(case.scale) else case.scale
        mechanism = classes[noise_of(channel)](scale=scale, bounds=case.bounds)
    component, thin = SAMPLERS[setting]
    if channel == "laplace":
        thin = OF_TWO_RECORDS.get(setting, thin)
    return PrivateDPMixture(
        mechanism,
        kernel=classes["kernel"](**PRIORS[case.prior]._asdict()),
        mixing=case.mixing,
        sampler=twins.get("sampler", component),
        n_warmup=n_warmup,
        n_draws=N_DRAWS,
        thin=thin,
        random_state=seed,
    ).fit(np.array(case.Z))


def check(setting, channel, name, **kwargs):
    """The check: fit, and compare with the oracle."""
    pmf, predictive = exact(channel, name)
    model = fit(setting, channel, name, **kwargs)
    where = f"{setting}, {channel}, {name}"
    assert_pmf_close(model.n_clusters_draws_, pmf, min_ess=MIN_ESS, what=f"{where}: clusters")
    x = points(CASES[channel][name])
    draws = model.density_draws(x)
    assert_mean_close(draws, predictive, min_ess=MIN_ESS, what=f"{where}: predictive density")
    np.testing.assert_allclose(model.score_samples(x), np.log(draws.mean(axis=(0, 1))), rtol=1e-9)
    return model


# --- the oracle is right ----------------------------------------------------------------------------------------------


def test_oracle_marginal_is_a_product_of_student_densities():
    """Catches a slip in the closed form: p(y_1) p(y_2 | y_1) ... by scipy's multivariate t and a sequential update."""
    for prior, Z in ((PRIORS["heavy"], np.array(FOUR)), (PRIORS["three"], np.array(FOUR_OF_THREE))):
        d = Z.shape[1]
        mean, precision, dof, scale = (np.array(part, dtype=float) for part in prior)
        u = Z - mean
        ss = {(i, j): u[:, i] @ u[:, j] for i in range(d) for j in range(i + 1)}
        expected = 0.0
        for y in Z:
            shape = scale * (precision + 1) / (precision * (dof - d + 1))
            expected += stats.multivariate_t(mean, shape, df=dof - d + 1).logpdf(y)
            scale = scale + precision / (precision + 1) * np.outer(y - mean, y - mean)
            mean = (precision * mean + y) / (precision + 1)
            precision, dof = precision + 1, dof + 1
        assert np.log(marginal(len(Z), list(u.sum(axis=0)), ss, prior)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("noise", [None, "laplace", "gaussian"])
@pytest.mark.parametrize("bounds", [None, (-1.0, 2.0)])
def test_oracle_of_one_feature_is_the_normal_oracle(noise, bounds, monkeypatch):
    """Catches a wrong channel, weight or partition: another oracle integrates over (μ, σ²), this one over records."""
    monkeypatch.setitem(ORDERS, (noise, bounds is not None, 1), (40, 60))
    monkeypatch.setitem(ORDERS, (noise, bounds is not None, 2), (30, 40))
    Z, x, scales = ((-1.6,), (2.4,)), ((-1.0,), (0.3,), (4.0,)), (0.7, 0.4)
    prior = Prior((0.4,), 0.8, 5.0, ((1.7,),))
    bounds = None if noise is None else bounds
    for mixing, words in (
        (DirichletProcess(1.3), {"concentration": 1.3}),
        (RANDOM, {"concentration_prior": RANDOM.prior}),
        (PitmanYor(0.5, 0.25), {"concentration": 0.5, "discount": 0.25}),
        (MixtureOfFiniteMixtures(0.7, 0.3), {"components": (0.7, 0.3)}),
    ):
        table = cluster_table(Z, noise, scales, bounds and (bounds,), prior, x)
        pmf, predictive = posterior(2, *table, law_of(mixing))
        truth = oracle.exact_posterior(Z, noise=noise, noise_scale=scales if noise else None, bounds=bounds, x=x,
                                       mean=0.4, mean_precision=0.8, shape=2.5, scale=0.85, **words)  # fmt: skip
        np.testing.assert_allclose(pmf, truth.n_clusters_pmf, rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(predictive, truth.predictive, rtol=1e-4)


def test_oracle_refuses_what_it_cannot_integrate():
    """Catches an oracle that would answer with too few nodes: wide noise, a narrow prior."""
    narrow = Prior((0.0, 0.0), 0.1, 3.0, ((0.01, 0.0), (0.0, 0.01)))
    with pytest.raises(ValueError, match="not accurate"):
        cluster_table(PAIR, "gaussian", (3.0, 3.0), None, narrow, ((0.0, 0.0),))


# --- every sampler against the exact posterior ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "channel"), COMBINATIONS, ids=lambda value: str(value).replace(" ", "-"))
def test_posterior_is_exact(sampler, channel):
    """Catches a wrong target of any sampler, whatever the reason: the twins below are a list of reasons."""
    for seed, name in enumerate(CASES[channel]):
        model = check(sampler, channel, name, seed=seed)
    if sampler == "auto":
        assert type(model.sampler_).__name__ == "ReUse"


@pytest.mark.slow
@pytest.mark.parametrize(("pass_", "rate"), [("gibbs", 1e-3), ("urn", 1.0)])
@pytest.mark.parametrize("channel", ["laplace", nightly("gaussian")])
def test_both_passes_of_the_imputed_sampler_are_exact(channel, pass_, rate, monkeypatch):
    """The sampler chooses its passes by the urn's acceptance, so that one of them hides: here each has 95 %."""

    def init(self, *args, _init=Imputed.init):
        state = _init(self, *args)
        state.floats[URN_RATE] = rate
        return state

    monkeypatch.setattr(Imputed, "init", init)
    for seed, name in enumerate(CASES[channel]):
        check("imputed", channel, name, seed=seed, n_warmup=0)  # no warm-up: nothing is tuned


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_imputed_and_neal5_agree_on_more_records(noise):
    """Catches what two records cannot show: clusters of many, slots that run out, records moved one after another."""
    rng = np.random.default_rng(3)
    X = rng.multivariate_normal([0.5, -1.0], [[1.0, 0.6], [0.6, 0.7]], 24)
    X[::4] += 2.5
    mechanism = CLASSES[noise](scale=0.5, bounds=((-1.5, 4.5), (-3.5, 3.5)))
    Z = mechanism.privatize(X, random_state=4)
    x = np.array([[0.5, -1.0], [3.0, 1.5], [-1.0, -2.0], [0.0, 1.5]])
    draws = []
    for sampler, thin in (("imputed", 1), ("neal5", 40)):
        model = PrivateDPMixture(
            mechanism,
            kernel=MultivariateNormalKernel(**PRIORS["two"]._asdict()),
            mixing=DirichletProcess(3.0),
            sampler=sampler,
            n_draws=4000,
            thin=thin,
            random_state=5,
        ).fit(Z)
        mean, variance = model.moment_draws()
        draws.append(
            np.concatenate(
                [model.density_draws(x), mean, np.log(variance), model.n_clusters_draws_[..., None]], axis=-1
            )
        )
    assert_means_agree(*draws)


class LaplaceWithoutPieces(LaplaceMechanism):
    """A user's channel that can be evaluated and no more."""

    piece_shape = None


@pytest.mark.slow
@pytest.mark.nightly
def test_a_channel_that_cannot_be_tilted_stays_exact():
    """Catches a fall-back that is not exact: ``auto`` must choose a sampler that only evaluates the channel."""
    model = check("neal5", "laplace", "clamped", laplace=LaplaceWithoutPieces, sampler="auto")
    assert type(model.sampler_) is Neal5


@pytest.mark.slow
@pytest.mark.nightly
def test_one_feature_under_a_binned_channel():
    """Catches masses of bins that are kept with a cluster's parameters and not made for the conditional law.

    With one feature the posterior is that of NormalKernel, here drawn by private Neal 5.
    """
    mechanism = HaarWaveletMechanism(8.0, 2)
    Z = mechanism.privatize(np.random.default_rng(0).beta(2, 6, (40, 1)), random_state=1)
    draws = []
    for kernel, sampler in (
        (MultivariateNormalKernel(0.5, 0.5, 6.0, 0.2), "auto"),
        (NormalKernel(0.5, 0.5, 3.0, 0.1), "neal5"),
    ):
        model = PrivateDPMixture(mechanism, kernel=kernel, sampler=sampler, n_draws=4000, thin=8, random_state=2).fit(Z)
        mean, variance = model.moment_draws()
        draws.append(np.concatenate([mean, np.log(variance), model.density_draws([[0.1], [0.5]])], axis=-1))
    assert_means_agree(*draws)


# --- broken twins: one plausible mistake each ---


class ImputedByParts(Imputed):
    """Not broken but for ``impute``: how the records are drawn after the pass over the memberships."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not urn_or_gibbs(self, channel, kernel, mixing, Z, state, rng, warming_up):
            return False
        if state.ints[N_SLOTS] == state.counts.size:
            return False
        for i in range(state.alloc.size):
            self.impute(rng, channel, kernel, Z, state, i, state.ints[N_SLOTS])
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        state.ints[STAGE] = 0
        return True


class FeaturesAsIfIndependent(ImputedByParts):
    """Each feature is drawn from its marginal law in the cluster, whatever the others are."""

    @compiled
    def impute(self, rng, channel, kernel, Z, state, i, spare):
        for j in range(kernel.n_features):
            state.records[i, 0, j] = channel.impute(rng, kernel, Z, i, j, state.theta, state.alloc[i])


class FeaturesOfMarginalVariance(ImputedByParts):
    """``ConditionalOfMarginalVariance`` without a kernel to compile anew: the mean given the others, but Σ_jj."""

    @compiled
    def impute(self, rng, channel, kernel, Z, state, i, spare):
        theta, k = state.theta, state.alloc[i]
        for j in range(kernel.n_features):
            kernel.condition(theta, k, state.records, i, j, spare)
            kernel.put_params(theta, spare, j, theta[spare, 4 * j], theta[k, 4 * j + 1])
            state.records[i, 0, j] = channel.impute(rng, kernel, Z, i, j, theta, spare)


class AllFeaturesGivenTheOldOnes(ImputedByParts):
    """Every feature is drawn given the others as they were before, and not as they are now."""

    @compiled
    def impute(self, rng, channel, kernel, Z, state, i, spare):
        for j in range(kernel.n_features):
            kernel.condition(state.theta, state.alloc[i], state.records, i, j, spare)
        for j in range(kernel.n_features):
            state.records[i, 0, j] = channel.impute(rng, kernel, Z, i, j, state.theta, spare)


class LaplaceWithoutFlatPieces(LaplaceMechanism):
    """Records are imputed as if none could lie beyond the bounds."""

    right = LaplaceMechanism.piece

    @compiled
    def piece(self, Z, i, j, p):
        if p == 1 or p == 2:
            return self.right(Z, i, j, p)
        return self.low[j], self.low[j], Z[i, j], 0.0, 0.0, 0.0


class GaussianPieceOfWrongCurvature(GaussianMechanism):
    """Curvature 1/η in place of 1/η²."""

    right = GaussianMechanism.piece

    @compiled
    def piece(self, Z, i, j, p):
        if p != 1:
            return self.right(Z, i, j, p)
        sd = self.noise[i * self.each]
        return self.low[j], self.high[j], Z[i, j], self.log_noise(0.0, sd), 0.0, 1.0 / sd


TWINS = [
    ("imputed", "laplace", "clamped", {"sampler": FeaturesOfMarginalVariance()}),
]
NIGHTLY_TWINS = [
    ("imputed", "laplace", "clamped", {"sampler": FeaturesAsIfIndependent()}),
    ("neal5", "laplace", "clamped", {"kernel": ProposalOfMarginals}),
    ("imputed", "laplace", "clamped", {"kernel": ConditionalOfMarginalVariance}),
    ("imputed", "laplace", "clamped", {"laplace": LaplaceWithoutFlatPieces}),
    ("imputed", "laplace", "clamped", {"sampler": AllFeaturesGivenTheOldOnes()}),
    ("imputed", "laplace", "clamped", {"kernel": ConditionalOfTheWrongSide}),
    ("imputed", "gaussian", "three records", {"gaussian": GaussianPieceOfWrongCurvature}),
    ("imputed", "gaussian", "three features", {"kernel": ConditionalOfTheWrongSide}),
    ("auto", "none", "four", {"kernel": BartlettNotReversed}),
    ("auto", "none", "four", {"kernel": BartlettWithoutNormals}),
    ("auto", "none", "four", {"kernel": MeanPrecisionForgotten}),
    ("auto", "none", "four", {"kernel": MeanOfIndependentFeatures}),
    ("auto", "none", "four", {"kernel": UpdateForgetsTheMean}),
    ("auto", "none", "four", {"kernel": ProductsOfFeaturesForgotten}),
    ("neal3", "none", "four", {"kernel": PredictiveOfOneMoreDegree}),
    ("neal3", "none", "four", {"kernel": PredictiveOfAKnownMean}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "channel", "name", "twin"),
    [*TWINS, *(nightly(*twin) for twin in NIGHTLY_TWINS)],
    ids=twin_id,
)
def test_broken_twin_is_rejected(sampler, channel, name, twin):
    """The same check disagrees with each twin (and does not merely find too few draws)."""
    with pytest.raises(Disagreement):
        check(sampler, channel, name, **twin)
