"""The released moments of a regression, if records with their mean and covariance are clamped as normal ones are.

Let (1, z_i, e_i) be the standardised predictors and residual of a record, and KK' = Σ (1, z, e)(1, z, e)' with a lower
triangular K.  Scaled coordinates u_i = (x_i, y_i) are linear in (1, z_i, e_i), with coefficients that θ determines, so
θ and K determine their mean and covariance.  If g cuts them at -1 and 1, and were they normal,

    E g(u_a) g(u_b) = E g(u_a) E g(u_b) + P_a P_b cov(u_a, u_b),   P_a the share of u_a within the bounds,

where only one is ever beyond them (Stein's lemma), and nearly so otherwise.  Where no bound is reached, these are the
moments themselves.  For n standard normal (z, e), and for e where the predictors are given,

    K_ab ~ N(0, 1) for b < a,   K_aa² ~ χ²(n - a),   all independent, and independent of K⁻¹(1, z_i, e_i)

(Bartlett's decomposition: Muirhead 1982, theorem 3.2.14).  A point has the blocks of non-centred moves one after the
other, then K row by row; of predictors without a block K is held, and so are the predictors.  A diagonal entry is given
by √2 times the log of K_aa²/(n - a), times √(n - a)/2, which is roughly standard normal, too.

Methods of :class:`RecordMoments` whose names end in ``row`` and ``rows`` say where things are in the scratch.
"""

from math import erf, exp, inf, log, pi, sqrt

from .._base.compiled import compiled, helper
from ._records import RecordModel
from ._regression_prior import SCORE_PRECISION, residual_force

SMALLEST = 1e-10  # K_aa²/n: smaller ones are rounding
LEAST_VARIANCE = 1e-20
#: E g, E g² and P, then their derivatives by mean and variance; that of E g by the mean is P.
MEAN, SQUARE, SHARE, MEAN_BY_V, SQUARE_BY_M, SQUARE_BY_V, SHARE_BY_M, SHARE_BY_V = range(8)


class RecordMoments(RecordModel):
    """What Hamiltonian paths need."""

    @property
    def n_coordinates(self):
        q = len(self.bounds)
        return sum(self.block_sizes) + (q * (q + 3) // 2 if self.x.size else q + 1)

    @compiled
    def number(self, point):
        """Paths know no other number of records."""
        return self.known

    @compiled
    def first_exit(self, point, velocity, normal):
        """There is no edge."""
        return inf

    # --- rows of the scratch, whose first p + 2 are the factor of the products of (1, x, y) ---------------------------

    @compiled
    def root_rows(self):
        """K."""
        return slice(self.p + 2, 2 * self.p + 4)

    @compiled
    def image_rows(self):
        """``coef_rows`` times K."""
        return slice(2 * self.p + 4, 3 * self.p + 5)

    @compiled
    def coef_rows(self):
        """Scaled coordinates x_1, ..., x_p, y in terms of (1, z, e)."""
        return slice(3 * self.p + 5, 4 * self.p + 6)

    @compiled
    def shift_row(self):
        """What is added to the moments; it may depend on what a point does not have."""
        return 4 * self.p + 6

    @compiled
    def theta_row(self):
        """θ of a point."""
        return 4 * self.p + 7

    @compiled
    def image_slope_rows(self):
        """Derivatives by ``image_rows``."""
        return slice(4 * self.p + 8, 5 * self.p + 9)

    @compiled
    def coef_slope_rows(self):
        """Derivatives by ``coef_rows``."""
        return slice(5 * self.p + 9, 6 * self.p + 10)

    @compiled
    def carried_rows(self):
        """Of the sampler: scaled coordinates in terms of (1, x, y)."""
        return slice(6 * self.p + 10, 7 * self.p + 11)

    @compiled
    def total_row(self):
        """Of the sampler: a value of the query."""
        return 7 * self.p + 11

    @compiled
    def standard_rows(self):
        """Of the sampler: (1, z, e) in terms of (1, x, y)."""
        return slice(7 * self.p + 12, 8 * self.p + 14)

    @compiled
    def cut_rows(self):
        """What cutting makes of each coordinate: rows ``MEAN`` to ``SHARE_BY_V``."""
        return slice(8 * self.p + 14, 8 * self.p + 22)

    # --- moments ------------------------------------------------------------------------------------------------------

    @compiled
    def first_free(self):
        """The first row of K in a point."""
        return 1 if self.n_blocks() > 1 else self.p + 1

    @compiled
    def set_point(self, theta, work, point, v):
        """The point of θ and of K in the scratch; ``v`` is scratch, too."""
        at, root = 0, work[self.root_rows()]
        for block in range(self.n_blocks()):
            self.get_block(theta, block, v)
            for a in range(self.block_size(block)):
                point[at + a] = v[a]
            at += self.block_size(block)
        for a in range(self.first_free(), self.p + 2):
            degrees = root[0, 0] ** 2 - a
            for b in range(a):
                point[at + b] = root[a, b]
            point[at + a] = sqrt(2.0 * degrees) * (log(root[a, a]) - 0.5 * log(degrees))
            at += a + 1

    @compiled
    def set_theta(self, point, theta):
        """θ of a point; what the point does not have stays.  Returns where K begins."""
        at = 0
        for block in range(self.n_blocks()):
            self.set_block(theta, block, point[at:])
            at += self.block_size(block)
        return at

    @compiled
    def set_root(self, point, at, root):
        """K of a point; False if an entry of the diagonal is too small."""
        for a in range(self.first_free(), self.p + 2):
            degrees = root[0, 0] ** 2 - a
            for b in range(a):
                root[a, b] = point[at + b]
            root[a, a] = sqrt(degrees) * exp(min(point[at + a] / sqrt(2.0 * degrees), 300.0))
            at += a + 1
            if not root[a, a] ** 2 > SMALLEST * root[0, 0] ** 2:
                return False
        return True

    @compiled
    def has_root(self, work):
        """Whether no entry of K's diagonal is too small, or none at all."""
        root = work[self.root_rows()]
        for a in range(self.p + 2):
            if not root[a, a] ** 2 > SMALLEST * root[0, 0] ** 2:
                return False
        return True

    @compiled
    def set_moments(self, point, moments, work):
        """Write the moments of a point, and the shift; what the predictors without a block determine stays.

        Returns False if there are none.
        """
        theta, root = work[self.theta_row()], work[self.root_rows()]
        if not self.set_root(point, self.set_theta(point, theta), root):
            return False
        self.set_expected(theta, moments, work, self.n_blocks() > 1)
        return True

    @compiled
    def set_expected(self, theta, moments, work, predictors):
        """The moments under θ and K, and the shift; without ``predictors``, their part is as it was.

        Row a of ``coefs`` has scaled coordinate a (x_1, ..., x_p, y) in terms of (1, z, e).
        """
        p, root, shift = self.p, work[self.root_rows()], work[self.shift_row()]
        image, coefs, cut = work[self.image_rows()], work[self.coef_rows()], work[self.cut_rows()]
        self.set_coefs(theta, coefs, predictors)
        many, is_cut = root[0, 0], self.n_blocks() > 1
        n = many * many
        for a in range(0 if predictors else p, p + 1):
            for b in range(p + 2):
                value = 0.0
                for r in range(b, a + 2):
                    value += coefs[a, r] * root[r, b]
                image[a, b] = value
            set_cut(cut, a, image[a, 0] / many, covariance(image, a, a, n), is_cut or a == p)
        moments[0] = n * cut[MEAN, p] + shift[0]
        moments[p + 1] = n * cut[SQUARE, p] + shift[p + 1]
        for j in range(p):
            moments[1 + j] = n * cut_product(image, cut, j, p, n) + shift[1 + j]
        if predictors:
            at = 2 * p + 2
            for j in range(p):
                moments[p + 2 + j] = n * cut[MEAN, j] + shift[p + 2 + j]
                moments[at] = n * cut[SQUARE, j] + shift[at]
                for r in range(j + 1, p):
                    moments[at + r - j] = n * cut_product(image, cut, j, r, n) + shift[at + r - j]
                at += p - j

    @compiled
    def log_prior(self, point, work):
        """Log density of a point that :meth:`set_moments` found possible."""
        value, root = 0.0, work[self.root_rows()]
        for block in range(self.n_blocks()):
            value += self.log_prior_block(work[self.theta_row()], block)
        for a in range(self.first_free(), self.p + 2):
            for b in range(a + 1):
                value -= 0.5 * root[a, b] ** 2
            value += (root[0, 0] ** 2 - a) * log(root[a, a])
        return value

    @compiled
    def set_force(self, point, slope, force, work):
        """Gradient of the log density, where ``slope`` is that of the noise in each of the moments."""
        p, theta, root, predictors = self.p, work[self.theta_row()], work[self.root_rows()], self.n_blocks() > 1
        coefs, by_image, by = work[self.coef_rows()], work[self.image_slope_rows()], work[self.coef_slope_rows()]
        differentiate(p, slope, work[self.image_rows()], work[self.cut_rows()], root[0, 0], by_image, predictors)
        for a in range(0 if predictors else p, p + 1):
            for r in range(p + 2):
                by[a, r] = 0.0
                for b in range(r + 1):
                    by[a, r] += by_image[a, b] * root[r, b]
        rate, y = self.rate[p], by[p]
        force[0] = rate * y[0]
        for j in range(p):
            value = y[0] * self.centre[j]
            for r in range(p + 1):
                value += y[r] * coefs[j, r] / self.rate[j]
                by[j, r] += rate * theta[1 + j] / self.rate[j] * y[r]
            force[1 + j] = rate * value
        at = p + 1
        if self.knows_sigma == 0.0:
            by_prior = residual_force(self.sigma_shape, self.sigma_scale, self.sigma_rate, theta[at])
            force[at] = rate * theta[at] * y[at] + by_prior
            at += 1
        for a in range(p + 1):
            score = 0.0
            for b in range(a, p + 1):
                score += self.coef_whiten[a, b] * (theta[b] - self.coef_mean[b])
            for b in range(a, p + 1):
                force[b] -= SCORE_PRECISION * score * self.coef_whiten[a, b]
        if predictors:
            self.x.set_force(theta, by, force[at:])
            at += self.x.block_size()
        for r in range(self.first_free(), p + 2):
            for b in range(r + 1):
                value = -root[r, b]
                for a in range(max(r - 1, 0), p + 1):
                    value += coefs[a, r] * by_image[a, b]
                force[at + b] = value
            degrees = root[0, 0] ** 2 - r
            force[at + r] = (force[at + r] * root[r, r] + degrees) / sqrt(2.0 * degrees)
            at += r + 1


@helper
def differentiate(p, slope, image, cut, many, by_image, predictors):
    """Derivatives of the noise's log density by ``image``; without ``predictors`` only those of the last row."""
    n = many * many
    for a in range(0 if predictors else p, p + 1):
        along = by_image[a]  # of the products with other coordinates, by P_a image[a]
        for r in range(p + 2):
            along[r] = 0.0
        of_mean = slope[0] if a == p else slope[p + 2 + a]
        of_square = slope[p + 1] if a == p else slope[2 * p + 2 + a * p - a * (a - 1) // 2]
        for b in range(p + 1):
            if a != b:
                j, k = min(a, b), max(a, b)
                weight = slope[2 * p + 2 + j * p - j * (j - 1) // 2 + k - j] if k < p else slope[1 + j]
                of_mean += weight * cut[MEAN, b]
                for r in range(1, b + 2):
                    along[r] += weight * cut[SHARE, b] * image[b, r]
        of_share = 0.0
        for r in range(1, a + 2):
            of_share += along[r] * image[a, r] / n
        by_mean = of_mean * cut[SHARE, a] + of_square * cut[SQUARE_BY_M, a] + of_share * cut[SHARE_BY_M, a]
        by_variance = of_mean * cut[MEAN_BY_V, a] + of_square * cut[SQUARE_BY_V, a] + of_share * cut[SHARE_BY_V, a]
        along[0] = many * by_mean
        for r in range(1, p + 2):
            along[r] = cut[SHARE, a] * along[r] + 2.0 * by_variance * image[a, r]


@helper
def set_cut(cut, a, mean, variance, is_cut):
    """What cutting makes of coordinate a, were it normal, and the derivatives; it may be that it is not cut."""
    variance = max(variance, LEAST_VARIANCE)
    sd = sqrt(variance)
    low, high = (-1.0 - mean) / sd, (1.0 - mean) / sd
    at_low, at_high, below, above = 0.0, 0.0, 0.0, 0.0
    if is_cut:
        at_low, at_high = exp(-0.5 * low * low) / sqrt(2.0 * pi), exp(-0.5 * high * high) / sqrt(2.0 * pi)
        below, above = 0.5 + 0.5 * erf(low / sqrt(2.0)), 0.5 - 0.5 * erf(high / sqrt(2.0))
    share = 1.0 - below - above
    inside = mean * share + sd * (at_low - at_high)  # E u where it is within the bounds
    cut[MEAN, a] = inside + above - below
    cut[SHARE, a] = share
    cut[MEAN_BY_V, a] = 0.5 * (at_low - at_high) / sd
    cut[SQUARE_BY_M, a] = 2.0 * inside
    cut[SQUARE_BY_V, a] = share - (at_low + at_high) / sd
    cut[SHARE_BY_M, a] = (at_low - at_high) / sd
    edges = low * at_low - high * at_high
    cut[SHARE_BY_V, a] = 0.5 * edges / variance
    inside_square = mean * (mean * share + 2.0 * sd * (at_low - at_high)) + variance * (share + edges)
    cut[SQUARE, a] = inside_square + below + above


@helper
def cut_product(image, cut, a, b, n):
    """E g(u_a) g(u_b), a < b."""
    return cut[MEAN, a] * cut[MEAN, b] + cut[SHARE, a] * cut[SHARE, b] * covariance(image, a, b, n)


@helper
def covariance(image, a, b, n):
    """Of two coordinates, a <= b: the first has nothing beyond place a + 1."""
    value = 0.0
    for r in range(1, a + 2):
        value += image[a, r] * image[b, r]
    return value / n
