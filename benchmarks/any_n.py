"""Effective draws a second of default chains for any number of records, and against the hand-fused Neal 5.

What counts is the weakest of log f at four points, mean, log variance and the number of clusters; of Neal 5 the weaker
of the number of clusters and log f(0).  Data: section 4.1 of Beraha et al., records clamped, as they are by default.
"""

import time
import warnings

import numpy as np
from arviz_stats.base import array_stats

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism

from .efficiency import hand_fused

COUNTS = """For the default chains: the weakest among log f at four points, the mean, the log variance and the number of
clusters, and the median of three seeds.  For Neal 5: the weaker of the number of clusters and log f(0).

"""
POINTS = np.array([[-5.0], [-2.0], [0.0], [6.0]])
N_DRAWS = 1500
SEEDS = 0, 1, 2  # where a fit doubles the work behind its draws it has a third of the draws for its time, by chance


def weakest(model):
    """Smallest bulk effective sample size over what counts."""
    mean, log_variance = (np.asarray(part)[..., 0] for part in model.moment_draws())
    density = np.log(model.density_draws(POINTS))
    values = [model.n_clusters_draws_.astype(float), mean, np.log(log_variance), *np.moveaxis(density, -1, 0)]
    return min(float(array_stats.ess(value, chain_axis=0, draw_axis=1)) for value in values)


def fit(mechanism, Z, n_draws, seed):
    """(Seconds of the processor, fitted model); the chains go on where a first, compiled fit of few draws ends."""
    model = PrivateDPMixture(mechanism, n_draws=10, warm_start=True, random_state=seed, n_jobs=1).fit(Z)
    started = time.process_time()
    model.set_params(n_draws=10 + n_draws).fit(Z)
    return time.process_time() - started, model


def rate(mechanism, n_records):
    """(Effective draws a second beyond warm-up and summary, worst R-hat, seconds of a whole fit): medians of seeds."""
    warnings.simplefilter("ignore")  # of chains of ten draws
    records, _ = make_three_normals(n_records, random_state=0)
    Z = mechanism.privatize(records, random_state=1)
    return np.median([rate_of_seed(mechanism, Z, seed) for seed in SEEDS], axis=0)


def rate_of_seed(mechanism, Z, seed):
    seconds = [fit(mechanism, Z, n_draws, seed)[0] for n_draws in (N_DRAWS // 10, N_DRAWS)]
    model = PrivateDPMixture(mechanism, n_draws=N_DRAWS, random_state=seed, n_jobs=1)
    started = time.process_time()
    model.fit(Z)
    whole = time.process_time() - started
    a_draw = (seconds[1] - seconds[0]) / (N_DRAWS - N_DRAWS // 10)
    return weakest(model) / (a_draw * N_DRAWS), max(model.r_hat_.values()), whole


def against_hand_fused(n_sweeps=40_000):
    """Rows (ε, hand-fused Neal 5, default chains, ratio), effective draws a second at n = 1000."""
    rows = []
    for epsilon in (2.0, 10.0, 50.0):
        theirs = float(hand_fused(epsilon, n_sweeps)[0].min())
        ours = rate(LaplaceMechanism(epsilon=epsilon, bounds=(-10, 10)), 1000)[0]
        rows.append((epsilon, theirs, ours, ours / theirs))
    return rows


def growth(numbers=(1000, 10_000, 100_000, 1_000_000, 10_000_000)):
    """Rows (noise, n, draws a second, share of those at the first n, worst R-hat, seconds of a whole fit)."""
    rows = []
    for name, mechanism in (
        ("Laplace, ε = 10", LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))),
        ("Gaussian, ε = 10", GaussianMechanism(epsilon=10.0, delta=1e-5, bounds=(-10, 10))),
    ):
        first = None
        for n_records in numbers:
            draws, r_hat, seconds = rate(mechanism, n_records)
            first = first or draws
            rows.append((name, n_records, draws, draws / first, r_hat, seconds))
            print(rows[-1], flush=True)
    return rows
