"""Effective draws a second on channels of bins and other cells: exact draws against the paper's samplers (n = 250)."""

import time
import warnings

import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import BetaKernel, NormalKernel
from sklearn_dpmix.mechanisms import (
    BinomialMechanism,
    HaarWaveletMechanism,
    LaplaceMechanism,
    SmoothedHistogramMechanism,
)

from .efficiency import effective

N = 250
CHANNELS = {
    "Haar, exact calibration": HaarWaveletMechanism(50.0, 4),
    "Haar, paper's calibration": HaarWaveletMechanism(50.0, 4, calibration="butucea"),
    "smoothed histogram": SmoothedHistogramMechanism(50.0, 16, 28, n_records=N),
    "binomial, 23 trials": BinomialMechanism(50.0, 23),
}


def records():
    """Section 4.2: two beta components."""
    rng = np.random.default_rng(0)
    return np.where(rng.random(N) < 0.5, rng.beta(3, 10, N), rng.beta(10, 3, N))[:, None]


def fit(mechanism, kernel, sampler, Z, n_sweeps):
    """(seconds of this thread, fitted model), two chains, half of them dropped."""
    model = PrivateDPMixture(
        mechanism,
        kernel=kernel,
        sampler=sampler,
        n_chains=2,
        n_warmup=n_sweeps,
        n_draws=n_sweeps,
        n_jobs=1,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a sampler that does not mix is a result here
        started = time.thread_time()
        model.fit(Z)
    return time.thread_time() - started, model


def exact_against_paper(n_sweeps=10_000):
    """Rows (channel, sampler, µs a sweep, draws/s of clusters, of log f(0.5), their ratios to Neal 5)."""
    rows, reference = [], None
    for name, mechanism in CHANNELS.items():
        Z = mechanism.privatize(records(), random_state=1)
        for sampler in ("neal5", "slice", "conditional", "auto"):
            fit(mechanism, BetaKernel(), sampler, Z, 2)  # compiles
            seconds, model = fit(mechanism, BetaKernel(), sampler, Z, n_sweeps)
            log_density = np.log(model.density_draws([[0.5]])[..., 0])
            rates = effective(model.n_clusters_draws_, log_density) / (0.5 * seconds)
            reference = rates if sampler == "neal5" else reference
            rows.append((name, sampler, seconds / (4 * n_sweeps) * 1e6, *rates, *rates / reference))
    return rows


def beta_against_normal(n_sweeps=4000):
    """Rows (sampler, µs a sweep with the Beta kernel, with the normal one, ratio): Laplace noise, ε = 50."""
    mechanism, rows = LaplaceMechanism(50.0, bounds=(0, 1)), []
    Z = mechanism.privatize(records(), random_state=1)
    for sampler in ("neal5", "slice"):
        micros = []
        for kernel in (BetaKernel(), NormalKernel()):
            fit(mechanism, kernel, sampler, Z, 2)
            seconds = [fit(mechanism, kernel, sampler, Z, sweeps)[0] for sweeps in (n_sweeps, 3 * n_sweeps)]
            micros.append((seconds[1] - seconds[0]) / (8 * n_sweeps) * 1e6)  # without what a fit costs besides
        rows.append((sampler, *micros, micros[0] / micros[1]))
    return rows
