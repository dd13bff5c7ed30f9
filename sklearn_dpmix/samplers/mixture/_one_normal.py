"""One normal population under Gaussian noise or without noise: mean and covariance of the release are sufficient.

With T = Σ + η²I the release has mean z̄ ~ N(μ, T/n) and, independent of it, scatter S ~ Wishart(n - 1, T).  Under the
base measure of ``MultivariateNormalKernel``, N(μ | m, Σ/λ) · IW(Σ | ν, Ψ), the mean integrates out,

    z̄ | Σ ~ N(m, C),  C = Σ/λ + T/n,

which leaves a posterior of L, Σ = L L', in d(d + 1)/2 numbers.  A sweep makes Hamiltonian paths in (log L_ii, L_ij), in
the metric of the curvature at the mode; then it draws μ given Σ, which is normal.  A sweep costs the same for any n.
"""

from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..._base.compiled import compiled, entry, helper, lower
from ..._base.linear import factor, multiply_lower, multiply_upper, solve_lower, solve_upper
from ..._base.restore import require_finite, require_range, require_sweeps, same_layout
from .._driver import n_kept, run_chain
from ._run import Draws
from ._sampler import MixtureSampler, check_concentration

N_SWEEPS, N_TUNED = range(2)  # ints
LOG_STEP = 0  # floats
N_PATHS, N_STEPS = 2, 5  # paths in a sweep, most steps of one
TARGET = 0.8  # acceptance rate that the step is tuned to
N_VECTORS = 6
POINT, PROPOSAL, MOMENTUM, FORCE, FIRST, SECOND = range(N_VECTORS)
N_MATRICES = 4
ROOT, OF_TOTAL, OF_MEAN, SLOPE = range(N_MATRICES)
CHUNK = 2**18  # records looked at together


class Moments(NamedTuple):
    """What the chains see of a release, and where and how they move."""

    mean: np.ndarray  # (d,)
    scatter: np.ndarray  # (d, d): Σ (z - z̄)(z - z̄)'
    law: np.ndarray  # (2,): number of records, variance of the noise
    centre: np.ndarray  # (d(d + 1)/2,): the mode
    metric: np.ndarray  # lower factor of the covariance there


class NormalState(NamedTuple):
    """All of a chain except its random generator."""

    point: np.ndarray  # (d(d + 1)/2,), in the metric's coordinates about the mode
    ints: np.ndarray
    floats: np.ndarray


class OneNormal(MixtureSampler):
    """One multivariate normal given the mean and the covariance of a release: the same cost for any number of records.

    It is for ``MultivariateNormalKernel`` and a mixture of one component, without noise, or under Gaussian noise of one
    scale on records that were not clamped.
    """

    takes_correlated = frozenset({"none", "noise"})
    keeps_records = False
    starts_near_records = False

    # --- what the chains see of the release --------------------------------------------------------------------------

    def summarise(self, values: Any, Z: Any, release: Any) -> Moments:
        (n, d), (_, channel, kernel, _) = Z.shape, values
        parts = [Z[first : first + CHUNK] for first in range(0, n, CHUNK)]
        mean = sum(rows.sum(axis=0) for rows in parts) / n
        scatter = sum((rows - mean).T @ (rows - mean) for rows in parts)
        noise = 0.0 if release.mechanism is None else float(channel.noise[0]) ** 2
        seen = Moments(mean, scatter, np.array([n, noise]), np.zeros(d * (d + 1) // 2), np.eye(d * (d + 1) // 2))
        centre = mode(kernel, seen)
        return seen._replace(centre=centre, metric=metric_at(kernel, seen, centre))

    # --- chains ------------------------------------------------------------------------------------------------------

    def init(self, values: Any, Z: Any, records: Any, sizes: Any, rng: np.random.Generator) -> NormalState:
        point = rng.standard_normal(Z.centre.size)
        return NormalState(point, np.zeros(2, dtype=np.int64), np.array([log(0.7)]))

    def restored(self, values: Any, Z: Any, kernel: Any, mixing: Any, state: Any, fresh: Any, n_sweeps: int) -> Any:
        state = same_layout(fresh, state)
        require_sweeps(state.ints[N_SWEEPS], n_sweeps)
        require_range(0, 2**62, ints=state.ints)
        require_finite(point=state.point)
        require_range(-20.0, 3.0, floats=state.floats[LOG_STEP])
        check_concentration(mixing, 1.0, 1)
        return state

    def advance(
        self, values: Any, Z: Any, state: Any, rng: np.random.Generator, n_sweeps: int, n_warmup: int, thin: int
    ) -> Any:
        vectors, matrices = scratch(Z)
        fields = {"kernel": values[2], "seen": Z, "vectors": vectors, "matrices": matrices}
        sampler, done = lower(type(self), fields, frozen=False), state.ints[N_SWEEPS:]
        n = n_kept(done[0], n_sweeps, n_warmup, thin)
        ones, theta = np.ones(n, np.int64), np.zeros((n, n_columns(len(Z.mean))))
        draws = Draws(ones, ones, np.ones(n), np.ones(n), theta)
        run_chain(sampler, state, rng, done, n_sweeps, n_warmup, thin, draws)
        rest = {"n_atoms": 2 * ones, "weights": np.tile([1.0, 0.0], n), "theta": np.repeat(theta, 2, axis=0)}
        return state, draws._replace(**rest)  # the last atom stands for what is left, which is nothing

    @compiled
    def sweep(self, state, rng, warming_up):
        """Paths of L in the metric's coordinates; ``self`` is the value that ``advance`` makes."""
        kernel, seen, vectors, matrices = self.kernel, self.seen, self.vectors, self.matrices
        ints, floats, size = state.ints, state.floats, state.point.size
        for a in range(size):
            vectors[POINT, a] = state.point[a]
        current = log_target(kernel, seen, vectors, matrices, POINT)
        for _ in range(N_PATHS):
            start = current
            for a in range(size):
                vectors[PROPOSAL, a] = vectors[POINT, a]
                vectors[MOMENTUM, a] = rng.standard_normal()
                start -= 0.5 * vectors[MOMENTUM, a] ** 2
            step = exp(floats[LOG_STEP]) * (0.7 + 0.6 * rng.random())
            proposed = follow(1 + int(rng.random() * N_STEPS), step, kernel, seen, vectors, matrices)
            end = proposed
            for a in range(size):
                end -= 0.5 * vectors[MOMENTUM, a] ** 2
            gain = end - start
            probability = exp(min(gain, 0.0)) if gain > -inf else 0.0  # nan, too
            if warming_up:
                ints[N_TUNED] += 1
                step = floats[LOG_STEP] + max(ints[N_TUNED] ** -0.6, 0.01) * (probability - TARGET)
                floats[LOG_STEP] = min(max(step, -20.0), 0.2)
            if rng.random() < probability:
                current = proposed
                for a in range(size):
                    vectors[POINT, a] = vectors[PROPOSAL, a]
        for a in range(size):
            state.point[a] = vectors[POINT, a]

    @compiled
    def keep(self, state, rng, draws, row):
        log_target(self.kernel, self.seen, self.vectors, self.matrices, POINT)
        draw_mean(rng, self.kernel, self.seen, self.vectors, self.matrices, draws.theta, row)


def n_columns(d):
    """Of θ, as ``MultivariateNormalKernel`` has it."""
    return 4 * d + d * (d + 1) + 1


def scratch(Z):
    return np.zeros((N_VECTORS, Z.centre.size)), np.zeros((N_MATRICES, len(Z.mean), len(Z.mean)))


def mode(kernel, Z):
    """The mode of the posterior of L, by BFGS from the covariance of the release minus that of the noise.

    A poor mode does no harm to exactness: it only sets the start and the metric of the chains.
    """
    d, (n, noise) = len(Z.mean), Z.law
    prior = np.zeros((d, d))
    prior[np.tril_indices(d)] = kernel.prior_scale
    prior = np.tril(prior) + np.tril(prior, -1).T
    values, sides = np.linalg.eigh((Z.scatter + prior) / (n + kernel.dof + d + 1.0) - noise * np.eye(d))
    floor = np.diag(prior).min() / (n + kernel.dof + d + 1.0)
    root = np.linalg.cholesky((sides * np.maximum(values, floor)) @ sides.T)
    units = np.sqrt(np.diag(prior))[:, None]
    start = np.where(np.eye(d, dtype=bool), np.log(np.abs(root) + 1e-300), root / units)[np.tril_indices(d)]
    size = sqrt(n + kernel.dof)  # in which steps are about 1

    def loss(x):
        value, slope = target_and_slope(kernel, Z, x / size)
        return (-value, -slope / size) if np.isfinite(value) else (np.inf, np.zeros_like(x))

    return minimize(loss, start * size, jac=True, method="BFGS").x / size


def metric_at(kernel, Z, centre):
    """Lower factor of the inverse curvature of the log density at a point; curvature is at least one of the prior."""
    size, n = centre.size, Z.law[0]
    h = 1e-3 / sqrt(n + kernel.dof)
    moved = [[target_and_slope(kernel, Z, centre + s * h * e)[1] for s in (1, -1)] for e in np.eye(size)]
    curvature = np.array([(down - up) / (2.0 * h) for up, down in moved])
    values, sides = np.linalg.eigh(0.5 * (curvature + curvature.T))
    return np.linalg.cholesky((sides / np.maximum(values, 1.0)) @ sides.T)


def target_and_slope(kernel, Z, x):
    """Log density of L, up to a constant, and its gradient."""
    vectors, matrices = scratch(Z)
    value = evaluate(kernel, Z._replace(centre=x, metric=np.eye(x.size)), vectors, matrices)
    return value, vectors[FORCE].copy()


# --- compiled --------------------------------------------------------------------------------------------------------


@entry
def evaluate(kernel, seen, vectors, matrices):
    """The log density at the centre, its gradient into ``vectors[FORCE]``."""
    value = log_target(kernel, seen, vectors, matrices, POINT)
    set_force(kernel, seen, vectors, matrices)
    return value


@helper
def unit(kernel, i):
    """Of feature i: rows of L are in it, so that data in other units make the same walk."""
    return sqrt(kernel.prior_scale[i * (i + 3) // 2])


@helper
def set_root(kernel, seen, vectors, matrices, which):
    """L of a point, into ``matrices[ROOT]``; returns the sum of what L's coordinates add to the log density."""
    d, centre, x, at, value = kernel.n_features, seen.centre, vectors[FIRST], 0, 0.0
    multiply_lower(seen.metric, vectors[which], x, centre.size)
    for i in range(d):
        for j in range(i + 1):
            place = centre[at] + x[at]
            matrices[ROOT, i, j] = place * unit(kernel, i) if j < i else exp(min(place, 300.0))
            if j == i:  # the inverse Wishart's determinant, and the Jacobian of Σ in (log L_ii, L_ij)
                value += (d + 1.0 - i - (kernel.dof + d + 1.0)) * place
            at += 1
    return value


@helper
def log_target(kernel, seen, vectors, matrices, which):
    """Log density of a point, up to a constant; -inf beyond floating point.  Leaves L and the factors of T and C."""
    d, n, noise = kernel.n_features, seen.law[0], seen.law[1]
    root, total, of_mean, e = matrices[ROOT], matrices[OF_TOTAL], matrices[OF_MEAN], vectors[SECOND]
    value = set_root(kernel, seen, vectors, matrices, which)
    for i in range(d):
        if not 1e-150 < root[i, i] < 1e150:
            return -inf
    share = 1.0 / kernel.precision + 1.0 / n
    for i in range(d):
        for j in range(i + 1):
            product = 0.0
            for r in range(j + 1):
                product += root[i, r] * root[j, r]
            total[i, j] = product
            of_mean[i, j] = share * product
        total[i, i] += noise
        of_mean[i, i] += noise / n
    factor(total, d)
    factor(of_mean, d)
    for i in range(d):
        e[i] = seen.mean[i] - kernel.prior_mean[i]
    solve_lower(of_mean, e, d)
    for i in range(d):
        value -= 0.5 * e[i] * e[i] + log(of_mean[i, i]) + (n - 1.0) * log(total[i, i])
    for j in range(d):  # tr(Ψ Σ⁻¹) and tr(S T⁻¹): column j of the matrix, solved
        value -= 0.5 * trace_of(kernel, seen.scatter, root, e, d, j, True)
        value -= 0.5 * trace_of(kernel, seen.scatter, total, e, d, j, False)
    return value if value > -1e300 else -inf


@helper
def trace_of(kernel, scatter, root, e, d, j, is_prior):
    """Entry (j, j) of A⁻¹ B, A = root root', B the prior's scale or the scatter; column j of A⁻¹ B goes into ``e``."""
    for i in range(d):
        a, b = max(i, j), min(i, j)
        e[i] = kernel.prior_scale[a * (a + 1) // 2 + b] if is_prior else scatter[i, j]
    solve_lower(root, e, d)
    solve_upper(root, e, d)
    return e[j]


@helper
def set_force(kernel, seen, vectors, matrices):
    """Gradient at the point whose factors are in ``matrices``, in the metric's coordinates, into ``vectors[FORCE]``.

    With G the slope in Σ, that in L is 2 G L: G = Σ⁻¹ΨΣ⁻¹/2 - ((n - 1) T⁻¹ - T⁻¹ST⁻¹)/2 - c (C⁻¹ - vv')/2, v = C⁻¹(z̄ -
    m), c = 1/λ + 1/n; the inverse Wishart's determinant is in the coordinates' own part.
    """
    d, n = kernel.n_features, seen.law[0]
    root, total, of_mean, slope = matrices[ROOT], matrices[OF_TOTAL], matrices[OF_MEAN], matrices[SLOPE]
    e, force = vectors[SECOND], vectors[FORCE]
    share = 1.0 / kernel.precision + 1.0 / n
    for j in range(d):  # the four terms are added to zeros
        for i in range(d):
            slope[j, i] = 0.0
    add_sandwich(kernel, seen.scatter, root, vectors, slope, d, True)
    add_sandwich(kernel, seen.scatter, total, vectors, slope, d, False)
    for j in range(d):
        add_inverse(total, e, slope, d, j, 1.0 - n)
        add_inverse(of_mean, e, slope, d, j, -share)
    for i in range(d):
        e[i] = seen.mean[i] - kernel.prior_mean[i]
    solve_lower(of_mean, e, d)
    solve_upper(of_mean, e, d)
    at = 0
    for i in range(d):
        for j in range(i + 1):
            value = 0.0
            for r in range(j, d):
                value += (slope[i, r] + share * e[i] * e[r]) * root[r, j]
            if i == j:
                force[at] = value * root[i, i] + (d + 1.0 - i - (kernel.dof + d + 1.0))
            else:
                force[at] = value * unit(kernel, i)
            at += 1
    multiply_upper(seen.metric, force, force.size)


@helper
def add_inverse(root, e, slope, d, j, times):
    """Add so many times column j of (root root')⁻¹."""
    for i in range(d):
        e[i] = 1.0 if i == j else 0.0
    solve_lower(root, e, d)
    solve_upper(root, e, d)
    for i in range(d):
        slope[i, j] += times * e[i]


@helper
def add_sandwich(kernel, scatter, root, vectors, slope, d, is_prior):
    """Add A⁻¹ B A⁻¹, A = root root': the products of the columns of A⁻¹ with the rows of B A⁻¹."""
    e, f = vectors[SECOND], vectors[FIRST]
    for j in range(d):
        for i in range(d):
            e[i] = 1.0 if i == j else 0.0
        solve_lower(root, e, d)
        solve_upper(root, e, d)  # column j of A⁻¹
        for i in range(d):
            f[i] = 0.0
            for r in range(d):
                a, b = max(i, r), min(i, r)
                f[i] += (kernel.prior_scale[a * (a + 1) // 2 + b] if is_prior else scatter[i, r]) * e[r]
        solve_lower(root, f, d)
        solve_upper(root, f, d)
        for i in range(d):
            slope[i, j] += f[i]


@helper
def follow(n_steps, step, kernel, seen, vectors, matrices):
    """A path of leapfrog steps of the proposal; returns its log density, -inf if it left floating point."""
    point, momentum, force = vectors[PROPOSAL], vectors[MOMENTUM], vectors[FORCE]
    value = log_target(kernel, seen, vectors, matrices, PROPOSAL)
    set_force(kernel, seen, vectors, matrices)
    for _ in range(n_steps):
        for a in range(point.size):
            momentum[a] += 0.5 * step * force[a]
            point[a] += step * momentum[a]
        value = log_target(kernel, seen, vectors, matrices, PROPOSAL)
        if not value > -inf:
            return -inf
        set_force(kernel, seen, vectors, matrices)
        for a in range(point.size):
            momentum[a] += 0.5 * step * force[a]
    return value


@helper
def draw_mean(rng, kernel, seen, vectors, matrices, theta, k):
    """μ given Σ and z̄ into row k of θ, with all that follows: a prior draw u of μ - m and e of z̄ - μ, moved to fit.

    μ = m + u + (Σ/λ) C⁻¹ (z̄ - m - u - e) has the conditional distribution (Matheron's rule).
    """
    d, n, noise = kernel.n_features, seen.law[0], seen.law[1]
    root, of_mean = matrices[ROOT], matrices[OF_MEAN]
    gap, at = vectors[SECOND], kernel.at_root
    for i in range(d):
        theta[k, 4 * i + 1], theta[k, 4 * i + 2] = rng.standard_normal(), rng.standard_normal()
    for i in range(d):
        u, e = 0.0, sqrt(noise / n) * rng.standard_normal()
        for r in range(i + 1):
            u += root[i, r] * theta[k, 4 * r + 1] / sqrt(kernel.precision)
            e += root[i, r] * theta[k, 4 * r + 2] / sqrt(n)
        theta[k, 4 * i] = kernel.prior_mean[i] + u
        gap[i] = seen.mean[i] - theta[k, 4 * i] - e
    solve_lower(of_mean, gap, d)
    solve_upper(of_mean, gap, d)
    multiply_upper(root, gap, d)
    for i in range(d):
        for r in range(i + 1):
            theta[k, 4 * i] += root[i, r] * gap[r] / kernel.precision
            theta[k, at] = root[i, r]
            at += 1
    kernel.complete(theta, k)
