"""Samplers against the exact posterior of n <= 4 records under binned, histogram, category and Laplace channels.

The normal kernel under additive noise is in ``test_exact.py``; here are beta and categorical kernels, and the channels
that are no additive noise on a record, against ``grid_oracle.py``.  One test is one sampler on one pair of mechanism
and kernel, and goes through several cases that share what is compiled.  What is compared: the probabilities of the
number of clusters, and the posterior predictive density of a confidential record at a few points.

Then the same comparison with wrong oracles, one plausible mistake each, which must fail (:class:`Disagreement`).
"""

from itertools import product

import grid_oracle as oracle
import numpy as np
import pytest
from exact_answer_cases import FAMILIES
from exact_channel_cases import PRIOR, compare, exact, fit
from statistical import Disagreement
from window_twins import ForgetsClamping, ForgetsClampingOnNodes

from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.kernels import BetaKernel
from sklearn_dpmix.mechanisms import (
    FiniteChannelMechanism,
    HaarWaveletMechanism,
    PerturbedHistogramMechanism,
    PiecewiseMechanism,
    RandomizedResponseMechanism,
    SmoothedHistogramMechanism,
    UnaryEncodingMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import Bins, Cells, Sources
from sklearn_dpmix.samplers.mixture._places import CONCENTRATION, MASS, N_SLOTS, PROBABILITY
from sklearn_dpmix.samplers.mixture._reuse import reuse_pass
from sklearn_dpmix.samplers.mixture._state import update_clusters
from sklearn_dpmix.samplers.mixture.cells._bins import accumulate_masses, draw_bin_of_kernel
from sklearn_dpmix.samplers.mixture.moves._noncentred import noncentred_moves
from sklearn_dpmix.samplers.mixture.moves._split_merge import sort_records, split_merge

LOCAL = ("neal5", "slice", "conditional", "neal8")
NIGHTLY = {
    *product(("haar-normal",), ("slice", "neal8", "conditional", "neal5", "cells")),
    *product(("haar-beta",), ("slice", "neal8", "conditional", "neal5")),
    *product(("binomial-beta",), ("slice", "neal8", "conditional", "neal5")),
    *product(("categories", "noise-free categories"), ("slice", "neal8")),
    *product(("categories",), ("neal5",)),
    *product(("noise-free categories",), ("neal5", "auto")),
    *product(("two-categories",), ("neal5", "conditional")),
    *product(("smoothed-beta",), ("conditional", "slice", "neal5", "sources")),
    *product(("perturbed-beta",), ("slice", "conditional")),
    *product(("laplace-truncated",), ("neal5", "neal8", "conditional")),
    *product(("gaussian-beta",), ("neal5",)),
    *product(("gaussian-truncated",), ("neal8", "mixing_measure")),
    ("truncated", "neal5"),
    ("few-draws-beta", "neal5"),
    *product(("haar-beta, Pitman-Yor",), ("conditional", "cells")),
    ("few-draws-beta, Pitman-Yor", "cells"),
    *product(("square-wave-beta",), ("neal5", "neal8", "conditional")),
    *product(("square-wave-normal",), ("neal5", "slice", "conditional", "neal8", "interweaved")),
    *product(("piecewise-beta",), ("neal5", "conditional", "mixing_measure")),
    *product(("hybrid-beta",), ("neal5",)),
    *product(("hybrid-normal",), ("neal8", "interweaved")),
    *product(("designs", "bits"), ("neal5", "slice", "neal8")),
    ("bits", "conditional"),
    ("two-designs", "conditional"),
    *product(("piecewise-normal",), ("interweaved", "mixing_measure")),
}
MAIN = ("few-draws-beta", "beta")  # whose wrong oracles are in the default run
COMBINATIONS = [
    *product(("categories",), LOCAL),
    *product(("haar-beta", "haar-normal", "binomial-beta"), ("slice", "neal8", "conditional", "neal5", "cells")),
    *product(("haar-beta", "haar-normal", "binomial-beta"), ("mixing_measure",)),
    *product(("two-categories",), ("neal5", "conditional")),
    *product(("smoothed-beta", "perturbed-beta"), ("neal5", "slice", "conditional", "cells")),
    *product(("laplace-beta",), ("neal5", "slice", "auto")),
    *product(("laplace-truncated",), ("neal5", "conditional", "neal8", "mixing_measure")),
    *product(("gaussian-beta",), ("neal5", "mixing_measure")),
    *product(("gaussian-truncated",), ("neal8", "mixing_measure")),
    *product(("binomial-normal", "stairs-normal"), ("auto",)),
    *product(("truncated",), ("neal5", "auto")),
    *product(("beta", "noise-free categories"), ("neal5", "slice", "neal8", "auto")),
    *product(("few-draws-beta",), ("neal5", "cells")),
    ("smoothed-beta", "sources"),
    ("answers", "mixing_measure"),
    *product(("haar-beta, Pitman-Yor",), ("conditional", "cells")),
    ("few-draws-beta, Pitman-Yor", "cells"),
    ("categories, Pitman-Yor", "neal5"),
    *product(("square-wave-beta",), ("neal5", "neal8", "conditional", "auto")),
    *product(("square-wave-normal",), ("neal5", "slice", "conditional", "neal8", "interweaved", "mixing_measure")),
    *product(("piecewise-beta",), ("neal5", "conditional", "mixing_measure")),
    *product(("hybrid-beta",), ("neal5", "conditional", "mixing_measure")),
    *product(("hybrid-normal",), ("neal8", "interweaved", "mixing_measure")),
    *product(("designs",), ("neal5", "slice", "neal8", "conditional")),
    *product(("bits",), ("neal5", "slice", "neal8", "conditional", "auto")),
    *product(("two-designs",), ("conditional", "mixing_measure")),
    *product(("piecewise-normal",), ("interweaved", "mixing_measure")),
    *product(("four-bits", "two-bits"), ("mixing_measure",)),
    ("narrow-window-normal", "interweaved"),
    *product(("windows of their own", "answers of their own"), ("mixing_measure",)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "sampler"), [pytest.param(*c, marks=pytest.mark.nightly) if c in NIGHTLY else c for c in COMBINATIONS]
)
def test_posterior_is_exact(family, sampler):
    """Catches a wrong target of any sampler on these channels and kernels: the twins below are a list of reasons."""
    for seed, name in enumerate(FAMILIES[family]):
        compare(*fit(FAMILIES[family][name], sampler, seed), exact(family, name), f"{family}, {sampler}, {name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[pytest.mark.nightly] * (name not in MAIN)) for name in FAMILIES]
)
def test_wrong_twins_are_rejected(family):
    """Catches a comparison without power: a wrong channel, order, count or prior must disagree with the draws.

    The twins are of the first case of each family, with draws that agree with the right oracle.
    """
    name = next(iter(FAMILIES[family]))
    case = FAMILIES[family][name]
    sampler = next(sampler for other, sampler in reversed(COMBINATIONS) if other == family)
    draws = fit(case, sampler, 0)
    compare(*draws, exact(family, name), f"{family}, {name}")
    for twin, changes in case.twins.items():
        try:
            compare(*draws, case.exact(**changes), f"{family}, {name}, {twin}")
        except Disagreement:
            continue
        pytest.fail(f"{family}: the draws agree with a wrong oracle, {twin!r}")


# --- broken twins of the sampler that moves by g alone ---------------------------------------------------------------


class PriorForgotten(BetaKernel):
    """Moves of a cluster's parameters by the release alone."""

    @compiled
    def log_prior(self, theta, k, j):
        return 0.0


class SplitsTooOften(Cells):
    """A factor 2 lost in the ratio of a split."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not reuse_pass(self, rng, channel, kernel, mixing, Z, state):
            return False
        if state.counts.size < state.ints[N_SLOTS] + 31:
            return False
        sort_records(state)
        noncentred_moves(self, rng, channel, kernel, Z, state, warming_up)
        state.floats[CONCENTRATION] *= 2.0
        split_merge(self, rng, 30, channel, kernel, mixing, Z, state)
        state.floats[CONCENTRATION] /= 2.0
        return True


class ReleaseForgotten(Bins):
    """Bins drawn anew are kept whatever the release says."""

    @compiled
    def shift(self, rng, channel, kernel, Z, state, first, last, k, to):
        below = np.empty(channel.last_cell + 1)
        accumulate_masses(channel, state.theta, to, below)
        for r in range(first, last):
            i, new = state.order[r], draw_bin_of_kernel(rng, below)
            state.levels[i] = new
            Z[1, channel.bin(state.records[i, 0, 0])] -= 1.0
            Z[1, new] += 1.0
        return 0.0


class RecordsAnywhere(Bins):
    """Parameters given records that are drawn without regard to their bins."""

    @compiled
    def move_given_records(self, rng, channel, kernel, Z, state, tune):
        for i in range(state.alloc.size):
            state.levels[i] = state.records[i, 0, 0]
            state.records[i, 0, 0] = kernel.draw(rng, state.theta, state.alloc[i], 0)
        update_clusters(rng, 1, channel, kernel, state, tune)
        for i in range(state.alloc.size):
            state.records[i, 0, 0] = state.levels[i]


class BinsStay(Bins):
    """The counts follow a rejected move."""

    @compiled
    def undo(self, channel, Z, state, first, last):
        for r in range(first, last):
            i = state.order[r]
            state.records[i, 0, 0] = channel.centre(int(state.levels[i]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "twin"),
    [
        pytest.param("haar-beta", PriorForgotten(*PRIOR), marks=pytest.mark.nightly),
        pytest.param("haar-beta", SplitsTooOften(), marks=pytest.mark.nightly),
        pytest.param("smoothed-beta", PriorForgotten(*PRIOR), marks=pytest.mark.nightly),
        pytest.param("perturbed-beta", ReleaseForgotten(), marks=pytest.mark.nightly),
        pytest.param("perturbed-beta", RecordsAnywhere(), marks=pytest.mark.nightly),
        pytest.param("perturbed-beta", BinsStay(), marks=pytest.mark.nightly),
    ],
)
def test_broken_samplers_are_rejected(family, twin):
    """Catches a comparison that would not see a mistake in the moves by g."""
    name = next(iter(FAMILIES[family]))
    case = FAMILIES[family][name]
    is_kernel = isinstance(twin, BetaKernel)
    draws = fit(case._replace(kernel=twin) if is_kernel else case, "cells" if is_kernel else twin, 0)
    with pytest.raises(Disagreement):
        compare(*draws, exact(family, name), f"{family}, {name}")


class NearAndFarAlike(PiecewiseMechanism):
    """Records are drawn from the kernel: the release says their cluster, and nothing more."""

    @compiled
    def impute(self, rng, kernel, Z, i, j, theta, k):
        return kernel.draw(rng, theta, k, j)


class AnswersFromTheLast(FiniteChannelMechanism):
    """The matrix is read with its answers in the opposite order."""

    @compiled
    def log_category(self, Z, i, j, c):
        return self.table[int(self.first[j]) + (c + 1) * int(self.n_answers[j]) - 1 - int(Z[i, j])]


class QuestionsAlike(FiniteChannelMechanism):
    """The first question's matrix is every question's."""

    noised_kernels = frozenset({"categorical"})

    def chances(self, Z):
        return np.array([self._matrices()[0][:, z.astype(int)] for z in Z.T])


class OwnBitForgotten(UnaryEncodingMechanism):
    """A 0 where the true category's bit is costs nothing."""

    @compiled
    def log_category(self, Z, i, j, c):
        return Z[i, self.n_bits + j] + max(self.log_one[i * self.each] * Z[i, self.size * j + c], 0.0)


class BitsInReverse(UnaryEncodingMechanism):
    """A bit is taken for that of another category."""

    noised_kernels = frozenset({"categorical"})

    def chances(self, Z):
        return super().chances(Z)[:, ::-1]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("family", "sampler", "twin"),
    [
        ("square-wave-normal", "neal8", ForgetsClamping),
        ("square-wave-normal", "mixing_measure", ForgetsClampingOnNodes),
        ("piecewise-normal", "neal8", NearAndFarAlike),
        ("designs", "neal8", AnswersFromTheLast),
        ("bits", "neal8", OwnBitForgotten),
        ("four-bits", "mixing_measure", BitsInReverse),
        ("two-designs", "mixing_measure", QuestionsAlike),
    ],
)
def test_broken_channels_are_rejected(family, sampler, twin):
    """Catches a comparison that would not see a channel that is not the mechanism's."""
    name, case = next(iter(FAMILIES[family].items()))
    case = case._replace(mechanism=twin(**case.mechanism.get_params()))
    draws = fit(case, sampler, 0)
    with pytest.raises(Disagreement):
        compare(*draws, exact(family, name), f"{family}, {name}")


class FromRecordsOnly(SmoothedHistogramMechanism):
    """No released draw is one of the smoothing."""

    @compiled
    def draw_n_sources(self, rng, table, b):
        count, n_sources = table[1, b], 0.0
        for _ in range(int(table[2, b])):
            if rng.random() * count < count - n_sources:
                n_sources += 1.0
        return n_sources


class ARecordForEach(SmoothedHistogramMechanism):
    """No two released draws come from one record, where there are others."""

    @compiled
    def draw_n_sources(self, rng, table, b):
        count, n_sources = table[1, b], 0.0
        share = self.gain * count / (self.gain * count + self.smoothing_in_force)
        for _ in range(int(table[2, b])):
            if n_sources < count and rng.random() < share:
                n_sources += 1.0
        return n_sources


class FirstCome(DirichletProcess):
    """Records that are drawn anew join the first one's cluster, whatever its size."""

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        return -1 if rng.random() * (concentration + i) < concentration else alloc[0]


class SourcesAnywhere(Sources):
    """Clusters of sources whatever bins these are in."""

    @compiled
    def weigh_clusters(self, channel, kernel, Z, i, records, theta, work, n_slots):
        for k in range(n_slots):
            work[PROBABILITY, k] = work[MASS, k]


@pytest.mark.slow
@pytest.mark.parametrize(
    "twin",
    [
        pytest.param(FromRecordsOnly, marks=pytest.mark.nightly),
        ARecordForEach,
        pytest.param(FirstCome, marks=pytest.mark.nightly),
        pytest.param(SourcesAnywhere, marks=pytest.mark.nightly),
    ],
)
def test_broken_sources_are_rejected(twin):
    """Catches a comparison that would not see where the released draws came from, or the records that they did not."""
    name, case = next(iter(FAMILIES["few-draws-beta"].items()))
    sampler = "cells"
    if issubclass(twin, SmoothedHistogramMechanism):
        case = case._replace(mechanism=twin(**case.mechanism.get_params()))
    elif issubclass(twin, DirichletProcess):
        case = case._replace(mixing=twin(case.mixing.concentration))
    else:
        sampler = twin()
    draws = fit(case, sampler, 0)
    with pytest.raises(Disagreement):
        compare(*draws, exact("few-draws-beta", name), name)


# --- the channels themselves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", ["exact", "butucea"])
@pytest.mark.parametrize("resolution", [0, 1, 3])
def test_haar_channel(resolution, calibration):
    """Catches a wrong order or sign of coefficients, scale, bin at its own end, and records that are not clamped."""
    n_bins = 2 ** (resolution + 1)
    psi = oracle.haar_coefficients(resolution)
    mechanism = HaarWaveletMechanism(7.0, resolution, bounds=(-1.0, 3.0), calibration=calibration)
    bins = np.array([*range(n_bins), *range(n_bins), 0, n_bins - 1, n_bins - 1])
    y = np.array([*(np.arange(n_bins) / n_bins), *((np.arange(n_bins) + 0.9) / n_bins), -0.5, 1.0, 1.5]) * 4.0 - 1.0
    Z = psi[bins] + np.sin(np.arange(1, bins.size * psi.shape[1] + 1)).reshape(bins.size, -1)
    expected = oracle.log_haar(Z, psi, 7.0, calibration)[np.arange(bins.size), bins]
    np.testing.assert_allclose(mechanism.log_density(Z, y[:, None]), expected, rtol=1e-12)


def test_histogram_channels():
    """Catches a density without bin width, a wrong smoothing or scale, and records that are in the wrong bin."""
    records = np.array([-1.7, -0.9, 0.0, 0.3, 2.0, 2.4, 3.0, 3.3])  # of four bins on (-1, 3)
    counts = np.array([2, 2, 0, 4])
    for epsilon in (0.5, 9.0):
        z = np.array([-0.95, 0.4, 1.5, 2.9, 2.2])
        mechanism = SmoothedHistogramMechanism(epsilon, 4, 5, n_records=8, bounds=(-1.0, 3.0))
        expected = oracle.log_smoothed_histogram(z, counts, epsilon, (-1.0, 3.0))
        np.testing.assert_allclose(mechanism.log_density(z, records[:, None]), expected, rtol=1e-12)
        for noise, z in (("laplace", np.array([2.4, 0.1, -1.2, 3.9])), ("discrete_laplace", np.array([2, 3, -1, 7]))):
            mechanism = PerturbedHistogramMechanism(epsilon, 4, n_records=8, bounds=(-1.0, 3.0), noise=noise)
            expected = oracle.log_perturbed_histogram(z, counts, epsilon, noise)
            np.testing.assert_allclose(mechanism.log_density(z, records[:, None]), expected, rtol=1e-12)


@pytest.mark.parametrize("d", [1, 2])
def test_randomised_response_channel(d):
    """Catches a wrong probability of the truth, and a budget that features do not share."""
    Z, Y = (np.array(list(product(range(3), repeat=2 * d))).reshape(-1, 2, d)[:, i] for i in (0, 1))
    for epsilon in (1.3, np.linspace(0.1, 3.0, len(Z))):
        log_q = oracle.log_randomized_response(Z, epsilon, 3)
        expected = np.take_along_axis(log_q, Y[..., None], axis=2).sum(axis=(1, 2))
        np.testing.assert_allclose(RandomizedResponseMechanism(epsilon, 3).log_density(Z, Y), expected, rtol=1e-12)
