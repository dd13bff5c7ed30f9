"""A user's own model, in NumPy, as long runs and their files need it."""

import numpy as np


class Coin:
    """A user's own model: Bernoulli records with a uniform prior."""

    n_params = 1

    def sample_prior(self, rng, size):
        return rng.random((size, 1))

    def sample_records(self, rng, theta, n):
        return rng.binomial(1, theta[0], (n, 1)).astype(float)

    def sample_posterior(self, rng, records, theta):
        n_heads = np.count_nonzero(records > 0.5)
        return rng.beta(1.0 + n_heads, 1.0 + len(records) - n_heads, 1)

    def sample_statistic(self, rng, theta):
        return rng.binomial(20, theta).astype(float)

    def log_prior(self, theta):
        return np.where((theta[:, 0] > 0) & (theta[:, 0] < 1), 0.0, -np.inf)
