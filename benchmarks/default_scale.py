"""How wide should clusters be by default?  ``python -m benchmarks.default_scale`` prints the table of docs/coverage.md.

``NormalKernel`` without numbers is fitted with the scale of its inverse gamma prior times a factor, to releases of ten
populations under Laplace noise, bounds (0, 100): 500 and 5000 records, ε = 2, 5 and 20, six releases each.  A cell has
the Wasserstein distance of the posterior mean from the population, and how often 90 % intervals of the distribution
function hold it at the population's quantiles of 0.1, 0.25, 0.5, 0.75 and 0.9.
"""

import argparse
import warnings

import numpy as np

from benchmarks.mixing import POPULATIONS
from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import LaplaceMechanism

FACTORS = 0.15, 0.4, 1.0, 2.0, 4.0, 11.0
SIZES, EPSILONS, N_RELEASES = (500, 5000), (2.0, 5.0, 20.0), 6
LEVELS = 0.1, 0.25, 0.5, 0.75, 0.9
OTHERS = {
    "one normal": lambda rng, n: rng.normal(40, 10, n),
    "one narrow normal, sd 1": lambda rng, n: rng.normal(40, 1, n),
    "exponential": lambda rng, n: rng.exponential(12, n),
    "a narrow and a wide normal": lambda rng, n: np.where(
        rng.random(n) < 0.4, rng.normal(30, 1, n), rng.normal(60, 12, n)
    ),
}


def scaled(mechanism, Z, factor):
    """The default kernel for a release, with its scale times a factor."""
    default = NormalKernel().resolve(Release(Z, mechanism))
    return NormalKernel(mean=default.mean, scale=factor * default.scale)


def measured(draw, n, epsilon, factor):
    """(Wasserstein distance, coverage), means over releases."""
    mechanism, places = LaplaceMechanism(epsilon, bounds=(0, 100)), np.linspace(0, 100, 201)[1:-1]
    population = np.sort(draw(np.random.default_rng(99), 400_000).clip(0, 100))
    truth = np.searchsorted(population, places, side="right") / len(population)
    chosen, found = [np.argmin(abs(truth - level)) for level in LEVELS], []
    for seed in range(N_RELEASES):
        records = draw(np.random.default_rng(seed), n).clip(0, 100)[:, None]
        Z = mechanism.privatize(records, random_state=seed + 50)
        kernel = scaled(mechanism, Z, factor)
        model = PrivateDPMixture(mechanism, kernel=kernel, n_warmup=250, n_draws=250, random_state=0).fit(Z)
        draws = model.cdf_draws(places[:, None]).reshape(-1, len(places))
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        distance = 100.0 * np.abs(draws.mean(axis=0) - truth).mean()
        found.append((distance, np.mean(((low <= truth) & (truth <= high))[chosen])))
    return np.mean(found, axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--factors", type=float, nargs="*", default=FACTORS)
    factors = parser.parse_args().factors
    warnings.simplefilter("ignore")
    print("| population | " + " | ".join(f"× {factor:g}" for factor in factors) + " |")
    print("|---" * (len(factors) + 1) + "|")
    for name, draw in (POPULATIONS | OTHERS).items():
        cells = [
            np.mean([measured(draw, n, epsilon, factor) for n in SIZES for epsilon in EPSILONS], axis=0)
            for factor in factors
        ]
        texts = [f"{distance:.2f}, {cover:.2f}" for distance, cover in cells]
        print(f"| {name} | " + " | ".join(texts) + " |", flush=True)


if __name__ == "__main__":
    main()
