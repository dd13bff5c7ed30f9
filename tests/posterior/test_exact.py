"""Every sampler against the exact posterior of n <= 5 records: all partitions, integrals by quadrature (oracle.py).

One test is one compiled combination of sampler, mechanism, number of features and mixing, and goes through several
cases that share it.  What is compared: the probabilities of the number of clusters, and the posterior predictive
density at six points.  The noise is of the order of the kernel's standard deviation, where a wrong sampler is most
visible; one case has little noise.

Then the broken twins: subclasses with one plausible mistake, which the same check must reject (:class:`Disagreement`).
"""

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import oracle
import pytest
from exact_twins import (
    ComponentsWithoutTheirNumber,
    ConvolvedWithoutNormaliser,
    ConvolvedWithoutTruncation,
    CopiesOfNoiseFreeRecords,
    DoubledConcentration,
    EscobarWestUpsideDown,
    FirstAuxiliaryOnly,
    ForgetsSingletons,
    GaussianPieceOfWrongCurvature,
    GaussianWithoutFlatPieces,
    JacobianForgotten,
    LaplaceWithoutFlatPieces,
    MeanPrecisionForgotten,
    NewClustersFromThePrior,
    ParametersOfTheOldClusters,
    PredictiveOfAKnownMean,
    RatioUpsideDown,
    RecordsFromTheKernel,
    RecordStillInItsCluster,
    ReverseProposalNotCorrected,
    ShapeGrowsByWholeRecords,
    SplitsTooOften,
    SticksOfTheWholeUrn,
    UrnBySize,
    UrnBySizeOfTheFirst,
    UrnOfAllRecords,
    UrnOfComponents,
    UrnWithoutDiscount,
    WholeMassEachCandidate,
    WholeMassEachOfThePool,
    WithoutIndicator,
)
from statistical import Disagreement, assert_mean_close, assert_pmf_close

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import ConvolvedNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers import Conditional, Interweaved, JainNeal, Neal2, Neal3, Neal5, Neal8, ReUse, Slice
from sklearn_dpmix.samplers.mixture._places import URN_RATE


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
N_DRAWS = 4_000  # of each of four chains
MIN_ESS = 3_000  # of each quantity
TIMES = {"pitman-yor": 2}  # as many draws, where what a twin changes is small
# sampler: (object, sweeps a draw: as many as give that)
SAMPLERS = {
    "neal5": (Neal5(), 10),
    "neal5 of 3": (Neal5(n_auxiliary=3), 5),
    "slice": (Slice(), 8),
    "conditional": (Conditional(), 5),
    "neal8": (Neal8(), 2),
    "auto": ("auto", 3),
    "interweaved": (Interweaved(), 3),
    "neal2": (Neal2(), 3),
    "reuse": (ReUse(), 3),
    "neal3": (Neal3(), 3),
    "split-merge on neal3": (JainNeal(Neal3(), n_attempts=2, n_scans=1), 2),
    "split-merge on neal5": (JainNeal(Neal5(), n_attempts=4), 3),
    "split-merge on neal5 of pairs": (JainNeal(Neal5(), n_attempts=4), 6),
}
SIX = ("neal5", "neal5 of 3", "slice", "conditional", "neal8", "auto")
NIGHTLY = {
    *(("neal5 of 3", noise, 1) for noise in ("laplace", "gaussian")),
    ("slice", "gaussian", 1),
    ("neal8", "gaussian", 1),
    ("auto", "gaussian", 1),
    ("interweaved", "gaussian", 1),
    ("interweaved", "gaussian", 2),
    ("slice", "laplace", 2),
    ("conditional", "laplace", 2),
    ("neal8", "laplace", 2),
    ("neal5 of 3", "laplace", 2),
    *((s, "gaussian", 2) for s in SIX if s != "neal8"),
    *((s, "none", 1) for s in ("neal5 of 3", "slice", "conditional")),
    *((s, "none", 2) for s in (*SIX[:-1], "neal2")),
    *((s, "pitman-yor", 1) for s in ("slice", "conditional", "neal8")),
    ("neal3", "pitman-yor without noise", 1),
    *((s, "finite", 1) for s in ("conditional", "neal8")),
    *((s, "finite without noise", 1) for s in ("slice", "auto")),
    *((s, "convolved", 1) for s in ("neal5 of 3", "slice", "conditional", "neal8", "neal2")),
    *(("split-merge on neal3", channel, 1) for channel in ("convolved", "finite without noise")),
    ("split-merge on neal5", "laplace", 1),
    ("split-merge on neal5 of pairs", "gaussian", 2),
    *((s, "convolved", 2) for s in ("neal2", "neal3")),
}
COMBINATIONS = [
    *product(SIX, ("laplace", "gaussian"), (1, 2)),
    *product(("interweaved",), ("laplace", "gaussian"), (1, 2)),
    *product((*SIX, "neal2", "neal3"), ("none",), (1,)),
    *product((*SIX, "neal2", "neal3"), ("none",), (2,)),
    *product(("neal5", "slice", "conditional", "neal8", "auto"), ("pitman-yor",), (1,)),
    *product(("neal2", "neal3"), ("pitman-yor without noise",), (1,)),
    *product(("neal5", "conditional", "neal8", "auto"), ("finite",), (1,)),
    *product(("neal2", "neal3", "slice", "auto"), ("finite without noise",), (1,)),
    *product((*SIX, "neal2", "neal3", "reuse"), ("convolved",), (1,)),
    *product(("neal2", "neal3"), ("convolved",), (2,)),
    *product(("split-merge on neal3",), ("none", "finite without noise", "convolved"), (1,)),
    *product(("split-merge on neal5",), ("laplace", "pitman-yor"), (1,)),
    ("split-merge on neal5 of pairs", "gaussian", 2),
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


def walks(channel):
    """Whether ``"auto"`` walks over mixing measures: next to nothing is left of a draw after one sweep of its moves."""
    return channel in ("convolved", "laplace", "gaussian", "finite")


def check(setting, channel, d, name, *, seed=0, n_warmup=500, **twins):
    """The check: fit, and compare with the oracle.  ``twins`` replace components by broken ones."""
    case, truth = CASES[channel, d][name], exact(channel, d, name)
    classes = CLASSES | twins
    kernel = classes["convolved" if channel == "convolved" else "normal"](**PRIORS[case.prior])
    mixing = twins["mixing"](**case.mixing.get_params()) if "mixing" in twins else case.mixing
    component, thin = SAMPLERS[setting]
    if setting == "auto" and walks(channel):
        thin = 1
    model = PrivateDPMixture(
        mechanism_of(channel, case, classes),
        kernel=kernel,
        mixing=mixing,
        sampler=twins.get("sampler", component),
        n_warmup=n_warmup,
        n_draws=N_DRAWS * TIMES.get(channel, 1),
        thin=thin,
        random_state=seed,
    )
    model.fit(np.array(case.Z).reshape(len(case.Z), -1))
    where = f"{setting}, {channel}, {d} feature(s), {name}"
    if len(case.Z) > 1:
        assert_pmf_close(model.n_clusters_draws_, truth.n_clusters_pmf, min_ess=MIN_ESS, what=f"{where}: clusters")
    draws = model.density_draws(points(case))
    np.testing.assert_allclose(model.score_samples(points(case)), np.log(draws.mean(axis=(0, 1))), rtol=1e-9)
    assert_mean_close(draws, truth.predictive, min_ess=MIN_ESS, what=f"{where}: predictive density")
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "channel", "d"),
    [pytest.param(*c, marks=pytest.mark.nightly) if c in NIGHTLY else c for c in COMBINATIONS],
    ids=lambda value: str(value).replace(" ", "-"),
)
def test_posterior_is_exact(sampler, channel, d):
    """Catches a wrong target of any sampler, whatever the reason: the twins below are a list of reasons."""
    for seed, name in enumerate(CASES[channel, d]):
        check(sampler, channel, d, name, seed=seed)


def choose_passes_by(monkeypatch, rate):
    """Chains of `interweaved` start as if this share of the urn's proposals were accepted."""

    def init(self, *args, _init=Interweaved.init):
        state = _init(self, *args)
        state.floats[URN_RATE] = rate
        return state

    monkeypatch.setattr(Interweaved, "init", init)


@pytest.mark.slow
@pytest.mark.parametrize(("pass_", "rate"), [("gibbs", 1e-3), ("urn", 1.0)])
@pytest.mark.parametrize(("channel", "d"), [("laplace", 1), pytest.param("gaussian", 2, marks=pytest.mark.nightly)])
def test_both_passes_of_the_interweaved_sampler_are_exact(channel, d, pass_, rate, monkeypatch):
    """Passes are chosen by the urn's acceptance, so that one of them hides in most cases: here each has 95 %.

    Catches a mistake in the Gibbs pass or in the moves of records, which an urn pass in the next sweep would wash out.
    """
    choose_passes_by(monkeypatch, rate)
    for seed, name in enumerate(CASES[channel, d]):
        check("interweaved", channel, d, name, seed=seed, n_warmup=0)  # no warm-up: nothing is tuned


@pytest.mark.slow
@pytest.mark.nightly
def test_a_wrong_move_of_records_is_rejected(monkeypatch):
    choose_passes_by(monkeypatch, 1e-3)
    with pytest.raises(Disagreement):
        check("interweaved", "laplace", 1, "narrow bounds", n_warmup=0, laplace=ReverseProposalNotCorrected)


@pytest.mark.slow
def test_an_urn_by_size_is_exact():
    """Catches a wrong law of what more than a million records use; ``UrnBySizeOfTheFirst`` is its broken twin."""
    for seed, name in enumerate(("unclamped", "clamped")):
        check("neal5", "laplace", 1, name, seed=seed, mixing=UrnBySize)


# --- broken twins -----------------------------------------------------------------------------------------------------


TWINS = [
    ("neal5", "laplace", 1, "clamped", {"laplace": RatioUpsideDown}),
    ("neal5", "laplace", 1, "unclamped", {"mixing": UrnOfAllRecords}),
    ("neal5", "laplace", 1, "unclamped", {"mixing": UrnBySizeOfTheFirst}),
    ("neal5", "pitman-yor", 1, "negative concentration", {"mixing": UrnWithoutDiscount}),
    ("slice", "laplace", 1, "clamped", {"sampler": WithoutIndicator()}),
    ("conditional", "laplace", 1, "clamped", {"sampler": RecordsFromTheKernel()}),
    ("auto", "laplace", 1, "clamped", {"sampler": SplitsTooOften()}),
]
NIGHTLY_TWINS = [
    ("neal5", "laplace", 1, "random concentration", {"mixing": EscobarWestUpsideDown}),
    ("neal8", "laplace", 1, "clamped", {"sampler": WholeMassEachCandidate()}),
    ("neal2", "none", 1, "five", {"sampler": NewClustersFromThePrior()}),
    ("neal5 of 3", "laplace", 1, "clamped", {"sampler": FirstAuxiliaryOnly(n_auxiliary=3)}),
    ("neal5 of 3", "none", 1, "five", {"sampler": CopiesOfNoiseFreeRecords(n_auxiliary=3)}),
    ("slice", "laplace", 1, "unclamped", {"sampler": SticksOfTheWholeUrn()}),
    ("conditional", "gaussian", 1, "clamped", {"gaussian": GaussianWithoutFlatPieces}),
    ("neal8", "laplace", 1, "clamped", {"sampler": ForgetsSingletons()}),
    ("neal8", "laplace", 1, "clamped", {"laplace": LaplaceWithoutFlatPieces}),
    ("neal8", "gaussian", 1, "own noise each", {"gaussian": GaussianPieceOfWrongCurvature}),
    ("neal5", "finite", 1, "clamped", {"mixing": UrnOfComponents}),
    ("neal3", "none", 1, "five", {"sampler": DoubledConcentration(Neal3())}),
    ("neal5", "laplace", 1, "clamped", {"sampler": ParametersOfTheOldClusters(Neal5())}),
    ("neal3", "finite without noise", 1, "five", {"mixing": ComponentsWithoutTheirNumber}),
    ("auto", "none", 1, "five", {"sampler": WholeMassEachOfThePool()}),
    ("auto", "laplace", 1, "unclamped", {"normal": JacobianForgotten}),
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
@pytest.mark.parametrize(
    ("sampler", "channel", "d", "name", "twin"),
    [*TWINS, *(pytest.param(*twin, marks=pytest.mark.nightly) for twin in NIGHTLY_TWINS)],
    ids=twin_id,
)
def test_broken_twin_is_rejected(sampler, channel, d, name, twin):
    """The same check disagrees with each twin (and does not merely find too few draws)."""
    with pytest.raises(Disagreement):
        check(sampler, channel, d, name, **twin)
