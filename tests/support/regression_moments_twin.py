"""Slow twin of the regression given the design: random-walk Metropolis in plain NumPy, which shares no line with it.

Where the package moves a point (L, ε, z, log q, log τ) in coordinates in which the bounds are [-1, 1], the state here
is what the model is stated in: X'X/n, X'y, the residual sum of squares, coefficients and σ on the original scale, and
n where it is unknown.  Its density is written out, each determinant of it:

    |X'X|^(-1/2) σ^-d exp(-|b - X'Xβ|²_{(X'X)⁻¹}/2σ²) · χ²_{n-d}(r/σ²)/σ² · prior(β) prior(σ) · noise(release | moments)

Many chains move at once.  Their steps have the covariance that they have themselves, which the first rounds learn.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import gammaln


class Problem(NamedTuple):
    """A release, what made it, and what was known before.  The bounds are those of y, and of every x."""

    n: int  # or what it is near, where ``count`` is given
    p: int
    bounds: tuple
    coef_scale: float
    shape: float  # of σ², which is inverse gamma
    scale: float
    noise: stats.rv_continuous  # centred
    releases: np.ndarray  # (n_releases, n_statistics)
    count: tuple | None = None  # (a noisy number of records, its noise)


class State(NamedTuple):
    """Of many chains: a row each."""

    gram: np.ndarray  # (W, p + p(p+1)/2): of X'X/n, means and then products, row by row
    cross: np.ndarray  # (W, d): X'y/n
    log_rss: np.ndarray  # (W, 1): log of the residual sum of squares
    coefs: np.ndarray  # (W, d): intercept and slopes, on the original scale
    log_sigma: np.ndarray  # (W, 1): on the original scale
    n: np.ndarray  # (W, 1)


class Twin:
    """The density, and its chains."""

    def __init__(self, problem):
        self.problem = problem
        (self.y_low, self.y_high), (self.x_low, self.x_high) = problem.bounds

    # --- the density --------------------------------------------------------------------------------------------------

    def design_power(self):
        """Of |X'X| in the density of X'y."""
        return -0.5

    def degrees(self, n):
        """Of freedom of the residuals."""
        return n - self.problem.p - 1

    def log_density(self, state):
        """(W,): -inf where impossible."""
        problem, p, d = self.problem, self.problem.p, self.problem.p + 1
        size, n = len(state.n), state.n[:, 0]
        G = np.ones((size, d, d))
        rows, columns = np.triu_indices(p)
        G[:, 0, 1:] = G[:, 1:, 0] = state.gram[:, :p]
        G[:, 1 + rows, 1 + columns] = G[:, 1 + columns, 1 + rows] = state.gram[:, p:]
        values, vectors = np.linalg.eigh(G)
        fine = (values[:, 0] > 0) & (self.degrees(n) > 0)
        for j in range(1, d):
            for k in range(j, d):
                for s in (1, -1):
                    for t in (1, -1):  # E (1 + s x_j)(1 + t x_k) >= 0
                        fine &= 1 + s * G[:, 0, j] + t * G[:, 0, k] + s * t * G[:, j, k] >= 0
        values, n = np.where(fine[:, None], values, 1.0), np.where(fine, n, 1.0)

        # coefficients and σ where the bounds are [-1, 1]
        half_y, half = (self.y_high - self.y_low) / 2, (self.x_high - self.x_low) / 2
        gamma = state.coefs * half / half_y
        at_centre = state.coefs[:, 0] + state.coefs[:, 1:].sum(axis=1) * (self.x_low + self.x_high) / 2
        gamma[:, 0] = (at_centre - (self.y_low + self.y_high) / 2) / half_y
        tau2 = np.exp(2 * state.log_sigma[:, 0]) / half_y**2

        def over_gram(v):
            """v' (X'X/n)⁻¹ v"""
            return np.sum(np.einsum("wab,wa->wb", vectors, v) ** 2 / values, axis=1)

        gap = state.cross - np.einsum("wab,wb->wa", G, gamma)
        log_det = np.log(n)[:, None] * d + np.log(values).sum(axis=1, keepdims=True)  # of X'X
        value = self.design_power() * log_det[:, 0] - 0.5 * d * np.log(tau2) - 0.5 * n * over_gram(gap) / tau2
        value += d * np.log(n)  # X'y = n cross: where n is unknown, its volume changes
        rss = np.exp(state.log_rss[:, 0])
        half_degrees = 0.5 * np.where(fine, self.degrees(n), 1.0)
        value += (half_degrees - 1) * np.log(rss / tau2) - 0.5 * rss / tau2 - half_degrees * np.log(2)
        value += -gammaln(half_degrees) - np.log(tau2) + state.log_rss[:, 0]  # the last: d rss = rss d log rss
        value -= 0.5 * np.sum(state.coefs**2, axis=1) / problem.coef_scale**2
        value += -2 * problem.shape * state.log_sigma[:, 0] - problem.scale * np.exp(-2 * state.log_sigma[:, 0])

        squares = n * over_gram(state.cross) + rss
        moments = np.column_stack([n[:, None] * state.cross, squares, n[:, None] * state.gram])
        for row in problem.releases:
            value += problem.noise.logpdf(row - moments).sum(axis=1)
        if problem.count is not None:
            value += problem.count[1].logpdf(problem.count[0] - n)
        return np.where(fine & np.isfinite(value), value, -np.inf)

    # --- chains -------------------------------------------------------------------------------------------------------

    def start(self, rng, size):
        """Anywhere possible: uniform predictors, roughly."""
        p, d = self.problem.p, self.problem.p + 1
        rows, columns = np.triu_indices(p)
        gram = np.column_stack([np.zeros((size, p)), np.tile(np.where(rows == columns, 1 / 3, 0.0), (size, 1))])
        gram += 0.05 * rng.uniform(-1, 1, gram.shape)
        one = np.ones((size, 1))
        normal = rng.standard_normal((size, 2 * d + 2))
        width = self.y_high - self.y_low
        log_sigma = np.log(0.2 * width) + 0.3 * normal[:, -1:]
        log_rss = np.log(0.1 * self.problem.n) + 0.3 * normal[:, -2:-1]
        return State(gram, 0.1 * normal[:, :d], log_rss, 0.3 * normal[:, d:-2], log_sigma, self.problem.n * one)

    def run(self, rng, n_chains, n_steps, thin):
        """Draws, (n_chains, n_steps // thin, n_quantities), after as many steps that learn how to step."""
        state = self.start(rng, n_chains)
        x = np.column_stack(state)
        ends = np.cumsum([part.shape[1] for part in state])[:-1]
        free = x.shape[1] - (self.problem.count is None)
        first = [0.02] * free
        if self.problem.count is not None:
            first[-1] = 2.0  # of n, a whole number: smaller steps are none
        current, factor = self.log_density(state), np.diag(first)
        kept = []
        for step in range(2 * n_steps):
            if step in range(n_steps // 8, n_steps + 1, n_steps // 8):
                factor = np.linalg.cholesky(np.cov(x[:, :free].T) + 1e-10 * np.eye(free))
            sizes = 1.2 / np.sqrt(free) * np.exp(0.7 * rng.standard_normal((n_chains, 1)))
            proposal = x.copy()
            proposal[:, :free] += sizes * (rng.standard_normal((n_chains, free)) @ factor.T)
            proposal[:, -1] = np.round(proposal[:, -1])
            new = self.log_density(State(*np.split(proposal, ends, axis=1)))
            accepts = rng.standard_exponential(n_chains) > current - new
            x[accepts], current[accepts] = proposal[accepts], new[accepts]
            if step >= n_steps and step % thin == 0:
                kept.append(self.quantities(State(*np.split(x, ends, axis=1))))
        return np.stack(kept, axis=1)

    def quantities(self, state):
        """Coefficients, log σ, mean and mean square of x_1 where its bounds are [-1, 1], and n where it is unknown."""
        p = self.problem.p
        known = self.problem.count is None
        parts = [state.coefs, state.log_sigma, state.gram[:, [0, p]], *([] if known else [state.n])]
        return np.concatenate(parts, axis=1)


class NoDeterminant(Twin):
    """The power of |X'X| forgotten."""

    def design_power(self):
        return 0.0


class TooManyDegrees(Twin):
    def degrees(self, n):
        return n
