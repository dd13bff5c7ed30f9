"""Exact ABC: simulations a second, and how many of them an effective draw takes."""

import time
import warnings

import numpy as np
from scipy import stats

from sklearn_dpmix import PrivateABC
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import GammaPrior, PoissonCount

N_RUNS = 40


def rejection():
    """(million simulations a second of Example 4, of a bare NumPy loop, their ratio); one thread."""
    mechanism, model = LaplaceMechanism(scale=5.0), PoissonCount(prior=GammaPrior(25.0, 1.0))
    estimator = PrivateABC(mechanism, model=model, n_draws=500_000, random_state=0)
    estimator.fit([37.4])
    started = time.thread_time()
    estimator.fit([37.4])
    ours = estimator.n_simulations_ / (time.thread_time() - started) / 1e6
    rng, size, n = np.random.default_rng(0), 16384, 200
    started = time.thread_time()
    for _ in range(n):
        theta = rng.gamma(25.0, 1.0, size)
        s = rng.poisson(theta)
        theta[rng.standard_exponential(size) >= np.abs(37.4 - s) / 5.0]
    bare = n * size / (time.thread_time() - started) / 1e6
    return ours, bare, ours / bare


class NormalMeans:
    """Means of d features, each known to a standard error; vague prior."""

    def __init__(self, d, error, prior_sd):
        self.d, self.error, self.prior_sd = d, error, prior_sd

    def sample_prior(self, rng, size):
        return rng.normal(0.0, self.prior_sd, (size, self.d))

    def log_prior(self, theta):
        return stats.norm.logpdf(theta, 0.0, self.prior_sd).sum(axis=1)

    def sample_statistic(self, rng, theta):
        return rng.normal(theta, self.error)


def sequential():
    """Rows (setting, rejection's acceptance, simulations, effective draws, times fewer simulations than rejection).

    Effective draws of the first parameter, from the error of its posterior mean over runs of ``n_draws=1000``.
    """
    rows = []
    for d, error, noise in ((2, 0.1, 0.3), (2, 0.3, 0.2), (5, 0.3, 0.2)):
        variance, prior = error**2 + noise**2, 6.0**2
        posterior = 1.0 / (1.0 / variance + 1.0 / prior)
        log_evidence = d * stats.norm.logpdf(3.0, 0.0, np.sqrt(prior + variance))
        acceptance = np.exp(log_evidence - d * stats.norm.logpdf(0.0, 0.0, noise))
        name = f"{d} means, standard error {error:g}, noise {noise:g}"
        run = GaussianMechanism(scale=noise), NormalMeans(d, error, 6.0), np.full(d, 3.0)
        rows.append(row(name, *run, 3.0 * posterior / variance, posterior, acceptance))
    s, scale, rate = np.arange(1200), 0.5, 0.0005
    log_p = np.log(rate) - (s + 1.0) * np.log1p(rate) - np.abs(300.2 - s) / scale
    acceptance = np.exp(log_p).sum()
    mean, weight = (s + 1.0) / (1.0 + rate), np.exp(log_p) / acceptance
    posterior = weight @ (mean / (1.0 + rate) + mean**2) - (weight @ mean) ** 2
    run = LaplaceMechanism(scale=scale), PoissonCount(prior=GammaPrior(1.0, rate)), [300.2]
    rows.append(row("a count of 300, noise 0.5", *run, weight @ mean, posterior, acceptance))
    return rows


def row(name, mechanism, model, S, mean, variance, acceptance):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        runs = [
            PrivateABC(mechanism, model=model, method="smc", n_draws=1000, random_state=seed).fit(S)
            for seed in range(N_RUNS)
        ]
    error = np.mean([(run.theta_draws_[:, 0].mean() - mean) ** 2 for run in runs])
    spent, effective = np.mean([run.n_simulations_ for run in runs]), variance / error
    return name, acceptance, spent, effective, effective / acceptance / spent
