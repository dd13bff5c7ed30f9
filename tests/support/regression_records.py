"""Records of a linear regression, the query that releases them, and a fit of a moment."""

import numpy as np

from sklearn_dpmix.queries import RegressionMoments

SHORT = {"n_chains": 2, "n_warmup": 60, "n_draws": 40, "random_state": 0}
POPULATIONS = {
    "uniform": lambda rng, n: rng.random(n),
    "exponential": lambda rng, n: np.clip(rng.exponential(0.2, n), 0, 1),
    "binary": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "three values": lambda rng, n: rng.choice([0.1, 0.2, 0.9], n),
}
BOUNDS = ((-1.0, 3.0), (-2.0, 1.0))  # of y, of each x


def query(p):
    return RegressionMoments([BOUNDS[1]] * p, BOUNDS[0], p)


def population(rng, n, p=2):
    x = rng.uniform(-2, 1, (n, p))
    return x, 1.0 + x @ np.array([0.6, -0.3])[:p] + 0.2 * rng.standard_normal(n)
