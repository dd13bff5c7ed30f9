"""Every sampler against the exact posterior of n <= 5 records: all partitions enumerated, integrals by quadrature (oracle.py).

One test is one compiled combination of sampler, mechanism, number of features and mixing, and goes through several cases
that share it.  What is compared: the probabilities of the number of clusters and the posterior predictive density at six points.
The noise is of the order of the kernel's standard deviation, where a wrong sampler is most visible, with one small-noise case.

Then the broken twins: subclasses with one plausible mistake, which the same check must reject (:class:`Disagreement`).
"""

from functools import cache
from math import exp, lgamma, log, pi, sqrt
from typing import NamedTuple

import numpy as np
import oracle
import pytest
from statistical import MIN_ESS, Disagreement, assert_mean_close, assert_pmf_close

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._compiled import compiled
from sklearn_dpmix.kernels import ConvolvedNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess, PitmanYor
from sklearn_dpmix.samplers import Auto, Conditional, Neal2, Neal3, Neal5, Neal8, Slice
from sklearn_dpmix.samplers._collapsed import collapsed_sweep
from sklearn_dpmix.samplers._conditional import allocate, draw_occupied_weights, extend_sticks
from sklearn_dpmix.samplers._neal5 import urn_sweep
from sklearn_dpmix.samplers._neal8 import gibbs_sweep, impute_records
from sklearn_dpmix.samplers._state import CONCENTRATION, CURSOR, N_CLUSTERS, N_SLOTS, compact, update_clusters


class Case(NamedTuple):
    """A release, its mechanism's numbers, and the prior."""

    Z: tuple
    scale: object = None  # of the noise: a number, or one a record
    bounds: object = None  # clamped to them; None: not clamped
    prior: str = "wide"
    mixing: object = DirichletProcess()


# Base measures N(μ | mean, σ²/mean_precision)·IG(σ² | shape, scale): means away from 0, σ that varies, features that differ.
PRIORS = {
    "wide": {"mean": 0.4, "mean_precision": 0.3, "shape": 2.5, "scale": 1.7},
    "heavy": {"mean": -1.0, "mean_precision": 0.1, "shape": 1.5, "scale": 0.6},
    "two": {"mean": [0.4, -1.0], "mean_precision": [0.3, 0.1], "shape": [2.5, 1.5], "scale": [1.7, 0.6]},
    "total": {"mean": 0.4, "mean_precision": 0.3, "shape": 2.5, "scale": 3.0},  # of the total variance: ConvolvedNormalKernel
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
        "negative concentration": Case(SKEWED, 1.5, mixing=PitmanYor(-0.2, 0.4)),
        "discount 0": Case((-0.9, 0.4, 0.7, 1.8), 0.5, (0.0, 1.0), mixing=PitmanYor(2.0, 0.0)),
        "one record": Case((2.5,), 1.2, (-2.0, 2.0), "heavy", PitmanYor(-0.1, 0.5)),
    },
    ("pitman-yor without noise", 1): {
        "five": Case(FIVE, mixing=PitmanYor(1.0, 0.25)),
        "negative concentration": Case(SKEWED, mixing=PitmanYor(-0.2, 0.4)),
        "one record": Case((2.5,), mixing=PitmanYor(-0.1, 0.5)),
    },
    ("convolved", 1): {
        "as much noise": Case(FIVE, 1.0, prior="total"),
        "mostly noise": Case(SKEWED, 2.0, prior="total", mixing=DirichletProcess(2.5)),
        "random concentration": Case((-0.9, 0.1, 2.2), 0.5, prior="total", mixing=RANDOM),
    },
    ("convolved", 2): {"three": Case(PAIRS, 1.2, prior="total two")},
}
# sampler: (object, draws of each of four chains, sweeps a draw)
SAMPLERS = {
    "neal5": (Neal5(), 25_000, 4),
    "neal5 of 3": (Neal5(n_auxiliary=3), 25_000, 3),
    "slice": (Slice(), 25_000, 4),
    "conditional": (Conditional(), 15_000, 1),
    "neal8": (Neal8(), 15_000, 1),
    "auto": ("auto", 15_000, 1),
    "neal2": (Neal2(), 20_000, 1),
    "neal3": (Neal3(), 20_000, 1),
}
SIX = ("neal5", "neal5 of 3", "slice", "conditional", "neal8", "auto")
COMBINATIONS = [
    *((sampler, channel, d) for channel in ("laplace", "gaussian") for d in (1, 2) for sampler in SIX),
    *((sampler, "none", d) for d in (1, 2) for sampler in SAMPLERS),
    *((sampler, "pitman-yor", 1) for sampler in ("neal5", "slice", "conditional", "neal8", "auto")),
    *((sampler, "pitman-yor without noise", 1) for sampler in ("neal2", "neal3")),
    *((sampler, "convolved", 1) for sampler in SAMPLERS),
    *((sampler, "convolved", 2) for sampler in ("neal2", "neal3")),
]


def noise_of(channel):
    return {"none": None, "pitman-yor without noise": None, "pitman-yor": "laplace", "convolved": "gaussian"}.get(channel, channel)


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
    if isinstance(mixing, PitmanYor):
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


def check(sampler, channel, d, name, *, seed=0, **twins):
    """The check: fit, and compare with the oracle.  ``twins`` replace components by broken ones."""
    case, truth = CASES[channel, d][name], exact(channel, d, name)
    classes = CLASSES | twins
    kernel = classes["convolved" if channel == "convolved" else "normal"](**PRIORS[case.prior])
    mixing = twins["mixing"](**case.mixing.get_params()) if "mixing" in twins else case.mixing
    component, n_draws, thin = SAMPLERS[sampler]
    if isinstance(mixing, PitmanYor):
        n_draws //= 2  # a draw has many more atoms
    model = PrivateDPMixture(
        mechanism_of(channel, case, classes),
        kernel=kernel,
        mixing=mixing,
        sampler=twins.get("sampler", component),
        n_warmup=500,
        n_draws=n_draws,
        thin=thin,
        random_state=seed,
    )
    model.fit(np.array(case.Z).reshape(len(case.Z), -1))
    where = f"{sampler}, {channel}, {d} feature(s), {name}"
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
