"""The square wave on Beta(5, 2), as in Li et al. (2020): our posterior mean against their EM, and EM with smoothing.

``python -m benchmarks.ldp [n_releases]`` prints a table: means over releases of the Wasserstein distance (the area
between the distribution functions), of Kolmogorov's (the largest gap), of the error of deciles, and of seconds; and how
often our 90 % intervals of the distribution function at the true deciles hold it.  Theirs have no intervals.
"""

import sys
import time
import warnings

import numpy as np
from scipy import stats

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.mechanisms import SquareWaveMechanism

TRUTH = stats.beta(5, 2)
N, EPSILON = 10_000, 1.0
N_BUCKETS = 1024  # theirs, of records and of releases
EDGES = np.linspace(0.0, 1.0, N_BUCKETS + 1)
DECILES = np.linspace(0.1, 0.9, 9)


def channel(epsilon):
    """(ends of the buckets of releases, probability of each given each bucket of records: its middle)."""
    b = SquareWaveMechanism(epsilon).half_width()
    q = 1.0 / (2.0 * b * np.exp(epsilon) + 1.0)
    ends, middles = np.linspace(-b, 1.0 + b, N_BUCKETS + 1), 0.5 * (EDGES[1:] + EDGES[:-1])
    near = np.minimum(ends[1:, None], middles + b) - np.maximum(ends[:-1, None], middles - b)
    return ends, q * np.diff(ends)[:, None] + q * np.expm1(epsilon) * np.clip(near, 0.0, None)


def expectation_maximisation(Z, epsilon, smooth):
    """Distribution function at ``EDGES``; stopped as theirs, where the log likelihood gains less than a tolerance."""
    ends, matrix = channel(epsilon)
    counts = np.histogram(Z, ends)[0]
    p, before, gain = np.full(N_BUCKETS, 1.0 / N_BUCKETS), -np.inf, np.inf
    while gain > (1e-3 if smooth else 1e-3 * np.exp(epsilon)):
        p = p * (matrix.T @ (counts / (matrix @ p)))
        if smooth:
            p = np.convolve(np.pad(p, 1, mode="edge"), [0.25, 0.5, 0.25], "valid")
        p /= p.sum()
        after = counts @ np.log(matrix @ p)
        before, gain = after, abs(after - before)
    return np.append(0.0, np.cumsum(p))


def posterior(mechanism, Z, seed, n_draws):
    """Draws of the distribution function at ``EDGES``; records beyond the bounds count as on them."""
    model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=n_draws // 2, n_draws=n_draws, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of few effective draws: what counts here is the error
        model.fit(Z)
    places = EDGES[::8]
    draws = model.cdf_draws(places[:, None])[:, ::10].reshape(-1, len(places))
    draws[:, 0], draws[:, -1] = 0.0, 1.0
    return np.array([np.interp(EDGES, places, one) for one in draws])


def errors(cdf):
    """Wasserstein, Kolmogorov, mean absolute error of deciles."""
    gap = np.abs(cdf - TRUTH.cdf(EDGES))
    deciles = np.interp(DECILES, cdf, EDGES)
    return np.trapezoid(gap, EDGES), gap.max(), np.mean(np.abs(deciles - TRUTH.ppf(DECILES)))


def compare(n_releases=10, n=N, epsilon=EPSILON, n_draws=6000):
    """Rows (method, three errors, CPU seconds, coverage), each a mean over releases with its standard error."""
    mechanism, found, covered = SquareWaveMechanism(epsilon), {}, []
    posterior(mechanism, np.full((n, 1), 0.5), 0, 2)  # compiles
    for seed in range(n_releases):
        Z = mechanism.privatize(TRUTH.rvs((n, 1), random_state=seed), random_state=1000 + seed)
        for name, smooth in (("EM", False), ("EM with smoothing", True)):
            started = time.process_time()
            cdf = expectation_maximisation(Z, epsilon, smooth)
            found.setdefault(name, []).append([*errors(cdf), time.process_time() - started])
        started = time.process_time()
        draws = posterior(mechanism, Z, seed, n_draws)
        seconds = time.process_time() - started
        found.setdefault("posterior mean", []).append([*errors(draws.mean(axis=0)), seconds])
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        at = np.searchsorted(EDGES, TRUTH.ppf(DECILES))
        covered.append(np.mean((low <= TRUTH.cdf(EDGES))[at] & (TRUTH.cdf(EDGES) <= high)[at]))
    for name, rows in found.items():
        yield name, np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(n_releases)
    yield "coverage", np.mean(covered), np.std(covered, ddof=1) / np.sqrt(n_releases)


def main():
    n_releases = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print("| method | Wasserstein | Kolmogorov | deciles | CPU s |\n|---|---|---|---|---|")
    for name, mean, error in compare(n_releases):
        if name == "coverage":
            print(f"\n90 % intervals of the posterior hold {100 * mean:.0f} % (standard error {100 * error:.0f} %).")
            continue
        cells = [f"{m:.4f} ± {e:.4f}" for m, e in zip(mean[:3], error[:3], strict=True)]
        print(f"| {name} | {' | '.join(cells)} | {mean[3]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
