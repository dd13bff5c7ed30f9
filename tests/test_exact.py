"""Every sampler against the exact posterior of n <= 5 records: all partitions, integrals by quadrature (oracle.py).

One test is one compiled combination of sampler, mechanism, number of features and mixing, and goes through several
cases that share it.  What is compared: the probabilities of the number of clusters, and the posterior predictive
density at six points.  The noise is of the order of the kernel's standard deviation, where a wrong sampler is most
visible; one case has little noise.

Then the broken twins: subclasses with one plausible mistake, which the same check must reject (:class:`Disagreement`).
"""

from functools import cache
from math import lgamma, log, pi, sqrt
from typing import NamedTuple

import numpy as np
import oracle
import pytest
from statistical import Disagreement, assert_mean_close, assert_pmf_close

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._compiled import compiled
from sklearn_dpmix.kernels import ConvolvedNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers import (
    Conditional,
    Interweaved,
    JainNeal,
    Neal2,
    Neal3,
    Neal5,
    Neal8,
    ReUse,
    Slice,
    _conditional,
    _in_blocks,
)
from sklearn_dpmix.samplers._interweaved import URN_RATE
from sklearn_dpmix.samplers._jain_neal import split_or_merge
from sklearn_dpmix.samplers._neal5 import urn_sweep
from sklearn_dpmix.samplers._neal8 import gibbs_sweep, impute_records
from sklearn_dpmix.samplers._reuse import POOL, reuse_pass
from sklearn_dpmix.samplers._split_merge import sort_records, split_merge
from sklearn_dpmix.samplers._state import CONCENTRATION, CURSOR, N_CLUSTERS, N_SLOTS, compact, update_clusters
from sklearn_dpmix.samplers._sticks import LOWEST, allocate, draw_occupied_weights, extend_sticks


class Case(NamedTuple):
    """A release, its mechanism's numbers, and the prior."""

    Z: tuple
    scale: object = None  # of the noise: a number, or one a record
    bounds: object = None  # clamped to them; None: not clamped
    prior: str = "wide"
    mixing: object = DirichletProcess()


# Base measures N(μ | mean, σ²/mean_precision)·IG(σ² | shape, scale): means off 0, σ that varies, features that differ.
# "total": of the total variance, for ConvolvedNormalKernel.
PRIORS = {
    "wide": {"mean": 0.4, "mean_precision": 0.3, "shape": 2.5, "scale": 1.7},
    "heavy": {"mean": -1.0, "mean_precision": 0.1, "shape": 1.5, "scale": 0.6},
    "two": {"mean": [0.4, -1.0], "mean_precision": [0.3, 0.1], "shape": [2.5, 1.5], "scale": [1.7, 0.6]},
    "total": {"mean": 0.4, "mean_precision": 0.3, "shape": 2.5, "scale": 3.0},
    "total two": {"mean": [0.4, -1.0], "mean_precision": [0.3, 0.5], "shape": [2.5, 3.0], "scale": [3.0, 6.0]},
}
FIVE = (-3.1, -0.9, 0.2, 2.9, 4.3)
SKEWED = (-4.0, -1.5, 0.3, 0.9, 6.0)
PAIRS = ((-2.6, 0.3), (0.8, -1.9), (2.7, 2.2))
RANDOM = DirichletProcess(concentration=None, prior=(2.0, 1.0))

NOISY = {
    "clamped": Case(FIVE, 1.0, (-2.0, 3.0)),
    "unclamped": Case(SKEWED, 2.0, mixing=DirichletProcess(2.5)),
    "own noise each": Case((-3.4, -0.2, 1.4, 3.6, 5.9), (3.25, 0.4, 1.3, 6.5, 0.8), (-2.5, 4.0)),
    "random concentration": Case(FIVE, 1.5, (-2.0, 3.0), "heavy", RANDOM),
    "narrow bounds": Case((-0.9, 0.4, 0.7, 1.8), 0.5, (0.0, 1.0), mixing=DirichletProcess(0.6)),
    "little noise": Case((-0.9, 0.1, 2.2), 0.15),
    "one record": Case((2.5,), 1.2, (-2.0, 2.0), "heavy"),
}
NOISY_PAIRS = {
    "clamped": Case(PAIRS, 1.2, ((-2.0, 1.0), (-1.5, 3.0)), "two"),
    "own noise each": Case(PAIRS, (2.5, 0.7, 1.2), None, "two", RANDOM),
    "little noise": Case(((-0.4, 0.3), (1.2, 0.1)), 0.25, ((-1.0, 2.0), (-0.5, 0.5)), "two"),
}
CASES = {
    ("none", 1): {
        "five": Case(FIVE),
        "random concentration": Case(SKEWED, prior="heavy", mixing=RANDOM),
        "three": Case((-0.3, 0.1, 2.2), mixing=DirichletProcess(2.5)),
    },
    ("none", 2): {"three": Case(PAIRS, prior="two"), "random concentration": Case(PAIRS, prior="two", mixing=RANDOM)},
    ("laplace", 1): NOISY,
    ("gaussian", 1): NOISY,
    ("laplace", 2): NOISY_PAIRS,
    ("gaussian", 2): NOISY_PAIRS,
    ("pitman-yor", 1): {
        "clamped": Case(FIVE, 1.0, (-2.0, 3.0), mixing=PitmanYor(1.0, 0.25)),
        "negative concentration": Case(SKEWED, 1.5, mixing=PitmanYor(-0.2, 0.3)),
        "discount 0": Case((-0.9, 0.4, 0.7, 1.8), 0.5, (0.0, 1.0), mixing=PitmanYor(2.0, 0.0)),
        "one record": Case((2.5,), 1.2, (-2.0, 2.0), "heavy", PitmanYor(-0.1, 0.3)),
    },
    ("finite", 1): {
        "clamped": Case(FIVE, 1.0, (-2.0, 3.0), mixing=MixtureOfFiniteMixtures(1.0, 0.3)),
        "small weights": Case(SKEWED, 1.5, mixing=MixtureOfFiniteMixtures(0.2, 0.1)),
        "at most three": Case(
            (-0.9, 0.4, 0.7, 1.8), 0.5, (0.0, 1.0), mixing=MixtureOfFiniteMixtures(2.0, (0.2, 0.3, 0.5))
        ),
    },
    ("finite without noise", 1): {
        "five": Case(FIVE, mixing=MixtureOfFiniteMixtures(1.0, 0.1)),
        "two or three": Case(SKEWED, mixing=MixtureOfFiniteMixtures(0.3, (0.0, 1.0, 2.0))),
    },
    ("pitman-yor without noise", 1): {
        "five": Case(FIVE, mixing=PitmanYor(1.0, 0.25)),
        "negative concentration": Case(SKEWED, mixing=PitmanYor(-0.2, 0.5)),
        "one record": Case((2.5,), mixing=PitmanYor(-0.1, 0.5)),
    },
    ("convolved", 1): {
        "as much noise": Case(FIVE, 1.0, prior="total"),
        "mostly noise": Case(SKEWED, 2.0, prior="total", mixing=DirichletProcess(2.5)),
        "random concentration": Case((-0.9, 0.1, 2.2), 0.5, prior="total", mixing=RANDOM),
    },
    ("convolved", 2): {"three": Case(PAIRS, 1.2, prior="total two")},
}
N_DRAWS = 8_000  # of each of four chains
# sampler: (object, sweeps a draw: as many as make neighbouring draws nearly independent)
SAMPLERS = {
    "neal5": (Neal5(), 8),
    "neal5 of 3": (Neal5(n_auxiliary=3), 5),
    "slice": (Slice(), 5),
    "conditional": (Conditional(), 2),
    "neal8": (Neal8(), 2),
    "auto": ("auto", 3),
    "neal2": (Neal2(), 3),
    "neal3": (Neal3(), 3),
    "split-merge on neal3": (JainNeal(Neal3(), n_attempts=2, n_scans=1), 2),
    "split-merge on neal5": (JainNeal(Neal5(), n_attempts=4), 3),
}
SIX = ("neal5", "neal5 of 3", "slice", "conditional", "neal8", "auto")
COMBINATIONS = [
    *((sampler, channel, 1) for channel in ("laplace", "gaussian") for sampler in SIX),
    *((sampler, "laplace", 2) for sampler in SIX if sampler != "neal5 of 3"),
    pytest.param("neal5 of 3", "laplace", 2, marks=pytest.mark.nightly),
    ("neal8", "gaussian", 2),
    *(pytest.param(s, "gaussian", 2, marks=pytest.mark.nightly) for s in SIX if s != "neal8"),
    *((sampler, "none", 1) for sampler in (*SIX, "neal2", "neal3")),
    *((sampler, "none", 2) for sampler in ("auto", "neal3")),
    *(pytest.param(s, "none", 2, marks=pytest.mark.nightly) for s in (*SIX[:-1], "neal2")),
    *((sampler, "pitman-yor", 1) for sampler in ("neal5", "slice", "auto")),
    *(pytest.param(s, "pitman-yor", 1, marks=pytest.mark.nightly) for s in ("conditional", "neal8")),
    *((sampler, "pitman-yor without noise", 1) for sampler in ("neal2", "neal3")),
    *((sampler, "finite", 1) for sampler in ("neal5", "auto")),
    *(pytest.param(s, "finite", 1, marks=pytest.mark.nightly) for s in ("conditional", "neal8")),
    *((sampler, "finite without noise", 1) for sampler in ("neal2", "neal3", "slice", "auto")),
    *((sampler, "convolved", 1) for sampler in ("neal5", "slice", "auto", "neal2", "neal3")),
    *(pytest.param(s, "convolved", 1, marks=pytest.mark.nightly) for s in ("neal5 of 3", "conditional", "neal8")),
    *(("split-merge on neal3", channel, 1) for channel in ("none", "finite without noise")),
    pytest.param("split-merge on neal3", "convolved", 1, marks=pytest.mark.nightly),
    *(("split-merge on neal5", channel, 1) for channel in ("laplace", "pitman-yor")),
    pytest.param("split-merge on neal5", "gaussian", 2, marks=pytest.mark.nightly),
    ("neal3", "convolved", 2),
    pytest.param("neal2", "convolved", 2, marks=pytest.mark.nightly),
]


NOISE = {
    "none": None,
    "pitman-yor": "laplace",
    "pitman-yor without noise": None,
    "finite": "laplace",
    "finite without noise": None,
    "convolved": "gaussian",
}


def noise_of(channel):
    return NOISE.get(channel, channel)


def points(case):
    """Six points around the release, one far out."""
    Z = np.array(case.Z).reshape(len(case.Z), -1)
    low, high = Z.min(axis=0) - 1.0, Z.max(axis=0) + 1.0
    steps = np.array([0.0, 0.25, 0.45, 0.6, 0.8, 1.4])
    return np.column_stack([low[j] + (high[j] - low[j]) * np.roll(steps, j) for j in range(Z.shape[1])])


@cache
def exact(channel, d, name):
    case = CASES[channel, d][name]
    mixing = case.mixing
    if isinstance(mixing, MixtureOfFiniteMixtures):
        partition = {"components": (mixing.concentration, mixing.prior)}
    elif isinstance(mixing, PitmanYor):
        partition = {"concentration": mixing.concentration, "discount": mixing.discount}
    elif mixing.prior is not None:
        partition = {"concentration_prior": mixing.prior}
    else:
        partition = {"concentration": mixing.concentration}
    return oracle.exact_posterior(
        case.Z,
        noise=noise_of(channel),
        noise_scale=case.scale,
        bounds=case.bounds,
        x=points(case),
        kernel="convolved" if channel == "convolved" else "normal",
        **partition,
        **PRIORS[case.prior],
    )


def mechanism_of(channel, case, classes):
    """The mechanism by its scale; where each record has its own Laplace noise, by its epsilon."""
    noise = noise_of(channel)
    if noise is None:
        return None
    bounds = np.array(case.bounds).tolist() if case.bounds is not None else None
    if noise == "laplace" and np.ndim(case.scale) and np.ndim(bounds) == 1:
        width = bounds[1] - bounds[0]
        return classes["laplace"](epsilon=width / np.array(case.scale), bounds=bounds)
    return classes[noise](scale=np.array(case.scale) if np.ndim(case.scale) else case.scale, bounds=bounds)


CLASSES = {
    "laplace": LaplaceMechanism,
    "gaussian": GaussianMechanism,
    "normal": NormalKernel,
    "convolved": ConvolvedNormalKernel,
}


def check(setting, channel, d, name, *, seed=0, n_warmup=500, **twins):
    """The check: fit, and compare with the oracle.  ``twins`` replace components by broken ones."""
    case, truth = CASES[channel, d][name], exact(channel, d, name)
    classes = CLASSES | twins
    kernel = classes["convolved" if channel == "convolved" else "normal"](**PRIORS[case.prior])
    mixing = twins["mixing"](**case.mixing.get_params()) if "mixing" in twins else case.mixing
    component, thin = SAMPLERS[setting]
    model = PrivateDPMixture(
        mechanism_of(channel, case, classes),
        kernel=kernel,
        mixing=mixing,
        sampler=twins.get("sampler", component),
        n_warmup=n_warmup,
        n_draws=N_DRAWS,
        thin=thin,
        random_state=seed,
    )
    model.fit(np.array(case.Z).reshape(len(case.Z), -1))
    where = f"{setting}, {channel}, {d} feature(s), {name}"
    if len(case.Z) > 1:
        assert_pmf_close(model.n_clusters_draws_, truth.n_clusters_pmf, what=f"{where}: number of clusters")
    draws = model.density_draws(points(case))
    np.testing.assert_allclose(model.score_samples(points(case)), np.log(draws.mean(axis=(0, 1))), rtol=1e-9)
    assert_mean_close(draws, truth.predictive, what=f"{where}: predictive density")
    return model


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "channel", "d"), COMBINATIONS, ids=lambda value: str(value).replace(" ", "-"))
def test_posterior_is_exact(sampler, channel, d):
    """Catches a wrong target of any sampler, whatever the reason: the twins below are a list of reasons."""
    for seed, name in enumerate(CASES[channel, d]):
        check(sampler, channel, d, name, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize(("pass_", "rate"), [("gibbs", 1e-3), ("urn", 1.0)])
@pytest.mark.parametrize(("channel", "d"), [("laplace", 1), pytest.param("gaussian", 2, marks=pytest.mark.nightly)])
def test_both_passes_of_the_interweaved_sampler_are_exact(channel, d, pass_, rate, monkeypatch):
    """``auto`` chooses its passes by the urn's acceptance, so that one of them hides in most cases: here each has 95 %.

    Catches a mistake in the Gibbs pass or in the moves of records, which an urn pass in the next sweep would wash out.
    """

    def init(self, *args, _init=Interweaved.init):
        state = _init(self, *args)
        state.floats[URN_RATE] = rate
        return state

    monkeypatch.setattr(Interweaved, "init", init)
    for seed, name in enumerate(CASES[channel, d]):
        check("auto", channel, d, name, seed=seed, n_warmup=0)  # no warm-up: nothing is tuned


@pytest.fixture
def in_blocks_of_two(monkeypatch):
    """Five records are three blocks, in one thread: a sweep takes as long as starting the others would."""
    monkeypatch.setattr(_conditional, "BLOCKS_FROM", 1)
    monkeypatch.setattr(_in_blocks, "BLOCK", 2)
    monkeypatch.setitem(globals(), "N_DRAWS", 3_000)  # it is Python that goes from block to block
    monkeypatch.setattr(_in_blocks, "in_threads", lambda function, n: [function(b) for b in range(n)])
    return monkeypatch


BLOCKS_CASE = ("conditional", "laplace", 1, "clamped")


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [BLOCKS_CASE, pytest.param(("slice", "pitman-yor", 1, "clamped"), marks=pytest.mark.nightly)],
    ids=lambda case: case[0],
)
def test_sweep_in_blocks_is_exact(case, in_blocks_of_two):
    """Catches blocks whose counts, statistics or slice levels are lost or counted twice."""
    check(*case)


@pytest.mark.slow
def test_broken_sweeps_in_blocks_are_rejected(in_blocks_of_two):
    """Sticks down to the first block's lowest level only; a record that two blocks count."""

    class FirstLevel(_in_blocks.RecordPasses):
        def __call__(self, state, rng):
            waited = super().__call__(state, rng)
            state.floats[LOWEST] = state.levels[:2].min()
            return waited

    class CountedTwice(_in_blocks.RecordPasses):
        def __call__(self, state, rng):
            waited = super().__call__(state, rng)
            if state.ints[CURSOR] == _in_blocks.CLUSTERS:
                state.counts[state.alloc[0]] += 1.0
            return waited

    for twin in (FirstLevel, CountedTwice):
        in_blocks_of_two.setattr(_in_blocks, "RecordPasses", twin)
        with pytest.raises(Disagreement):
            check(*BLOCKS_CASE)


# --- broken twins: one plausible mistake each -------------------------------------------------------------------------


class RatioUpsideDown(LaplaceMechanism):
    """Neal 5 with the acceptance ratio as the paper prints it after (7): it sees the channel through this alone."""

    @compiled
    def log_weight(self, kernel, Z, i, j, theta, k, y):
        return abs(Z[i, j] - min(max(y, self.low[j]), self.high[j])) * self.rate[i * self.each]


class FirstAuxiliaryOnly(Neal5):
    """θ given the first of the m auxiliaries and not given all of them."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not urn_sweep(self.n_aux, channel, kernel, mixing, Z, state, rng):
            return False
        update_clusters(rng, 1, channel, kernel, state, warming_up)
        return True


class CopiesOfNoiseFreeRecords(Neal5):
    """m auxiliaries also without noise, where they are m copies of the record (as the package once did)."""

    def resolve(self, mechanism, kernel, mixing=None):
        return self


class UrnOfAllRecords(DirichletProcess):
    """The urn's total is α + n where it should be α + n - 1: a new cluster is proposed too rarely."""

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        u = rng.random() * (concentration + alloc.size)
        if u < concentration:
            return -1
        other = min(int(u - concentration), alloc.size - 2)
        return alloc[other + 1] if other >= i else alloc[other]


class UrnWithoutDiscount(PitmanYor):
    """Old clusters by n_k and not by n_k - discount."""

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        if alloc.size == 1:
            return -1
        fresh = concentration + self.discount * n_clusters
        u = rng.random() * (fresh + alloc.size - 1 - self.discount * n_clusters)
        if u < fresh:
            return -1
        other = int(rng.random() * (alloc.size - 1))
        return alloc[other + 1] if other >= i else alloc[other]


class UrnOfComponents(MixtureOfFiniteMixtures):
    """Components are chosen by n_k without γ, as in a Dirichlet process."""

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        n_others = alloc.size - 1
        u = rng.random() * (self.fresh_weight(concentration, n_clusters) + n_others)
        if u >= n_others:
            return -1
        other = min(int(u), n_others - 1)
        return alloc[other + 1] if other >= i else alloc[other]


class ComponentsWithoutTheirNumber(MixtureOfFiniteMixtures):
    """M given the clusters without M!/(M - t)!, the ways of naming them."""

    @compiled
    def update_concentration(self, rng, concentration, n_clusters, n_records):
        gamma = -self.discount
        a = rng.standard_gamma(gamma * concentration)
        log_z = self.log_fail + gamma * log(a / (a + rng.standard_gamma(float(n_records))))
        return n_clusters + float(int(log(1.0 - rng.random()) / log_z))  # geometric


class WithoutIndicator(Slice):
    """Clusters by the likelihood among all atoms: the indicator w_k > u_i is forgotten."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if state.ints[CURSOR] == 0:
            compact(state)
            draw_occupied_weights(rng, mixing, state)
        if not extend_sticks(rng, channel, kernel, mixing, state):
            return False
        state.levels[:] = -1.0
        allocate(self, rng, channel, kernel, Z, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


class SticksOfTheWholeUrn(Slice):
    """Sticks of the unseen part are Beta(1, α + K), as if it were the urn, and not Beta(1, α)."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if state.ints[CURSOR] == 0:
            compact(state)
            draw_occupied_weights(rng, mixing, state)
        state.floats[CONCENTRATION] += state.ints[N_CLUSTERS]
        enough = extend_sticks(rng, channel, kernel, mixing, state)
        state.floats[CONCENTRATION] -= state.ints[N_CLUSTERS]
        if not enough:
            return False
        allocate(self, rng, channel, kernel, Z, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


class RecordsFromTheKernel(Conditional):
    """Records drawn given the cluster but not given the release."""

    @compiled
    def update_record(self, rng, channel, kernel, Z, i, records, theta, k):
        for j in range(kernel.n_features):
            records[i, 0, j] = kernel.draw(rng, theta, k, j)
        return 0.0, kernel.n_features


class ForgetsSingletons(Neal8):
    """A record that is alone meets fresh candidates only: its parameters are redrawn from the base measure."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if state.ints[CURSOR] == 0:
            for k in range(state.ints[N_SLOTS]):
                if state.counts[k] == 1.0:
                    kernel.draw_prior(rng, state.theta, k)
        if not gibbs_sweep(self.n_candidates, channel, kernel, mixing, Z, state, rng):
            return False
        impute_records(rng, channel, kernel, Z, state)
        update_clusters(rng, 1, channel, kernel, state, warming_up)
        return True


class WholeMassEachCandidate(Neal8):
    """Each of the candidates has the whole mass α of a new cluster, and not its share."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        state.floats[CONCENTRATION] *= self.n_candidates
        enough = gibbs_sweep(self.n_candidates, channel, kernel, mixing, Z, state, rng)
        state.floats[CONCENTRATION] /= self.n_candidates
        if not enough:
            return False
        impute_records(rng, channel, kernel, Z, state)
        update_clusters(rng, 1, channel, kernel, state, warming_up)
        return True


class WholeMassEachOfThePool(ReUse):
    """The same mistake with the kept pool."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        state.floats[CONCENTRATION] *= POOL
        enough = reuse_pass(self, rng, channel, kernel, mixing, Z, state)
        state.floats[CONCENTRATION] /= POOL
        if not enough:
            return False
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


class SplitsTooOften(Interweaved):
    """A factor 2 lost in the ratio of a split: all else of a sweep is right."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not urn_sweep(1, channel, kernel, mixing, Z, state, rng):
            return False
        compact(state)
        update_clusters(rng, 1, channel, kernel, state, warming_up)
        sort_records(state)
        state.floats[CONCENTRATION] *= 2.0
        split_merge(self, rng, 4, channel, kernel, mixing, Z, state)
        state.floats[CONCENTRATION] /= 2.0
        return True


class DoubledConcentration(JainNeal):
    """Splits and merges under twice the concentration of the rest of the sweep."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not self.other.sweep(channel, kernel, mixing, Z, state, rng, warming_up):
            return False
        compact(state)
        state.floats[CONCENTRATION] *= 2.0
        for _ in range(4):
            split_or_merge(rng, 3, kernel, mixing, state)
        state.floats[CONCENTRATION] /= 2.0
        update_clusters(rng, 1, channel, kernel, state, False)
        return True


class ParametersOfTheOldClusters(JainNeal):
    """Records change clusters, and the clusters' parameters are not drawn anew."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not self.other.sweep(channel, kernel, mixing, Z, state, rng, warming_up):
            return False
        compact(state)
        for _ in range(4):
            split_or_merge(rng, 3, kernel, mixing, state)
        return True


class RecordStillInItsCluster(Neal3):
    """The record is taken off its cluster's sums and not off its count."""

    @compiled
    def log_existing(self, kernel, i, state, k):
        return kernel.log_predictive_record(state.stats, k, state.counts[k] + 1.0, state.records, i)


class NewClustersFromThePrior(Neal2):
    """θ of a new cluster from the base measure, not given its record."""

    @compiled
    def start_cluster(self, rng, kernel, state, k):
        kernel.draw_prior(rng, state.theta, k)


class LaplaceWithoutFlatPieces(LaplaceMechanism):
    """A marginal that forgets what clamping does to records beyond the bounds."""

    @compiled
    def piece(self, Z, i, j, p):
        z, b, lo, hi = Z[i, j], self.noise[i * self.each], self.low[j], self.high[j]
        peak = min(max(z, lo), hi)
        if p == 1:
            return lo, peak, z, -log(2.0 * b), 1.0 / b, 0.0
        if p == 2:
            return peak, hi, z, -log(2.0 * b), -1.0 / b, 0.0
        return lo, lo, z, 0.0, 0.0, 0.0


class GaussianWithoutFlatPieces(GaussianMechanism):
    """The same mistake."""

    @compiled
    def piece(self, Z, i, j, p):
        z, sd, lo, hi = Z[i, j], self.noise[i * self.each], self.low[j], self.high[j]
        return lo, hi if p == 1 else lo, z, self.log_noise(0.0, sd), 0.0, 1.0 / (sd * sd)


class GaussianPieceOfWrongCurvature(GaussianMechanism):
    """Curvature 1/η in place of 1/η²."""

    @compiled
    def piece(self, Z, i, j, p):
        z, sd, lo, hi = Z[i, j], self.noise[i * self.each], self.low[j], self.high[j]
        if p == 0:
            return lo - 1e30, lo, lo, self.log_noise(z - lo, sd), 0.0, 0.0
        if p == 2:
            return hi, hi + 1e30, hi, self.log_noise(z - hi, sd), 0.0, 0.0
        return lo, hi, z, self.log_noise(0.0, sd), 0.0, 1.0 / sd


class ReverseProposalNotCorrected(LaplaceMechanism):
    """Records are proposed around the release as if that proposal were symmetric."""

    @compiled
    def log_reverse(self, Z, i, j, y):
        return 0.0


class MeanPrecisionForgotten(NormalKernel):
    """A cluster's mean given its records has variance σ² and not σ²/(λ + n)."""

    @compiled
    def update_params(self, rng, theta, k, stats, n):
        for j in range(self.n_features):
            _, shift, shape, scale = self.posterior(stats, k, j, n)
            sd = sqrt(scale / rng.standard_gamma(shape))
            self.set_params(theta, k, j, self.prior_mean[j] + shift + sd * rng.standard_normal(), sd)


class ShapeGrowsByWholeRecords(NormalKernel):
    """Shape a + n in place of a + n/2."""

    @compiled
    def posterior(self, stats, k, j, n):
        precision = self.precision[j] + n
        shift = stats[k, 2 * j] / precision
        excess = stats[k, 2 * j + 1] - precision * shift * shift
        return precision, shift, self.prior_shape[j] + n, self.prior_scale[j] + 0.5 * max(excess, 0.0)


class JacobianForgotten(NormalKernel):
    """The base measure's density in σ² where the steps are in log σ: 2 log σ is missing."""

    @compiled
    def log_prior(self, theta, k, j):
        shape, scale, precision = self.prior_shape[j], self.prior_scale[j], self.precision[j]
        u = theta[k, 4 * j] - self.prior_mean[j]
        quadratic = (0.5 * precision * u * u + scale) * theta[k, 4 * j + 2] ** 2
        constant = 0.5 * log(precision / (2.0 * pi)) + shape * log(scale) - lgamma(shape)
        return constant - (2.0 * shape + 3.0) * theta[k, 4 * j + 3] - quadratic


class PredictiveOfAKnownMean(NormalKernel):
    """The Student t forgets that the cluster's mean is uncertain: b in place of b (λ_n + 1)/λ_n."""

    @compiled
    def log_predictive(self, stats, k, n, j, y):
        _, shift, shape, scale = self.posterior(stats, k, j, n)
        u = y - self.prior_mean[j] - shift
        constant = lgamma(shape + 0.5) - lgamma(shape) - 0.5 * log(2.0 * pi * scale)
        return constant - (shape + 0.5) * log(1.0 + 0.5 * u * u / scale)


class ConvolvedWithoutNormaliser(ConvolvedNormalKernel):
    """The Student t of NormalKernel, without the incomplete gamma functions of τ² >= η²."""

    @compiled
    def log_predictive(self, stats, k, n, j, y):
        precision, shift, shape, scale = self.posterior(stats, k, j, n)
        spread = scale * (precision + 1.0) / precision
        u = y - self.prior_mean[j] - shift
        constant = lgamma(shape + 0.5) - lgamma(shape) - 0.5 * log(2.0 * pi * spread)
        return constant - (shape + 0.5) * log(1.0 + 0.5 * u * u / spread)


class ConvolvedWithoutTruncation(ConvolvedNormalKernel):
    """τ² from the whole inverse gamma, below η² too (there moved to η²)."""

    @compiled
    def draw_total_sd(self, rng, shape, scale):
        return sqrt(max(scale / rng.standard_gamma(shape), self.noise_variance * 1.0001))


class EscobarWestUpsideDown(DirichletProcess):
    """The two gamma laws of the concentration's update have each other's probability."""

    @compiled
    def update_concentration(self, rng, concentration, n_clusters, n_records):
        if self.prior_shape == 0.0:
            return concentration
        a = rng.standard_gamma(concentration + 1.0)
        rate = self.prior_rate - log(a / (a + rng.standard_gamma(float(n_records))))
        shape = self.prior_shape + n_clusters
        if rng.random() * (shape - 1.0 + n_records * rate) < shape - 1.0:
            shape -= 1.0
        return rng.standard_gamma(shape) / rate


TWINS = [
    ("neal5", "laplace", 1, "clamped", {"laplace": RatioUpsideDown}),
    ("neal5 of 3", "laplace", 1, "clamped", {"sampler": FirstAuxiliaryOnly(n_auxiliary=3)}),
    ("neal5 of 3", "none", 1, "five", {"sampler": CopiesOfNoiseFreeRecords(n_auxiliary=3)}),
    ("neal5", "laplace", 1, "unclamped", {"mixing": UrnOfAllRecords}),
    ("neal5", "pitman-yor", 1, "negative concentration", {"mixing": UrnWithoutDiscount}),
    ("neal5", "laplace", 1, "random concentration", {"mixing": EscobarWestUpsideDown}),
    ("slice", "laplace", 1, "clamped", {"sampler": WithoutIndicator()}),
    ("slice", "laplace", 1, "unclamped", {"sampler": SticksOfTheWholeUrn()}),
    ("conditional", "laplace", 1, "clamped", {"sampler": RecordsFromTheKernel()}),
    ("conditional", "gaussian", 1, "clamped", {"gaussian": GaussianWithoutFlatPieces}),
    ("neal8", "laplace", 1, "clamped", {"sampler": ForgetsSingletons()}),
    ("neal8", "laplace", 1, "clamped", {"sampler": WholeMassEachCandidate()}),
    ("neal8", "laplace", 1, "clamped", {"laplace": LaplaceWithoutFlatPieces}),
    ("neal8", "gaussian", 1, "own noise each", {"gaussian": GaussianPieceOfWrongCurvature}),
    ("neal5", "finite", 1, "clamped", {"mixing": UrnOfComponents}),
    ("neal3", "none", 1, "five", {"sampler": DoubledConcentration(Neal3())}),
    ("neal5", "laplace", 1, "clamped", {"sampler": ParametersOfTheOldClusters(Neal5())}),
    ("neal3", "finite without noise", 1, "five", {"mixing": ComponentsWithoutTheirNumber}),
    ("auto", "none", 1, "five", {"sampler": WholeMassEachOfThePool()}),
    ("auto", "laplace", 1, "clamped", {"sampler": SplitsTooOften()}),
    ("auto", "laplace", 1, "little noise", {"laplace": ReverseProposalNotCorrected}),
    ("auto", "laplace", 1, "clamped", {"normal": JacobianForgotten}),
    ("neal2", "none", 1, "five", {"sampler": NewClustersFromThePrior()}),
    ("neal3", "none", 1, "five", {"sampler": RecordStillInItsCluster()}),
    ("neal3", "none", 1, "five", {"normal": PredictiveOfAKnownMean}),
    ("neal5", "laplace", 1, "clamped", {"normal": MeanPrecisionForgotten}),
    ("slice", "none", 1, "five", {"normal": ShapeGrowsByWholeRecords}),
    ("neal3", "convolved", 1, "mostly noise", {"convolved": ConvolvedWithoutNormaliser}),
    ("neal2", "convolved", 1, "mostly noise", {"convolved": ConvolvedWithoutTruncation}),
]


def twin_id(value):
    if isinstance(value, dict):
        (twin,) = value.values()
        return twin.__name__ if isinstance(twin, type) else type(twin).__name__
    return str(value).replace(" ", "-")


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "channel", "d", "name", "twin"), TWINS, ids=twin_id)
def test_broken_twin_is_rejected(sampler, channel, d, name, twin):
    """The same check disagrees with each twin (and does not merely find too few draws)."""
    with pytest.raises(Disagreement):
        check(sampler, channel, d, name, **twin)
