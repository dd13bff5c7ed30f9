"""Cases of n <= 4 records under binned, histogram, category and Laplace channels, and their exact posteriors."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

import grid_oracle as oracle
import numpy as np
from statistical import assert_mean_close, assert_pmf_close

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import BetaKernel, CategoricalKernel, NormalKernel, TruncatedNormalKernel
from sklearn_dpmix.mechanisms import (
    BinomialMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    LaplaceMechanism,
    PerturbedHistogramMechanism,
    PiecewiseMechanism,
    RandomizedResponseMechanism,
    SmoothedHistogramMechanism,
    SquareWaveMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess, PitmanYor
from sklearn_dpmix.samplers import Auto, MixingMeasure, Sources

N_DRAWS = 4_000  # of each of four chains
THIN = {"neal5": 6, "slice": 6, "conditional": 4, "neal8": 2, "interweaved": 3, "auto": 3}
PRIOR = (2.0, 0.2)  # of a and b: clusters of standard deviation 0.1 or so
NORMAL = {"mean": 0.4, "mean_precision": 0.3, "shape": 2.5, "scale": 0.1}  # for bounds (0, 1): a third is outside


class Case(NamedTuple):
    """What is fitted; ``exact(**changes)`` is its posterior, and a wrong one where a twin changes something."""

    mechanism: object
    kernel: object
    mixing: object
    Z: np.ndarray
    x: np.ndarray
    exact: Callable
    twins: dict


def points(bounds=(0.0, 1.0)):
    return bounds[0] + (bounds[1] - bounds[0]) * np.array([0.04, 0.27, 0.5, 0.71, 0.95])


def mixing_of(concentration, discount):
    return PitmanYor(concentration, discount) if discount else DirichletProcess(concentration)


def mixing_twins(alpha, discount):
    twins = {"another concentration": {"alpha": alpha + 2.0}}
    return {**twins, "another discount": {"discount": 0.5 * (discount + 1.0)}} if discount else twins


@cache
def beta_grid(prior, bounds=(0.0, 1.0), step=0.08):
    return oracle.BetaGrid(*prior, bounds, step)


@cache
def log_additive(noise, z, scale, prior, bounds):
    """Of a release with noise "laplace" or "gaussian"."""
    return getattr(beta_grid(prior, bounds, 0.12), f"log_{noise}")(z, scale)


def haar_beta(bins, resolution, epsilon, calibration="exact", bounds=(0.0, 1.0), prior=PRIOR, alpha=1.0, discount=0.0):
    """Releases near the coefficients of the given bins."""
    psi, x = oracle.haar_coefficients(resolution), points(bounds)
    Z = psi[list(bins)] + 0.4 * np.sin(np.arange(1, len(bins) * psi.shape[1] + 1)).reshape(len(bins), -1)

    def exact(Z=Z, psi=psi, epsilon=epsilon, calibration=calibration, prior=prior, alpha=alpha, discount=discount):
        grid = beta_grid(prior, bounds)
        log_g = oracle.binned_log_g(grid, oracle.log_haar(Z, psi, epsilon, calibration))
        return oracle.local_posterior(grid, log_g, x, alpha, discount)

    twins = {
        "half the epsilon": {"epsilon": epsilon / 2},
        "the other calibration": {"calibration": "butucea" if calibration == "exact" else "exact"},
        "coefficients from the finest to the coarsest": {"Z": Z[:, ::-1]},
        "negative on the first half": {"psi": -psi},
        **mixing_twins(alpha, discount),
        "another base measure": {"prior": (prior[0], 2 * prior[1])},
    }
    mechanism = HaarWaveletMechanism(epsilon, resolution, bounds=bounds, calibration=calibration)
    return Case(mechanism, BetaKernel(*prior), mixing_of(alpha, discount), Z, x, exact, twins)


def binomial_beta(Z, n_trials, epsilon, bounds=(0.0, 1.0), prior=PRIOR, alpha=1.0):
    Z, x = np.array(Z)[:, None], points(bounds)

    def exact(Z=Z, n_trials=n_trials, epsilon=epsilon, prior=prior, alpha=alpha):
        grid = beta_grid(prior, bounds)
        log_g = np.array([grid.log_binomial(z, epsilon, n_trials) for z in Z[:, 0]])
        return oracle.local_posterior(grid, log_g, x, alpha)

    twins = {
        "half the epsilon": {"epsilon": epsilon / 2},
        "epsilon for each trial": {"epsilon": epsilon * n_trials},
        "one trial more": {"n_trials": n_trials + 1},
        "failures counted": {"Z": n_trials - Z},
        **mixing_twins(alpha, 0.0),
        "another base measure": {"prior": (prior[0], 2 * prior[1])},
    }
    mechanism = BinomialMechanism(epsilon, n_trials, bounds=bounds)
    return Case(mechanism, BetaKernel(*prior), mixing_of(alpha, 0.0), Z, x, exact, twins)


class Truncated(oracle.NormalGrid):
    """Wrong: records outside the bounds are forgotten, not moved to the bound."""

    def edges(self, n_bins):
        return np.linspace(*self.bounds, n_bins + 1)


class HalfOpen(oracle.NormalGrid):
    """Wrong: the last interval of each level is half-open, so that a record on the upper bound is in none."""

    def edges(self, n_bins):
        return np.array([-np.inf, *np.linspace(*self.bounds, n_bins)[1:], np.inf])


def haar_normal(bins, resolution, epsilon, calibration="exact", bounds=(0.0, 1.0), alpha=1.0, discount=0.0):
    width = bounds[1] - bounds[0]
    hyper = {**NORMAL, "mean": bounds[0] + NORMAL["mean"] * width, "scale": NORMAL["scale"] * width**2}
    psi, x = oracle.haar_coefficients(resolution), points((bounds[0] - 0.3 * width, bounds[1] + 0.3 * width))
    Z = psi[list(bins)] + 0.4 * np.sin(np.arange(1, len(bins) * psi.shape[1] + 1)).reshape(len(bins), -1)

    def exact(psi=psi, epsilon=epsilon, alpha=alpha, discount=discount, kind=oracle.NormalGrid):
        grid = kind(**hyper, bounds=bounds)
        log_g = oracle.binned_log_g(grid, oracle.log_haar(Z, psi, epsilon, calibration))
        return oracle.local_posterior(grid, log_g, x, alpha, discount)

    twins = {
        "half the epsilon": {"epsilon": epsilon / 2},
        **mixing_twins(alpha, discount),
        "truncated, not clamped": {"kind": Truncated},
        "a record on the upper bound has no coefficients": {"kind": HalfOpen, "psi": np.vstack([psi, 0 * psi[0]])},
    }
    mechanism = HaarWaveletMechanism(epsilon, resolution, bounds=bounds, calibration=calibration)
    return Case(mechanism, NormalKernel(**hyper), mixing_of(alpha, discount), Z, x, exact, twins)


def without_bin_width(z, counts, epsilon, bounds=(0.0, 1.0)):
    """The density of a smoothed histogram as the paper's (12) prints it."""
    n, m = counts.sum(), len(counts)
    delta = m / (m + n * np.expm1(epsilon / len(z)))
    unit = (np.asarray(z) - bounds[0]) / (bounds[1] - bounds[0])
    return np.log((1 - delta) * counts[(unit * m).astype(int)] / n + delta)


def histogram(mechanism, log_density, z, n, n_bins, epsilon, bounds, prior, alpha, discount, twins):
    x = points(bounds)

    def exact(epsilon=epsilon, alpha=alpha, discount=discount, log_density=log_density, again=()):
        def log_q(bins):
            counts = np.bincount([*bins, *(bins[i] for i in again)], minlength=n_bins)
            return log_density(z, counts, epsilon).sum()

        return oracle.histogram_posterior(beta_grid(prior, bounds), log_q, n, n_bins, x, alpha, discount)

    twins = {
        "half the epsilon": {"epsilon": epsilon / 2},
        **mixing_twins(alpha, discount),
        "two records counted twice": {"again": (0, 1)},
        **twins,
    }
    return Case(mechanism, BetaKernel(*prior), mixing_of(alpha, discount), np.array(z), x, exact, twins)


def smoothed(z, n, n_bins, epsilon, bounds=(0.0, 1.0), prior=PRIOR, alpha=1.0, discount=0.0):
    def log_density(z, counts, epsilon):
        return oracle.log_smoothed_histogram(z, counts, epsilon, bounds)

    twins = {
        "no bin width": {"log_density": lambda *args: without_bin_width(*args, bounds)},
        "epsilon for each draw": {"epsilon": epsilon * len(z)},
    }
    mechanism = SmoothedHistogramMechanism(epsilon, n_bins, len(z), n_records=n, bounds=bounds)
    return histogram(mechanism, log_density, z, n, n_bins, epsilon, bounds, prior, alpha, discount, twins)


def perturbed(z, n, epsilon, noise, bounds=(0.0, 1.0), prior=PRIOR, alpha=1.0, discount=0.0):
    def log_density(z, counts, epsilon):
        return oracle.log_perturbed_histogram(z, counts, epsilon, noise)

    twins = {
        "sensitivity 1": {"epsilon": 2 * epsilon},
        "bins from the upper bound down": {"log_density": lambda z, *args: log_density(z[::-1], *args)},
    }
    mechanism = PerturbedHistogramMechanism(epsilon, len(z), n_records=n, bounds=bounds, noise=noise)
    return histogram(mechanism, log_density, z, n, len(z), epsilon, bounds, prior, alpha, discount, twins)


def lie_may_be_true(Z, epsilon, n_categories):
    """Randomised response whose lie is any category, the true one included."""
    e = np.exp(np.broadcast_to(epsilon, len(Z))[:, None, None] / Z.shape[1])
    keep = e / (e + n_categories - 1)
    return np.log(keep * (Z[..., None] == np.arange(n_categories)) + (1 - keep) / n_categories)


def categories(Z, epsilon, n_categories, base, alpha=1.0, discount=0.0):
    """``epsilon=None``: no noise."""
    Z = np.array(Z, dtype=float).reshape(len(Z), -1)
    d = Z.shape[1]
    x = np.array(list(product(range(n_categories), repeat=d)))[:: 1 if d == 1 else 2]

    def exact(epsilon=epsilon, base=base, alpha=alpha, discount=discount, channel=oracle.log_randomized_response):
        return oracle.categorical_posterior(channel(Z, epsilon, n_categories), base, x, alpha, discount)

    twins = {"another base measure": {"base": 4 * base}, **mixing_twins(alpha, discount)}
    if epsilon is not None:
        twins["half the epsilon"] = {"epsilon": np.asarray(epsilon) / 2}
        twins["a lie may be true"] = {"channel": lie_may_be_true}
    if np.ndim(epsilon):
        twins["the epsilon of another record"] = {"epsilon": np.roll(epsilon, 1)}
    if epsilon is not None and d > 1:
        twins["epsilon for each feature"] = {"epsilon": np.asarray(epsilon) * d}
    mechanism = None if epsilon is None else RandomizedResponseMechanism(epsilon, n_categories)
    kernel = CategoricalKernel(n_categories, base)
    return Case(mechanism, kernel, mixing_of(alpha, discount), Z, x, exact, twins)


def additive(Z, epsilon, bounds=(0.0, 1.0), prior=PRIOR, alpha=1.0, discount=0.0, noise="laplace"):
    """Noise whose scale is that of Laplace noise with this ε."""
    Z, x = np.array(Z)[:, None], points(bounds)

    def exact(epsilon=epsilon, alpha=alpha, discount=discount, prior=prior, noise=noise):
        scale = (bounds[1] - bounds[0]) / epsilon
        log_g = np.array([log_additive(noise, z, scale, prior, bounds) for z in Z[:, 0]])
        return oracle.local_posterior(beta_grid(prior, bounds, 0.12), log_g, x, alpha, discount)

    twins = {
        "half the epsilon": {"epsilon": epsilon / 2},
        **mixing_twins(alpha, discount),
        "another base measure": {"prior": (prior[0], 2 * prior[1])},
        "twice the epsilon": {"epsilon": 2 * epsilon},
    }
    mechanism = ADDITIVE[noise](scale=(bounds[1] - bounds[0]) / epsilon, bounds=bounds)
    return Case(mechanism, BetaKernel(*prior), mixing_of(alpha, discount), Z, x, exact, twins)


ADDITIVE = {"laplace": LaplaceMechanism, "gaussian": GaussianMechanism}


def truncated(Z, epsilon, bounds=(0.0, 1.0), alpha=1.0, noise="laplace"):
    """``epsilon=None``: no noise."""
    Z, x = np.array(Z)[:, None], points(bounds)
    scale = None if epsilon is None else (bounds[1] - bounds[0]) / epsilon

    def exact(kind=oracle.TruncatedNormalGrid, alpha=alpha, scale=scale):
        grid = kind(**NORMAL, bounds=bounds)
        log_g = [grid.log_density(z) if scale is None else log_truncated(grid, z, scale, noise) for z in Z[:, 0]]
        return oracle.local_posterior(grid, np.array(log_g), x, alpha)

    twins = {"not truncated": {"kind": oracle.NormalGrid}, **mixing_twins(alpha, 0.0)}
    if epsilon is not None:
        twins["half the epsilon"] = {"scale": 2 * scale}
    mechanism = None if epsilon is None else ADDITIVE[noise](scale=scale, bounds=bounds)
    kernel = TruncatedNormalKernel(**NORMAL, bounds=bounds)
    return Case(mechanism, kernel, mixing_of(alpha, 0.0), Z, x, exact, twins)


def log_truncated(grid, z, scale, noise):
    """Of the twin too, whose records may be anywhere: the noise is then of a normal record."""
    return getattr(oracle.TruncatedNormalGrid, f"log_{noise}")(grid, z, scale)


def binomial_normal(Z, n_trials, epsilon, bounds=(0.0, 1.0), alpha=1.0):
    """A kernel without a closed form; records outside the bounds are moved to them."""
    Z, x = np.array(Z)[:, None], points((bounds[0] - 0.3, bounds[1] + 0.3))

    def exact(n_trials=n_trials, epsilon=epsilon, alpha=alpha, kind=oracle.NormalGrid):
        grid = kind(**NORMAL, bounds=bounds)
        log_g = np.array([grid.log_binomial(z, epsilon, n_trials) for z in Z[:, 0]])
        return oracle.local_posterior(grid, log_g, x, alpha)

    twins = {
        "half the epsilon": {"epsilon": epsilon / 2},
        **mixing_twins(alpha, 0.0),
        "truncated, not clamped": {"kind": oracle.TruncatedNormalGrid},
    }
    mechanism = BinomialMechanism(epsilon, n_trials, bounds=bounds)
    return Case(mechanism, NormalKernel(**NORMAL), mixing_of(alpha, 0.0), Z, x, exact, twins)


def without_noise(Z, bounds=(0.0, 1.0), prior=PRIOR, alpha=1.0, discount=0.0):
    Z, x = np.array(Z)[:, None], points(bounds)

    def exact(alpha=alpha, discount=discount, prior=prior):
        grid = beta_grid(prior, bounds)
        return oracle.local_posterior(grid, np.array([grid.log_density(y) for y in Z[:, 0]]), x, alpha, discount)

    twins = {
        **mixing_twins(alpha, discount),
        "another base measure": {"prior": (prior[0], 2 * prior[1])},
    }
    return Case(None, BetaKernel(*prior, bounds=bounds), mixing_of(alpha, discount), Z, x, exact, twins)


FAMILIES = {
    "haar-beta": {
        "four": haar_beta((1, 1, 5, 7), 2, 9.0),
        "three, calibration of Butucea": haar_beta((0, 3, 3), 1, 200.0, "butucea", alpha=0.6),
        "two, on other bounds": haar_beta((2, 1), 1, 10.0, bounds=(-1.0, 3.0), prior=(3.0, 1.0), alpha=2.0),
        "one": haar_beta((1,), 0, 8.0, alpha=0.5),
    },
    "binomial-beta": {
        "four": binomial_beta((0, 1, 1, 6), 6, 12.0),
        "two, on other bounds": binomial_beta((0, 3), 4, 10.0, (-1.0, 3.0), (3.0, 1.0), 2.0),
    },
    "binomial-normal": {"three": binomial_normal((0, 1, 8), 8, 16.0)},
    "haar-normal": {
        "four": haar_normal((0, 2, 7, 7), 2, 9.0),
        "three, other bounds, calibration of Butucea": haar_normal((3, 0, 3), 1, 200.0, "butucea", (-1.0, 3.0)),
        "one": haar_normal((1,), 0, 8.0, alpha=0.5),
    },
    "smoothed-beta": {
        "three": smoothed((0.07, 0.11, 0.2, 0.55, 0.81, 0.97), 3, 4, 12.0),
        "two, on other bounds": smoothed((-0.8, 0.1, 2.2, 2.9), 2, 3, 10.0, (-1.0, 3.0), (3.0, 1.0), 2.0),
        "three, of which little is said": smoothed((0.07, 0.11, 0.2, 0.55, 0.81, 0.97), 3, 4, 1.5),
    },
    "few-draws-beta": {
        "four": smoothed((0.11, 0.12, 0.81), 4, 3, 6.0),
        "four, of which hardly anything is said": smoothed((0.11, 0.9), 4, 3, 0.5, alpha=0.6),
        "two, on other bounds": smoothed((-0.8, 2.9), 2, 3, 5.0, (-1.0, 3.0), (3.0, 1.0), 2.0),
    },
    "perturbed-beta": {
        "three": perturbed((2.3, -0.4, 0.1, 0.8), 3, 4.0, "laplace"),
        "three, integers": perturbed((0, 2, 2, -1), 3, 3.0, "discrete_laplace", alpha=0.6),
        "two, on other bounds": perturbed((0.4, 0.3, 1.6), 2, 5.0, "laplace", (-1.0, 3.0), (3.0, 1.0), 2.0),
    },
    "categories": {
        "four": categories((0, 0, 2, 0), 1.6, 3, 0.3),
        "three, own epsilon each": categories((1, 3, 1), np.array([4.0, 2.0, 1.0]), 4, 0.5, alpha=2.0),
        "one": categories((1,), 2.0, 2, 0.7, alpha=0.5),
    },
    "two-categories": {
        "four": categories(((0, 1), (0, 1), (0, 1), (1, 0)), 3.0, 3, 0.4),
        "two, own epsilon each": categories(((0, 1), (1, 1)), np.array([6.0, 3.0]), 2, 0.5, alpha=2.0),
    },
    "answers": {  # of one epsilon for all records
        "four": categories((0, 0, 2, 0), 1.6, 3, 0.3),
        "three, a flat base measure": categories((1, 3, 1), 3.0, 4, 1.0, alpha=2.0),
        "one": categories((1,), 2.0, 2, 0.7, alpha=0.5),
        "four pairs": categories(((0, 1), (0, 1), (0, 1), (1, 0)), 3.0, 3, 0.4),
    },
    "laplace-beta": {
        "four, two outside the bounds": additive((-0.3, 0.1, 0.5, 1.2), 4.0),
        "three": additive((0.15, 0.22, 0.9), 8.0, prior=(3.0, 1.0), alpha=0.6),
        "two, on other bounds": additive((-0.5, 2.6), 10.0, (-1.0, 3.0), alpha=2.0),
    },
    "gaussian-beta": {
        "four, two outside the bounds": additive((-0.3, 0.1, 0.5, 1.2), 4.0, noise="gaussian"),
        "two, on other bounds": additive((-0.5, 2.6), 10.0, (-1.0, 3.0), alpha=2.0, noise="gaussian"),
    },
    "laplace-truncated": {
        "three": truncated((-0.1, 0.2, 0.8), 6.0),
        "two": truncated((0.1, 0.15), 3.0, alpha=2.0),
    },
    "gaussian-truncated": {
        "three": truncated((-0.1, 0.2, 0.8), 6.0, noise="gaussian"),
        "two": truncated((0.1, 0.15), 3.0, alpha=2.0, noise="gaussian"),
    },
    "truncated": {"four": truncated((0.02, 0.1, 0.4, 0.97), None), "one": truncated((0.9,), None, alpha=0.5)},
    "beta": {
        "four": without_noise((0.1, 0.14, 0.6, 0.93)),
        "three, on other bounds": without_noise((-0.4, 0.9, 2.7), (-1.0, 3.0), (3.0, 1.0), 2.0),
        "one": without_noise((0.2,), alpha=0.5),
    },
    "noise-free categories": {
        "four": categories((0, 0, 2, 0), None, 3, 0.4),
        "three pairs": categories(((0, 1), (0, 1), (2, 0)), None, 3, 0.5, alpha=2.0),
    },
    "haar-beta, Pitman-Yor": {"three": haar_beta((1, 1, 7), 2, 9.0, alpha=-0.1, discount=0.3)},
    "few-draws-beta, Pitman-Yor": {"four": smoothed((0.11, 0.12, 0.81), 4, 3, 6.0, alpha=-0.1, discount=0.3)},
    "categories, Pitman-Yor": {"three": categories((0, 0, 0), 1.6, 3, 0.3, discount=0.5)},
}


SAMPLERS = {"sources": Sources(), "mixing_measure": MixingMeasure(n_moves=30)}


@cache
def exact(family, name):
    return FAMILIES[family][name].exact()


def length(case, sampler):
    """(Draws, sweeps a draw): few sweeps of the moves that a default walk makes, after which little is left of a draw.

    Twice as many draws of smoothed histograms by ``cells``, where what a twin changes is small.
    """
    if sampler == "auto":
        chosen = Auto().resolve(case.mechanism, case.kernel, case.mixing).sized(*case.Z.reshape(len(case.Z), -1).shape)
        return (2_500, 1) if isinstance(chosen, MixingMeasure) else (N_DRAWS, THIN[sampler])
    windows = isinstance(case.mechanism, PiecewiseMechanism | SquareWaveMechanism)
    if sampler == "mixing_measure":
        return N_DRAWS, 3 if windows or isinstance(case.kernel, CategoricalKernel) else 1
    times = {"conditional": 1, "interweaved": 4}.get(sampler, 8) if windows else 1  # few proposals are taken
    is_twice = sampler == "cells" and isinstance(case.mechanism, SmoothedHistogramMechanism)
    return N_DRAWS * (1 + is_twice), times * THIN.get(sampler, 1)


def fit(case, sampler, seed):
    n_draws, thin = length(case, sampler)
    model = PrivateDPMixture(
        case.mechanism,
        kernel=case.kernel,
        mixing=case.mixing,
        sampler=SAMPLERS.get(sampler, sampler),
        n_chains=4,
        n_warmup=500,
        n_draws=n_draws,
        thin=thin,
        random_state=seed,
    )
    model.fit(case.Z)
    return model.n_clusters_draws_, model.density_draws(np.array(case.x, dtype=float).reshape(len(case.x), -1))


def compare(n_clusters, densities, truth, where):
    """The check of this file; one record has one cluster for sure."""
    if len(truth.n_clusters_pmf) > 2:
        assert_pmf_close(n_clusters, truth.n_clusters_pmf, what=f"{where}: number of clusters")
    assert_mean_close(densities, truth.predictive, what=f"{where}: predictive density")
