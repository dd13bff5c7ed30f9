"""Linear regression given the design, in terms of its moments: no model of the predictors, and no records.

In coordinates in which the public bounds are [-1, 1], with u = (1, x), d = p + 1 and y = u'γ + N(0, τ²), the moments
are G = Σ u u', b = Σ u y and c = Σ y².  Given G they are b ~ N(Gγ, τ²G) and, independent of it, a residual sum of
squares c - b'G⁻¹b ~ τ² χ²(n - d): exact for normal errors, whatever the predictors are.  So with G/n = LL'

    γ = m + R ε,   w = √n L'γ + τ z,   b = √n L w,   c = |w|² + τ² q,   ε, z ~ N(0, I),   q ~ χ²(n - d),

and a point (L, ε, z, log q, log τ) determines all moments.  Its prior is simple: G/n is flat on the moments that
records within the bounds can have, so L has density Π_i L_ii^(d-i), i from 0 (Muirhead 1982, theorem 2.1.9; L_00 = 1),
and ε, z, q and τ are independent of it.  A small τ or a singular G is not an edge in these coordinates, as it is for
the moments themselves: much noise leaves G near the singular ones, and in G a path would break off there.

What G/n can be is in ``_possible_designs``.
"""

from math import exp, inf, lgamma, log, sqrt

from .._base.compiled import Component, compiled, lower
from .._base.linear import factor, solve_lower, update_factor
from ._possible_designs import first_exit, log_volume, row, set_design
from ._regression_prior import COEF_SCALE, draw_residual, draw_scores, log_residual, residual_force, set_coefs


class MomentRegression(Component):
    """The regression's prior, and its maps between a point, the moments, and parameters.

    A point is (L without its corner, row by row; ε; z; log q; log τ if it is unknown; a number that rounds to n if n is
    unknown).  Moments are in the order of ``RegressionMoments``.

    Parameters
    ----------
    prior : ScaledPrior
    n_records : int
        0 if it is unknown.
    most : int
        Largest possible number of records.
    """

    def __init__(self, prior, n_records, most):
        self.prior = prior
        self.n_records = n_records
        self.most = most

    @property
    def n_design(self):
        """Number of entries in L without its corner; G/n has as many."""
        p = len(self.prior.mean) - 1
        return p + p * (p + 1) // 2

    @property
    def n_coordinates(self):
        return self.n_design + 2 * len(self.prior.mean) + 1 + (self.prior.sigma is None) + (self.n_records == 0)

    def _lower(self, **context):
        prior = self.prior
        fields = {
            "d": len(prior.mean),
            "design": self.n_design,
            "mean": prior.mean,
            "spread": prior.root,
            "unit": prior.unit,
            "covariance": prior.covariance,
            "sigma": 0.0 if prior.sigma is None else float(prior.sigma),
            "shape": float(prior.shape),
            "scale": float(prior.scale),
            "rate": float(prior.rate),
            "known": float(self.n_records),
            "most": float(self.most),
        }
        return lower(type(self), fields)

    # --- a point; rows of ``work`` are L, then γ, then w, then scratch ------------------------------------------------

    @compiled
    def number(self, point):
        """n"""
        return self.known if self.known > 0.0 else float(int(point[point.size - 1] + 0.5))

    @compiled
    def tau(self, point):
        """τ of a point; beyond 1e100 it is not used, so that a path that went astray does not overflow."""
        return self.sigma if self.sigma > 0.0 else exp(min(point[self.design + 2 * self.d + 1], 300.0))

    @compiled
    def degrees(self, n):
        """Degrees of freedom of the residual sum of squares."""
        return n - self.d

    @compiled
    def set_moments(self, point, moments, work):
        """Write the moments of a point; False if there are none."""
        d, at = self.d, self.design
        root, gamma, w, log_q = work, work[d], work[d + 1], point[at + 2 * d]
        if not (self.known > 0.0 or d + 0.5 <= point[point.size - 1] < self.most + 0.5):
            return False
        n, tau = self.number(point), self.tau(point)
        if not (abs(log_q) < 200.0 and 1e-100 < tau < 1e100 and set_design(point, root, n, moments, d)):
            return False
        for a in range(d):
            gamma[a] = self.mean[a]
            for b in range(d):
                gamma[a] += self.spread[a, b] * point[at + b]
        squares, many = 0.0, sqrt(n)
        for a in range(d):
            value = 0.0
            for i in range(a, d):
                value += root[i, a] * gamma[i]
            w[a] = many * value + tau * point[at + d + a]
            squares += w[a] * w[a]
        for a in range(d):
            value = 0.0
            for i in range(a + 1):
                value += root[a, i] * w[i]
            moments[a] = many * value
        moments[d] = squares + tau * tau * exp(log_q)
        return True

    @compiled
    def log_prior(self, point, work):
        """Log density of a point that :meth:`set_moments` found possible."""
        d, at = self.d, self.design
        value, half, log_q = 0.0, 0.5 * self.degrees(self.number(point)), point[at + 2 * d]
        for a in range(2 * d):
            value -= 0.5 * point[at + a] * point[at + a]
        value += half * (log_q - log(2.0)) - 0.5 * exp(log_q) - lgamma(half)
        if self.sigma == 0.0:
            value += log_residual(self.shape, self.scale, self.rate, exp(point[at + 2 * d + 1]))
        return value + log_volume(work, d)

    @compiled
    def set_force(self, point, slope, force, work):
        """Gradient of the log density for a given n, where ``slope`` is that of the noise in each of the moments.

        It is computed by reverse differentiation of :meth:`set_moments`, which left L, γ and w in ``work``, and of
        :meth:`log_prior`.
        """
        d, at = self.d, self.design
        root, gamma, w, by_w, by_root = work, work[d], work[d + 1], work[d + 2], work[d + 3 :]
        n, tau, many = self.number(point), self.tau(point), sqrt(self.number(point))
        q = exp(point[at + 2 * d])
        by_tau = 2.0 * tau * q * slope[d]
        for i in range(d):
            by_w[i] = 2.0 * slope[d] * w[i]
            for a in range(i, d):
                by_w[i] += many * root[a, i] * slope[a]
        for i in range(d):
            by_tau += point[at + d + i] * by_w[i]
            force[at + d + i] = tau * by_w[i] - point[at + d + i]
            for a in range(i, d):
                by_root[a, i] = many * (slope[a] * w[i] + gamma[a] * by_w[i])
        for b in range(d):
            force[at + b] = -point[at + b]
        for a in range(d):
            value = 0.0
            for i in range(a + 1):
                value += many * root[a, i] * by_w[i]
            for b in range(d):
                force[at + b] += self.spread[a, b] * value
        half = 0.5 * self.degrees(n)
        force[at + 2 * d] = tau * tau * q * slope[d] + half - 0.5 * q
        if self.sigma == 0.0:
            force[at + 2 * d + 1] = tau * by_tau + residual_force(self.shape, self.scale, self.rate, tau)
        entry = 2 * d  # of the moments: E x_j x_k
        for j in range(1, d):
            by_root[j, 0] += n * slope[d + j]
            by_root[j, j] += (d - j) / root[j, j]
            for k in range(j, d):
                for r in range(j + 1):
                    by_root[k, r] += n * slope[entry] * root[j, r]
                    by_root[j, r] += n * slope[entry] * root[k, r]
                entry += 1
        entry = 0
        for j in range(1, d):
            for r in range(j + 1):
                force[entry] = by_root[j, r]
                entry += 1
        if self.known == 0.0:
            force[point.size - 1] = 0.0

    @compiled
    def first_exit(self, point, velocity, normal):
        return first_exit(point, velocity, normal, self.d)

    @compiled
    def draw_tau(self, rng, tau, n, squares):
        """τ given the sum of the squares of all n residuals, and the τ before."""
        return draw_residual(rng, self.shape, self.scale, self.rate, tau, n, squares)

    @compiled
    def draw_coefs(self, rng, matrix, gamma):
        """γ given records, their precision of γ and that times their γ, which are overwritten."""
        draw_scores(rng, self.unit, self.mean, matrix, gamma, self.d)
        set_coefs(self.unit, self.mean, gamma, self.d)

    @compiled
    def update_given_moments(self, rng, point, work):
        """γ, then τ, given the moments, which do not change; ε, z and q change with them.  L and w are in ``work``."""
        d, at, n, tau = self.d, self.design, self.number(point), self.tau(point)
        root, gamma, w, matrix = work, work[d], work[d + 1], work[d + 3 :]
        residual, rate, many = tau * tau * exp(point[at + 2 * d]), tau**-2, sqrt(n)
        for a in range(d):
            for b in range(a + 1):
                value = 0.0
                for r in range(b + 1):
                    value += root[a, r] * root[b, r]
                matrix[a, b] = n * rate * value
            gamma[a] = 0.0
            for r in range(a + 1):
                gamma[a] += many * rate * root[a, r] * w[r]
        draw_scores(rng, self.unit, self.mean, matrix, gamma, d)
        for a in range(d):
            point[at + a] = gamma[a] * (1.0 / COEF_SCALE)
        set_coefs(self.unit, self.mean, gamma, d)
        squares = residual
        for a in range(d):  # z, times τ
            value = w[a]
            for i in range(a, d):
                value -= many * root[i, a] * gamma[i]
            point[at + d + a] = value
            squares += value * value
        if self.sigma == 0.0:
            tau = self.draw_tau(rng, tau, n, squares)
            point[at + 2 * d + 1] = log(tau)
        point[at + 2 * d] = log(residual) - 2.0 * log(tau)
        for a in range(d):
            point[at + d + a] /= tau

    @compiled
    def set_number(self, point, value, to, moments, scratch, work):
        """Write into ``to`` the point with the moments of ``point`` where n's coordinate is ``value``; False if none.

        If τ is unknown, it goes with the residuals' mean square: log τ is shifted by what n and the moments determine.
        """
        d, at, column = self.d, self.design, work[self.d + 2]
        for a in range(point.size):
            to[a] = point[a]
        if not self.d + 0.5 <= value < self.most + 0.5:
            return False
        to[point.size - 1] = value
        n, new = self.number(point), self.number(to)
        ratio = n / new
        matrix = work[d + 3 :]  # without the first row and column, G/n is the square of this and of the means
        for j in range(1, d):
            column[j - 1] = sqrt(abs(1.0 - ratio)) * point[row(j)]
            to[row(j)] = ratio * point[row(j)]
            for r in range(1, j + 1):
                matrix[j - 1, r - 1] = point[row(j) + r]
        if not update_factor(matrix, column, 1.0 if ratio < 1.0 else -1.0, d - 1):
            return False
        for j in range(1, d):
            for r in range(1, j + 1):
                to[row(j) + r] = sqrt(ratio) * matrix[j - 1, r - 1]
        if not set_design(to, work, new, scratch, d):
            return False
        w, many = work[d + 1], sqrt(new)
        for a in range(d):
            w[a] = moments[a] / many
        solve_lower(work, w, d)
        residual = moments[d]
        for a in range(d):
            residual -= w[a] * w[a]
        if not residual > 0.0:
            return False
        if self.sigma > 0.0:
            to[at + 2 * d] = log(residual) - 2.0 * log(self.sigma)
        else:
            to[at + 2 * d] += log(self.degrees(new) / self.degrees(n))
            to[at + 2 * d + 1] = 0.5 * (log(residual) - to[at + 2 * d])
        return True

    @compiled
    def log_given_sums(self, point, moments, work):
        """Log density of n, log τ and all moments, γ integrated out, up to a constant; -inf if it is impossible.

        Other than :meth:`log_design` it is of G, not G/n, of b, not w, and of c, not log q.
        """
        d, n, log_q, log_tau = self.d, self.number(point), point[self.design + 2 * self.d], log(self.tau(point))
        half, value = 0.5 * self.degrees(n), self.log_design(point, moments, work)
        if value == -inf:
            return value
        value -= log_volume(work, d) + (0.5 * d + self.design) * log(n)
        value += half * (log_q - log(2.0)) - 0.5 * exp(log_q) - lgamma(half)
        if self.sigma == 0.0:
            value += log_residual(self.shape, self.scale, self.rate, exp(log_tau))
        return value - 2.0 * log_tau - log_q

    @compiled
    def log_design(self, point, moments, work):
        """Log density of G and b with γ integrated out, given q and τ, up to a constant; -inf if G is impossible.

        b is that of ``moments`` and does not change.  The other moments are written for L in ``point``, whose volume is
        included.
        """
        d, at, n, tau = self.d, self.design, self.number(point), self.tau(point)
        root, column, w, matrix = work, work[d], work[d + 1], work[d + 3 :]
        if not set_design(point, root, n, moments, d):
            return -inf
        many = sqrt(n)
        for a in range(d):
            w[a] = moments[a] / many
        solve_lower(root, w, d)
        squares = 0.0
        for a in range(d):
            squares += w[a] * w[a]
        moments[d] = squares + tau * tau * exp(point[at + 2 * d])
        for b in range(d):  # n L'C L + τ² I
            for i in range(d):
                column[i] = 0.0
                for r in range(b, d):
                    column[i] += self.covariance[i, r] * root[r, b]
            for a in range(b, d):
                value = 0.0
                for i in range(a, d):
                    value += root[i, a] * column[i]
                matrix[a, b] = n * value
            matrix[b, b] += tau * tau
        factor(matrix, d)
        for a in range(d):
            value = w[a]
            for i in range(a, d):
                value -= many * root[i, a] * self.mean[i]
            column[a] = value
        solve_lower(matrix, column, d)
        result = log_volume(root, d)
        for a in range(d):
            result -= 0.5 * column[a] * column[a] + log(root[a, a]) + log(matrix[a, a])
        return result
