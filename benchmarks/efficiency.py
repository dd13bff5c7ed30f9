"""Effective draws a second: ``auto`` against the compiled private Neal 5, on the paper's section 4.1 (n = 1000)."""

import numpy as np
from arviz_stats.base import array_stats

from sklearn_dpmix._posterior.mixture import MixtureDraws
from sklearn_dpmix.samplers import Auto, Conditional, Neal5, Neal8, Slice

from .speed import FusedChain, PackageChain


def effective(clusters, log_density):
    """Bulk effective sample sizes of both quantities over chains."""
    return np.array([array_stats.ess(np.asarray(v, float), chain_axis=0, draw_axis=1) for v in (clusters, log_density)])


def package(sampler, epsilon, n_sweeps, n_chains=4, n_warmup=2000, n=1000):
    """(effective draws a second of the number of clusters and of log f(0), microseconds a sweep)."""
    seconds, clusters, log_density = 0.0, [], []
    for seed in range(n_chains):
        chain = PackageChain(sampler, n, epsilon, seed=seed)
        chain.run(n_warmup, n_warmup)
        spent, draws = chain.run(n_sweeps, n_warmup)
        seconds += spent
        clusters.append(draws.n_clusters)
        log_density.append(np.log(MixtureDraws([draws]).density(chain.kernel, np.zeros((1, 1)))).ravel())
    return effective(clusters, log_density) / seconds, seconds / n_chains / n_sweeps * 1e6


def hand_fused(epsilon, n_sweeps, n_chains=4, n_warmup=2000):
    """The same for the hand-fused Neal 5."""
    seconds, clusters, log_density = 0.0, [], []
    for seed in range(n_chains):
        chain = FusedChain(1000, epsilon, seed=seed)
        chain.run(n_warmup)
        spent, (k, f) = chain.run(n_sweeps)
        seconds += spent
        clusters.append(k)
        log_density.append(f)
    return effective(clusters, log_density) / seconds, seconds / n_chains / n_sweeps * 1e6


def auto_against_neal5(n_sweeps=40_000, everything=False):
    """Rows (ε, sampler, µs a sweep, draws/s of clusters, of log f(0), their ratios to Neal 5, that of the smaller)."""
    others = {"slice": (Slice(), 10_000), "conditional": (Conditional(), 1000), "neal8": (Neal8(), 1000)}
    rows = []
    for epsilon in (2.0, 10.0, 50.0):
        reference, micros = package(Neal5(), epsilon, n_sweeps)
        rows.append((epsilon, "neal5", micros, *reference, 1.0, 1.0, 1.0))
        runs = {"hand-fused neal5": hand_fused(epsilon, n_sweeps), "auto": package(Auto(), epsilon, n_sweeps // 20)}
        if everything:
            runs |= {name: package(s, epsilon, sweeps, n_warmup=200) for name, (s, sweeps) in others.items()}
        for name, (rates, micros) in runs.items():
            ratios = rates / reference
            smaller = rates.min() / reference.min()
            rows.append((epsilon, name, micros, *rates, *ratios, smaller))
    return rows
