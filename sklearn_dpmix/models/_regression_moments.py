"""Linear regression given the design, as its moments see it: no model of the predictors, and no records.

In coordinates in which the public bounds are [-1, 1], with u = (1, x), d = p + 1 and y = u'γ + N(0, τ²), the moments are
G = Σ u u', b = Σ u y and c = Σ y².  Given G they are b ~ N(Gγ, τ²G) and, independent of it, a residual sum of squares
c - b'G⁻¹b ~ τ² χ²(n - d): exact for normal errors, whatever the predictors are.  With γ ~ N(m, C) integrated out,

    b/n = L (L'm + W e),   e ~ N(0, I),   G/n = L L',   L'C L + τ²/n I = W W',   c = b'G⁻¹b + τ² q,   q ~ χ²(n - d).

So a point (G/n, e, log q, log τ) says what all moments are, and what it has for a prior is simple: G/n flat on the
moments that records within the bounds can have, and e, q and τ independent of it.  A small τ or a singular G is no edge
here, which they are for the moments themselves.

**What G/n can be.**  It is positive definite, and E (1 ± x_j)(1 ± x_k) >= 0 for all j, k and signs, which has E x_j² <= 1
and |E x_j| <= 1 in it.  For p <= 2 these are the moments of all laws on the box and of no other (Anstreicher & Burer 2010,
"Computable representations for convex hulls of low-dimensional quadratic forms", Math. Program. 124); for more predictors
they are the usual relaxation, and let in a little more.  That n records are not quite any law is left out as well.
"""

from math import exp, lgamma, log, sqrt

import numpy as np

from .._compiled import Component, compiled, helper, lower
from .._linear import draw_normal, factor, solve_lower

SMALLEST_PIVOT = 1e-13  # of G/n: smaller ones are rounding


class MomentRegression(Component):
    """The regression's prior, and its maps between a point, the moments, and parameters.

    A point is (G/n without its corner: means, then the upper triangle of products row by row; e; log q; log τ where it is
    unknown; a number that rounds to n where that is unknown).  Moments are in the order of ``RegressionMoments``.

    Parameters
    ----------
    prior : ScaledPrior
    n_records : int
        0 where it is unknown.
    most : int
        There are no more records than that.
    """

    def __init__(self, prior, n_records, most):
        self.prior = prior
        self.n_records = n_records
        self.most = most

    @property
    def n_design(self):
        """Numbers in G/n."""
        p = len(self.prior.mean) - 1
        return p + p * (p + 1) // 2

    @property
    def n_coordinates(self):
        return self.n_design + len(self.prior.mean) + 1 + (self.prior.sigma is None) + (self.n_records == 0)

    def _lower(self, **context):
        prior = self.prior
        fields = {
            "d": len(prior.mean),
            "design": self.n_design,
            "mean": prior.mean,
            "covariance": prior.covariance,
            "precision": prior.precision,
            "shift": prior.precision @ prior.mean,
            "sigma": 0.0 if prior.sigma is None else float(prior.sigma),
            "shape": float(prior.shape),
            "scale": float(prior.scale),
            "n_records": float(self.n_records),
            "most": float(self.most),
        }
        return lower(type(self), fields)

    # --- a point ------------------------------------------------------------------------------------------------------

    @compiled
    def number(self, point):
        """n"""
        return self.n_records if self.n_records > 0.0 else float(np.floor(point[point.size - 1] + 0.5))

    @compiled
    def tau(self, point):
        return self.sigma if self.sigma > 0.0 else exp(point[self.design + self.d + 1])

    @compiled
    def degrees(self, n):
        """Of freedom of the residual sum of squares."""
        return n - self.d

    @compiled
    def log_prior(self, point, work):
        """Log density of a point that :meth:`set_moments` found possible, whose factors are in ``work``."""
        d, at = self.d, self.design
        value, half = 0.0, 0.5 * self.degrees(self.number(point))
        for a in range(d):
            value -= 0.5 * point[at + a] * point[at + a]
        log_q = point[at + d]
        value += half * (log_q - log(2.0)) - 0.5 * exp(log_q) - lgamma(half)
        if self.sigma == 0.0:
            log_tau = point[at + d + 1]
            value -= 2.0 * self.shape * log_tau + self.scale * exp(-2.0 * log_tau)
        return value

    @compiled
    def set_moments(self, point, moments, work):
        """Write the moments of a point; False where there are none.

        Rows of ``work``: L, then W, then L'm + W e.
        """
        d, at, n = self.d, self.design, self.number(point)
        root, spread, score = work[:d], work[d : 2 * d], work[2 * d]
        if not (self.d < n <= self.most and abs(point[at + d]) < 200.0):
            return False
        tau = self.tau(point)
        if not (1e-100 < tau < 1e100 and is_possible(point, d - 1) and set_root(point, root, d)):
            return False
        set_spread(self, root, tau * tau / n, spread, work[2 * d + 1])
        for a in range(d):
            score[a] = 0.0
            for i in range(a, d):
                score[a] += root[i, a] * self.mean[i]
            for i in range(a + 1):
                score[a] += spread[a, i] * point[at + i]
        squares = 0.0
        for a in range(d):
            squares += score[a] * score[a]
            value = 0.0
            for i in range(a + 1):
                value += root[a, i] * score[i]
            moments[a] = n * value
        moments[d] = tau * tau * exp(point[at + d]) + n * squares
        for i in range(at):
            moments[d + 1 + i] = n * point[i]
        return True

    # --- γ, and τ given it --------------------------------------------------------------------------------------------

    @compiled
    def draw_coefs(self, rng, n, tau, moments, theta, work):
        """γ given the moments and τ, into ``theta``."""
        d, matrix, rate = self.d, work, tau**-2
        for a in range(d):
            for b in range(a + 1):
                matrix[a, b] = rate * gram(moments, n, d, a, b) + self.precision[a, b]
            theta[a] = rate * moments[a] + self.shift[a]
        draw_normal(rng, matrix, theta, d)

    @compiled
    def draw_tau(self, rng, n, squares):
        """τ given the sum of the squares of all n residuals: τ² is inverse gamma."""
        return sqrt((self.scale + 0.5 * squares) / rng.standard_gamma(self.shape + 0.5 * n))

    @compiled
    def update_tau(self, rng, point, theta, work):
        """γ, then τ, given the moments, which stay; ``work`` is as :meth:`set_moments` of the point left it."""
        d, at, n, tau = self.d, self.design, self.number(point), self.tau(point)
        root, spread, score, rate = work[:d], work[d : 2 * d], work[2 * d], tau**-2
        squares = exp(point[at + d]) * tau * tau
        for a in range(d):  # γ in terms of w = L'γ would want C in them too: in its own terms
            for b in range(a + 1):
                value = 0.0
                for r in range(b + 1):
                    value += root[a, r] * root[b, r]
                spread[a, b] = n * rate * value + self.precision[a, b]
            theta[a] = self.shift[a]
            for r in range(a + 1):
                theta[a] += n * rate * root[a, r] * score[r]
        draw_normal(rng, spread, theta, d)
        residual = squares
        for a in range(d):
            value = -score[a]
            for i in range(a, d):
                value += root[i, a] * theta[i]
            residual += n * value * value
        tau = self.draw_tau(rng, n, residual)
        point[at + d + 1] = log(tau)
        point[at + d] = log(squares) - 2.0 * log(tau)
        self.set_scores(point, work)

    @compiled
    def set_scores(self, point, work):
        """e of a point whose other coordinates are new, from L and L'm + W e in ``work``; W is made anew."""
        d, at, tau = self.d, self.design, self.tau(point)
        root, spread, score, e = work[:d], work[d : 2 * d], work[2 * d], work[2 * d + 1]
        set_spread(self, root, tau * tau / self.number(point), spread, e)
        for a in range(d):
            e[a] = score[a]
            for i in range(a, d):
                e[a] -= root[i, a] * self.mean[i]
        solve_lower(spread, e, d)
        for a in range(d):
            point[at + a] = e[a]


@helper
def gram(moments, n, d, a, b):
    """Entry (a, b) of G, b <= a."""
    if a == 0:
        return n
    if b == 0:
        return moments[d + a]
    row, column = b - 1, a - 1
    return moments[2 * d + row * (d - 1) - row * (row - 1) // 2 + column - row]


@helper
def is_possible(point, p):
    """E (1 ± x_j)(1 ± x_k) >= 0 for all j, k and signs."""
    at = p
    for j in range(p):
        if not (abs(point[j]) <= 1.0 and point[at] <= 1.0):
            return False
        at += 1
        for k in range(j + 1, p):
            total, gap, both = point[j] + point[k], point[j] - point[k], point[at]
            if not (1.0 + both >= abs(total) and 1.0 - both >= abs(gap)):
                return False
            at += 1
    return True


@helper
def set_root(point, root, d):
    """L of G/n; False where that is not positive definite."""
    root[0, 0] = 1.0
    at = d - 1
    for j in range(1, d):
        root[j, 0] = point[j - 1]
        for k in range(j, d):
            root[k, j] = point[at]
            at += 1
    for j in range(1, d):
        for i in range(j, d):
            value = root[i, j]
            for r in range(j):
                value -= root[i, r] * root[j, r]
            if i == j:
                if not value > SMALLEST_PIVOT:
                    return False
                root[j, j] = sqrt(value)
            else:
                root[i, j] = value / root[j, j]
    return True


@helper
def set_spread(model, root, variance, spread, column):
    """W of L'C L + ``variance`` I."""
    d = model.d
    for b in range(d):
        for i in range(d):
            column[i] = 0.0
            for r in range(b, d):
                column[i] += model.covariance[i, r] * root[r, b]
        for a in range(b, d):
            value = variance if a == b else 0.0
            for i in range(a, d):
                value += root[i, a] * column[i]
            spread[a, b] = value
    factor(spread, d)

