"""Do default fits to a curator's sums mix?  ``python -m benchmarks.mixing_of_curators`` prints a table.

For each estimator and kind of noise, over all n from 50 to a million and ε from 0.1 to 10: the number of default fits,
how many of them have every R-hat at most 1.01 and 400 effective draws of everything, the worst R-hat, the fewest
effective draws (of 4000) and the most CPU seconds after compilation.
"""

import time
import warnings
from functools import partial
from itertools import product

import numpy as np

from sklearn_dpmix import PrivateExpFamilyGibbs, PrivateLinearRegressionDA, PrivateNaiveBayesDA
from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import Multinomial
from sklearn_dpmix.queries import ClassFeatureCounts, RegressionMoments, SufficientStatistics

R_HAT, ESS = 1.01, 400
SIZES, LOSSES = (50, 1000, 10_000, 1_000_000), (0.1, 1.0, 10.0)
NOISE = {
    "Laplace": LaplaceMechanism,
    "Gaussian": partial(GaussianMechanism, delta=1e-6),
    "discrete Laplace": DiscreteLaplaceMechanism,
}
SHARES = 0.4, 0.3, 0.15, 0.1, 0.04, 0.01
FAMILIES = {
    "normal": ("normal", (0, 100), lambda rng, n: rng.normal(40, 10, n)),
    "exponential": ("exponential", (0, 100), lambda rng, n: rng.exponential(20, n)),
    "gamma": ("gamma", (0, 100), lambda rng, n: rng.gamma(3, 8, n)),
    "beta": ("beta", (0.01, 0.99), lambda rng, n: rng.beta(2, 5, n)),
    "poisson": ("poisson", (0, 20), lambda rng, n: rng.poisson(3.0, n)),
    "binomial": ("binomial", None, lambda rng, n: rng.random(n) < 0.1),
    "multinomial, 6": (Multinomial(6), None, lambda rng, n: rng.choice(6, n, p=SHARES)),
}  # family, bounds, records


def family(name, rng, n):
    """(Query, records, estimator)."""
    kind, bounds, draw = FAMILIES[name]
    return SufficientStatistics(kind, bounds=bounds), draw(rng, n)[:, None], partial(PrivateExpFamilyGibbs, family=kind)


def regression(p, rng, n):
    """The same, of p uniform predictors, of which one matters."""
    X = rng.uniform(-1, 1, (n, p))
    y = 0.1 + 0.3 * X[:, 0] + rng.normal(0, 0.2, n)
    query = RegressionMoments(x_bounds=[(-1, 1)] * p, y_bounds=(-2, 2), n_features=p)
    return query, np.column_stack([X, y]), PrivateLinearRegressionDA


def naive_bayes(rng, n):
    """The same, of three classes and three features."""
    y = rng.integers(0, 3, n)
    X = np.column_stack([(y + rng.integers(0, 2, n)) % 3, rng.integers(0, 3, n), rng.integers(0, 2, n)])
    return ClassFeatureCounts(n_classes=3, n_values=[3, 3, 2]), np.column_stack([X, y]), PrivateNaiveBayesDA


PROBLEMS = (
    {name: partial(family, name) for name in FAMILIES}
    | {f"regression, {p} predictor{'s' * (p > 1)}": partial(regression, p) for p in (1, 3, 8)}
    | {"naive Bayes": naive_bayes}
)
OF_COUNTS = "poisson", "binomial", "multinomial, 6", "naive Bayes"


def measured(problem, noise, n, epsilon):
    """(Worst R-hat, fewest effective draws, seconds) of a default fit."""
    query, records, estimator = problem(np.random.default_rng(n), n)
    mechanism = noise(epsilon=epsilon, query=query)
    S = mechanism.privatize(records, random_state=1)
    estimator(mechanism, n_records=n, n_draws=4, n_warmup=4, random_state=0).fit(S)  # compiles
    started = time.process_time()
    model = estimator(mechanism, n_records=n, random_state=2).fit(S)
    return max(model.r_hat_.values()), min(model.ess_.values()), time.process_time() - started


def main():
    warnings.simplefilter("ignore")
    print("| model | noise | fits | mixed | worst R-hat | fewest effective draws | most seconds |\n" + "|---" * 7 + "|")
    for (name, problem), (kind, noise) in product(PROBLEMS.items(), NOISE.items()):
        if kind == "discrete Laplace" and name not in OF_COUNTS:  # for sums that are integers
            continue
        fits = np.array([measured(problem, noise, *cell) for cell in product(SIZES, LOSSES)])
        n_mixed = np.sum((fits[:, 0] < R_HAT + 0.0005) & (fits[:, 1] >= ESS))
        figures = f"{fits[:, 0].max():.3f} | {fits[:, 1].min():.0f} | {fits[:, 2].max():.1f}"
        print(f"| {name} | {kind} | {len(fits)} | {n_mixed} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
